//! Errors of the command line in the form of all other errors.

use std::ffi::OsString;

use vik_base::report::{ErrorCode, Exit, Failure};

/// Converts an error of the parser.
pub fn failure(error: &clap::Error, args: &[OsString]) -> Failure {
    let text = error.render().to_string();
    let (mut heading, mut hints, mut usage) = (String::new(), Vec::new(), None);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(first) = line.strip_prefix("error: ") {
            heading = quoted(first);
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            // The other tip of the parser, to pass a wrong option as a value, is rarely meant.
            if !tip.starts_with("to pass ") {
                hints.push(quoted(tip));
            }
        } else if let Some(values) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            hints.push(values.to_owned());
        } else if let Some(line) = line.strip_prefix("Usage: ") {
            usage = Some(format!("usage: {line}"));
        } else if !line.starts_with("For more information") && usage.is_none() {
            heading = format!("{heading} {}", quoted(line));
        }
    }
    hints.extend(usage);
    hints.push(format!("see `{} --help`", command(args)));
    Failure::new(Exit::Usage, ErrorCode::Usage, heading).hint(hints.join("; "))
}

/// Returns whether the command line asks for JSON.
pub fn wants_json(args: &[OsString]) -> bool {
    let mut args = args.iter().take_while(|arg| *arg != "--");
    args.any(|arg| arg == "--json")
}

/// Returns the command that the arguments name, as `vik issue new`.
fn command(args: &[OsString]) -> String {
    let root = super::command();
    let (mut command, mut name) = (&root, root.get_name().to_owned());
    for arg in args.iter().skip(1) {
        if let Some(below) = command.find_subcommand(arg) {
            command = below;
            name = format!("{name} {}", below.get_name());
        }
    }
    name
}

/// Replaces the quotes of the parser, `'--once'`, with backticks.
fn quoted(text: &str) -> String {
    let mut open = false;
    let chars: Vec<char> = text.chars().collect();
    let is_edge = |at: Option<usize>| {
        let c = at.and_then(|at| chars.get(at));
        c.is_none_or(|c| c.is_whitespace() || ":;,.)(".contains(*c))
    };
    let replace = |(at, c): (usize, &char)| match c {
        '\'' if !open && is_edge(at.checked_sub(1)) => {
            open = true;
            '`'
        }
        '\'' if open && is_edge(Some(at + 1)) => {
            open = false;
            '`'
        }
        c => *c,
    };
    chars.iter().enumerate().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> (String, Option<String>) {
        let args: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let error = crate::cli::command().try_get_matches_from(&args).unwrap_err();
        let failure = failure(&error, &args);
        assert_eq!(failure.exit, Exit::Usage);
        let body = failure.body();
        (body.message, body.hint)
    }

    #[test]
    fn errors_of_the_parser_have_the_form_of_others() {
        for (line, message, hint) in [
            (
                "vik run --onc",
                "unexpected argument `--onc` found",
                "a similar argument exists: `--once`; usage: vik run --once [WORKFLOW]; see `vik run --help`",
            ),
            (
                "vik run -d --once",
                "the argument `--detach` cannot be used with `--once`",
                "usage: vik run --detach [WORKFLOW]; see `vik run --help`",
            ),
            (
                "vik issue move 7",
                "the following required arguments were not provided: <STATE>",
                "usage: vik issue move <ID> <STATE>; see `vik issue move --help`",
            ),
            (
                "vik completions don't",
                "invalid value `don't` for `<SHELL>`",
                "possible values: bash, elvish, fish, powershell, zsh; see `vik completions --help`",
            ),
        ] {
            assert_eq!(of(line), (message.to_owned(), Some(hint.to_owned())), "{line}");
        }
    }

    #[test]
    fn json_is_requested_before_the_separator() {
        let args = |line: &str| line.split(' ').map(Into::into).collect::<Vec<OsString>>();
        assert!(wants_json(&args("vik runs --nothing --json")));
        assert!(!wants_json(&args("vik tracker test -- x --json")));
    }
}
