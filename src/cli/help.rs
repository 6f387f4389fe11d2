//! The help: groups of commands, and examples of each.

use std::fmt::Write as _;

use clap::Command;

/// The groups of commands in the help of `vik`, in order, as examples of the commands. Each example
/// is a command line that can be run; those of one command follow each other.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Start",
        &[
            "vik init",
            "vik init --tracker github --agent codex",
            "vik doctor",
            "vik doctor --offline --strict",
            "vik run --dry-run",
            "vik run --once --issue 7",
            "vik run -d --port 8080",
        ],
    ),
    (
        "Watch",
        &[
            "vik status",
            "vik status --all",
            "vik status --link",
            "vik top",
            "vik explain 7",
            "vik show 7",
            "vik show 7 --json",
            "vik diff 7",
            "vik diff 7 --stat",
            "vik diff 7 --attempt 0198f3",
            "vik logs -f 7",
            "vik logs --since 10m --timestamps",
            "vik logs 7 --tail 20 --full",
            "vik runs --since yesterday --outcome failed,timed_out",
            "vik runs --search 'login page' --json",
            "vik runs --stage review --agent codex --limit 20",
            "vik trace log 7",
            "vik trace blame src/main.rs",
            "vik trace verify",
            "vik report --since 24h",
            "vik report --since 1w --markdown",
            "vik schedule",
        ],
    ),
    (
        "Steer",
        &[
            "vik pause",
            "vik pause 7",
            "vik resume",
            "vik resume 7",
            "vik cancel 7",
            "vik retry 7",
            "vik retry 7 --stage review --attempts 2",
            "vik approve 7",
            "vik approve 7 --stage review",
            "vik deny 7",
            "vik deny 7 -m 'Keep the old format readable'",
            "vik answer 7 --choice 2",
            "vik answer 7 'Keep both formats'",
            "vik answer 7 --file decision.md",
            "vik message 7 'Keep the old format readable'",
            "vik message 7 --interrupt 'Stop, use the other table'",
            "vik message 7 --file review.md",
            "vik message 7 --list",
            "vik takeover 7 --open",
            "vik takeover 7 --wait",
            "vik takeover 7 --print",
            "vik handback 7",
            "vik handback 7 -m 'I fixed the parser; add a test for it'",
            "vik refresh",
        ],
    ),
    (
        "Maintain",
        &[
            "vik drain",
            "vik drain --wait --timeout 600",
            "vik stop",
            "vik stop --keep-sessions",
            "vik restart --keep-sessions",
            "vik prune",
            "vik prune --older-than 1w --yes",
            "vik notify test",
            "vik sign-ins",
            "vik sign-ins revoke --all",
            "vik uninstall",
        ],
    ),
    (
        "Trackers and agents",
        &[
            "vik issue new 'Fix the login page' --label bug",
            "vik issue list --state todo",
            "vik issue move 7 review",
            "vik tracker workflow list",
            "vik tracker test --create ./tracker.sh",
            "vik git push",
            "vik git log --issue 7 --oneline",
            "vik vex exec -m claude-sonnet-5-5 'Fix the failing test'",
        ],
    ),
    #[cfg(feature = "temporal")]
    (
        "Many machines",
        &[
            "vik worker install build-1",
            "vik worker install vik@build-1 --labels gpu,linux --capacity 4 --env-file worker.env",
            "vik worker install build-1 --dry-run",
        ],
    ),
    (
        "Editor and shell",
        &[
            "vik schema",
            "vik completions bash",
            "vik man run",
            "vik man --dir ~/.local/share/man/man1",
        ],
    ),
];

/// The heading of examples in the help of a command.
pub const EXAMPLES: &str = "Examples:";

/// Returns the command with its subcommands in groups, and with examples in the help of each.
pub fn with_groups(command: Command) -> Command {
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let all = || GROUPS.iter().flat_map(|(_, group)| commands(group));
    let width = all().map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut groups = String::new();
    for (title, group) in GROUPS {
        let _ = writeln!(groups, "{header}{title}:{header:#}");
        for (name, _) in commands(group) {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(groups, "  {literal}{name:width$}{literal:#}  {about}");
        }
        groups.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{header}Options:{header:#}\n\
         {{options}}{{after-help}}"
    );
    all().fold(command.help_template(template), |command, (name, examples)| {
        command.mut_subcommand(name, |below| {
            let mut text = match below.get_after_help() {
                Some(own) => format!("{}\n\n", own.ansi()),
                None => String::new(),
            };
            let _ = write!(text, "{header}{EXAMPLES}{header:#}");
            for example in examples {
                let _ = write!(text, "\n  {example}");
            }
            below.after_help(text)
        })
    })
}

/// Returns the names of the commands of a group, each with its examples.
fn commands(group: &'static [&'static str]) -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    let name = |example: &'static str| example.split(' ').nth(1).unwrap_or_default();
    let of_commands = group.chunk_by(move |a, b| name(a) == name(b));
    of_commands.map(move |examples| (name(examples[0]), examples))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Splits an example at blanks that are not in single quotes.
    fn args(line: &str) -> Vec<String> {
        let mut args = vec![String::new()];
        let mut quoted = false;
        for c in line.chars() {
            match c {
                '\'' => quoted = !quoted,
                ' ' if !quoted => args.push(String::new()),
                c => args.last_mut().unwrap().push(c),
            }
        }
        args
    }

    #[test]
    fn commands_are_each_in_one_group() {
        let mut listed = BTreeMap::new();
        for (name, _) in GROUPS.iter().flat_map(|(_, group)| commands(group)) {
            *listed.entry(name.to_owned()).or_insert(0) += 1;
        }
        let command = crate::cli::command();
        let expected: BTreeMap<_, _> = command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
            .map(|below| (below.get_name().to_owned(), 1))
            .collect();
        assert_eq!(listed, expected, "add a line to GROUPS");
    }

    #[test]
    fn examples_are_valid_command_lines() {
        for example in GROUPS.iter().flat_map(|(_, group)| *group) {
            let args = args(example);
            assert_eq!(args[0], "vik", "{example}");
            let parsed = crate::cli::command().try_get_matches_from(&args);
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            #[cfg(feature = "vex")]
            if args[1] == "vex" {
                use clap::CommandFactory;
                let parsed = vex::cli::VexArgs::command().try_get_matches_from(&args[1..]);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn help_fits_into_80_columns() {
        let help = crate::cli::command().term_width(80).render_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "shorten the first sentence: {line}");
        }
        let vex = help.lines().find(|line| line.starts_with("  vex "));
        assert_eq!(vex, Some("  vex          Run the built-in agent"));
    }

    #[test]
    fn examples_follow_the_help_of_a_command() {
        let mut command = crate::cli::command();
        let help = command
            .find_subcommand_mut("pause")
            .unwrap()
            .render_help()
            .to_string();
        assert!(
            help.ends_with("until `vik resume`.\n\nExamples:\n  vik pause\n  vik pause 7\n"),
            "{help}"
        );
    }
}
