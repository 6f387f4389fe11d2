//! The reference of the command line: all help texts on one page.

use std::fmt::Write;

use clap::{Command, CommandFactory};

/// The terminal width for wrapping the help, independent of the real one.
const WIDTH: usize = 100;

pub fn markdown() -> String {
    let mut page = String::from(
        "# The command line\n\n<!-- Made by `cargo xtask generate` from the program. Do not edit. -->\n\n\
        Every verb's `--help`. Data goes to stdout, logs to stderr and files. Listings take `--json`.\n",
    );
    section(&mut page, vik::cli::command(), &[]);
    section(&mut page, vex::cli::VexArgs::command(), &["vik"]);
    page
}

/// Writes one command and all below it, each with its full name.
fn section(page: &mut String, command: Command, parents: &[&str]) {
    let mut names: Vec<&str> = parents.to_vec();
    let own = command.get_name().to_owned();
    names.push(&own);
    let full = names.join(" ");
    let mut command = command
        .bin_name(full.clone())
        .term_width(WIDTH)
        .disable_help_subcommand(true)
        // A value from this machine's environment must not get into the page.
        .mut_args(|arg| arg.hide_env_values(true));
    command.build();
    let help = command.render_long_help().to_string();
    let level = "#".repeat((names.len() + 1).min(4));
    let _ = write!(page, "\n{level} {full}\n\n```text\n");
    for line in help.trim_end().lines() {
        let _ = writeln!(page, "{}", line.trim_end());
    }
    page.push_str("```\n");
    let below: Vec<Command> = command
        .get_subcommands()
        .filter(|below| is_listed(below))
        .cloned()
        .collect();
    for below in below {
        section(page, below, &names);
    }
}

/// Returns whether a command is listed. `vik vex` passes everything on to vex, whose own help is at
/// the end of the page.
fn is_listed(command: &Command) -> bool {
    !command.is_hide_set() && !["help", "vex"].contains(&command.get_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_has_a_section_for_every_verb() {
        let page = markdown();
        for verb in vik::cli::command()
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set())
        {
            assert!(
                page.contains(&format!("\n### vik {}\n", verb.get_name())),
                "{}",
                verb.get_name()
            );
        }
        assert!(page.contains("\n#### vik issue new\n") && page.contains("\n#### vik vex exec\n"));
        assert!(
            page.lines().all(|line| line.chars().count() <= WIDTH + 10),
            "wrapped"
        );
    }
}
