//! `vik tracker test`: whether a program follows the tracker protocol.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::time::Duration;

use vik_base::report::{ErrorCode, Exit, Failure, clean, colored, one_line, paint};
use vik_tracker::conformance::{Options, Report, Status, Subject, test};
use vik_tracker::protocol::{ProgramTracker, check_argument};

use super::args::TestArgs;
use crate::cli::{CliResult, confirm, print_result};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Tests the program, once the user has agreed.
pub fn run(args: &TestArgs) -> CliResult {
    let usage = |text: String| Failure::new(Exit::Usage, ErrorCode::IssueUsage, text);
    let (program, prefix) = args
        .program
        .split_first()
        .ok_or_else(|| usage("no program".to_owned()))?;
    let arguments = args.issue.iter().chain(&args.state);
    for argument in arguments {
        check_argument("--issue or --state", argument).map_err(|error| usage(error.to_string()))?;
    }
    let tracker = ProgramTracker::new(program, prefix, TIMEOUT).map_err(|error| super::failure(&error))?;
    if !args.yes {
        ask(args)?;
    }
    let options = Options {
        subject: args.issue.clone().map_or(Subject::Create, Subject::Issue),
        state: args.state.clone(),
        count: args.count,
        unique: uuid::Uuid::now_v7().simple().to_string(),
    };
    let report = test(&tracker, &options);
    print_result(args.json, &report, || text(&report, colored(&io::stdout())))?;
    Ok(if report.passed { Exit::Done } else { Exit::Failed })
}

/// Asks whether the issue may be changed.
fn ask(args: &TestArgs) -> Result<(), Failure> {
    let refused = |heading| {
        Failure::new(Exit::Usage, ErrorCode::NoAnswer, heading)
            .hint("`--yes` permits the test to change the issue")
    };
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(refused(
            "the test changes an issue, and there is no terminal to ask",
        ));
    }
    let (mut input, mut output) = (io::stdin().lock(), io::stderr().lock());
    match confirm(&mut input, &mut output, &question(args)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(refused("the test was not permitted to change an issue")),
        Err(error) => Err(refused("the question was not answered").with_source(&error)),
    }
}

fn question(args: &TestArgs) -> String {
    let program = args
        .program
        .iter()
        .map(|arg| arg.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    let issue = args.issue.as_ref().map_or_else(
        || "creates an issue".to_owned(),
        |id| format!("changes issue {id}"),
    );
    format!(
        "The test {} with `{}`: it moves it to another state and back, adds one comment, and adds and removes \
         a label.\nContinue? [y/N] ",
        clean(&issue),
        one_line(&program, 200)
    )
}

/// Returns the report as a table for people.
fn text(report: &Report, color: bool) -> String {
    let width = report
        .checks
        .iter()
        .map(|check| check.name.len())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for check in &report.checks {
        let (mark, style) = match check.status {
            Status::Passed => ("✓", "32"),
            Status::Failed => ("✗", "31"),
            Status::Unsure => ("?", "33"),
            Status::Skipped => ("–", "2"),
        };
        let mark = paint(color, style, mark);
        let detail = one_line(&check.detail, 500);
        let _ = writeln!(out, "{mark} {:<width$}  {detail}", check.name);
    }
    let counts = [
        (Status::Passed, "passed"),
        (Status::Failed, "failed"),
        (Status::Unsure, "unsure"),
        (Status::Skipped, "skipped"),
    ];
    let counts = counts.iter().filter_map(|(status, name)| {
        let count = report.count(*status);
        (count > 0).then(|| format!("{count} {name}"))
    });
    let subject = match (report.tracker.as_str(), report.issue.as_str()) {
        ("", _) => "the tracker".to_owned(),
        (tracker, "") => format!("`{}`", one_line(tracker, 60)),
        (tracker, issue) => format!("`{}` with issue {}", one_line(tracker, 60), one_line(issue, 60)),
    };
    let _ = writeln!(out, "\n{subject}: {}", counts.collect::<Vec<_>>().join(", "));
    out
}

#[cfg(test)]
mod tests {
    use vik_tracker::conformance::Check;

    use super::*;

    fn report() -> Report {
        let check = |name, status, detail: &str| Check {
            name,
            status,
            detail: detail.to_owned(),
        };
        Report {
            schema: 1,
            passed: false,
            tracker: "fake\u{1b}".to_owned(),
            issue: "7".to_owned(),
            checks: vec![
                check("list", Status::Passed, "3 issues"),
                check("list.pages", Status::Unsure, "exactly 100 issues"),
                check("move.wrong_from", Status::Failed, "`moved`: expected\nfalse"),
                check("label", Status::Skipped, "`label` is not supported"),
            ],
        }
    }

    #[test]
    fn report_is_a_table_with_a_mark_for_each_check() {
        insta::assert_snapshot!(text(&report(), false), @r"
        ✓ list             3 issues
        ? list.pages       exactly 100 issues
        ✗ move.wrong_from  `moved`: expected false
        – label            `label` is not supported

        `fake⟦U+001B⟧` with issue 7: 1 passed, 1 failed, 1 unsure, 1 skipped
        ");
        assert!(text(&report(), true).starts_with("\u{1b}[32m✓\u{1b}[0m list "));
    }

    #[test]
    fn only_yes_permits_the_test() {
        for (answer, permitted) in [
            ("y\n", true),
            ("Yes\n", true),
            ("\n", false),
            ("", false),
            ("n\n", false),
        ] {
            let mut output = Vec::new();
            assert_eq!(
                confirm(&mut answer.as_bytes(), &mut output, "Continue? ").unwrap(),
                permitted,
                "{answer}"
            );
            assert_eq!(output, b"Continue? ");
        }
    }
}
