//! `vik issue …`: the embedded tracker.
//!
//! `vik issue list --json` is a pull command. Files that are not issues are reported on stderr and
//! skipped. The exit code is 0 if at least one file is good or if there are no files.

use std::io::{Read, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;
use vik_tracker::{BrokenFile, NewIssue, TrackedIssue, Tracker, TrackerError};

/// Manage issues as Markdown files, one file per issue
#[derive(Debug, Args)]
pub struct IssueArgs {
    /// Folder with the issues
    #[arg(
        long,
        global = true,
        env = "VIK_ISSUES_DIR",
        default_value = "issues",
        value_name = "DIR"
    )]
    pub dir: PathBuf,

    /// The command to run
    #[command(subcommand)]
    pub command: IssueCommand,
}

/// The verbs of `vik issue`.
#[derive(Debug, Subcommand)]
pub enum IssueCommand {
    /// Create an issue and print its id
    New {
        /// Title, on one line
        title: String,
        /// Description; `-` reads it from stdin
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        body: Option<String>,
        /// Initial state
        #[arg(long, default_value = "todo")]
        state: String,
        /// Label (can be repeated)
        #[arg(long = "label", value_name = "LABEL")]
        labels: Vec<String>,
        /// Priority; lower numbers are scheduled first
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        priority: Option<i64>,
        /// Issue that must be finished first (can be repeated)
        #[arg(long, value_name = "ID")]
        blocked_by: Vec<String>,
        /// Id [default: the next free number]
        #[arg(long)]
        id: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List all issues, including closed ones
    List {
        /// Show only issues in this state (can be repeated)
        #[arg(long = "state", value_name = "STATE")]
        states: Vec<String>,
        /// Print a JSON array, as a pull command does
        #[arg(long)]
        json: bool,
    },
    /// Show one issue
    Show {
        /// Issue ID
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Move an issue to a state
    Move {
        /// Issue ID
        id: String,
        /// New state
        state: String,
        /// Move only if the issue is in this state; otherwise exit with 1
        #[arg(long, value_name = "STATE")]
        from: Option<String>,
        /// Reason, which is added as a comment
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        reason: Option<String>,
        /// Who moves it
        #[command(flatten)]
        author: Author,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Append a comment to an issue
    Comment {
        /// Issue ID
        id: String,
        /// Text; `-` reads it from stdin
        #[arg(allow_hyphen_values = true)]
        text: String,
        /// Who says it
        #[command(flatten)]
        author: Author,
    },
    /// Move an issue to the state `done`
    Close {
        /// Issue ID
        id: String,
        /// Reason, which is added as a comment
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        reason: Option<String>,
        /// Who closes it
        #[command(flatten)]
        author: Author,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Who writes a comment.
#[derive(Debug, Args)]
pub struct Author {
    /// Author of the comment [default: $USER]
    #[arg(
        long = "author",
        env = "VIK_ISSUE_AUTHOR",
        hide_env = true,
        value_name = "NAME"
    )]
    name: Option<String>,
}

impl Author {
    fn name(&self) -> String {
        let user = || {
            ["USER", "LOGNAME"]
                .iter()
                .find_map(|name| std::env::var(name).ok())
        };
        self.name
            .clone()
            .or_else(user)
            .unwrap_or_else(|| "unknown".to_owned())
    }
}

/// Runs a verb: writes data to `out` and skipped files to `err`. Returns the exit code.
///
/// # Errors
/// If the verb failed. The error has its own exit code, code and hint.
pub fn run(
    args: &IssueArgs,
    stdin: &mut dyn Read,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<u8, TrackerError> {
    let tracker = Tracker::new(&args.dir);
    let now = Timestamp::now();
    let printed = match &args.command {
        IssueCommand::New {
            title,
            body,
            state,
            labels,
            priority,
            blocked_by,
            id,
            json,
        } => {
            let body = match body {
                Some(text) => text_or_stdin(text, stdin)?,
                None => String::new(),
            };
            let issue = NewIssue {
                title: title.clone(),
                state: state.clone(),
                body,
                labels: labels.clone(),
                priority: *priority,
                blocked_by: blocked_by.clone(),
                id: id.clone(),
            };
            let id = tracker.create(&issue, now)?;
            if *json {
                writeln!(out, "{}", json!({"id": id}))
            } else {
                writeln!(out, "{id}")
            }
        }
        IssueCommand::List { states, json } => return list(&tracker, states, *json, out, err),
        IssueCommand::Show { id, json } => {
            let issue = tracker.show(id)?;
            if *json {
                pretty(out, &issue)
            } else {
                show(out, &issue)
            }
        }
        IssueCommand::Move {
            id,
            state,
            from,
            reason,
            author,
            json,
        } => move_to(
            &tracker,
            id,
            state,
            from.as_deref(),
            reason.as_deref(),
            author,
            *json,
            now,
            out,
        )?,
        IssueCommand::Close {
            id,
            reason,
            author,
            json,
        } => move_to(
            &tracker,
            id,
            "done",
            None,
            reason.as_deref(),
            author,
            *json,
            now,
            out,
        )?,
        IssueCommand::Comment { id, text, author } => {
            let text = text_or_stdin(text, stdin)?;
            tracker.comment(id, &author.name(), &text, now)?;
            Ok(())
        }
    };
    printed.and_then(|()| out.flush()).map_err(TrackerError::Output)?;
    Ok(0)
}

#[allow(
    clippy::too_many_arguments,
    reason = "two verbs share it, and each has all of these"
)]
fn move_to(
    tracker: &Tracker,
    id: &str,
    state: &str,
    from: Option<&str>,
    reason: Option<&str>,
    author: &Author,
    json: bool,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<std::io::Result<()>, TrackerError> {
    let author = author.name();
    let reason = reason
        .filter(|text| !text.trim().is_empty())
        .map(|text| (author.as_str(), text));
    let moved = tracker.move_to(id, state, from, reason, now)?;
    Ok(if json {
        writeln!(
            out,
            "{}",
            json!({"id": id, "from": moved.from, "to": state, "changed": moved.changed})
        )
    } else if moved.changed {
        writeln!(out, "{}: {} → {}", clean(id), clean(&moved.from), clean(state))
    } else {
        writeln!(out, "{} is already in {}", clean(id), clean(state))
    })
}

fn list(
    tracker: &Tracker,
    states: &[String],
    json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<u8, TrackerError> {
    let listing = tracker.list()?;
    for broken in &listing.broken {
        // An unread stderr must not fail the listing.
        let _ = report_broken(err, broken);
    }
    let wanted = |issue: &&TrackedIssue| states.is_empty() || states.contains(&issue.state);
    let issues: Vec<&TrackedIssue> = listing.issues.iter().filter(wanted).collect();
    let printed = if json {
        array(out, &issues)
    } else {
        table(out, &issues)
    };
    printed.and_then(|()| out.flush()).map_err(TrackerError::Output)?;
    Ok(u8::from(listing.issues.is_empty() && !listing.broken.is_empty()))
}

fn report_broken(err: &mut dyn Write, broken: &BrokenFile) -> std::io::Result<()> {
    writeln!(
        err,
        "skipped {}\n  hint: {}",
        clean(&broken.to_string()),
        broken.hint
    )
}

fn array(out: &mut dyn Write, issues: &[&TrackedIssue]) -> std::io::Result<()> {
    out.write_all(b"[")?;
    for (index, issue) in issues.iter().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        out.write_all(&serde_json::to_vec(&issue.fields())?)?;
    }
    out.write_all(b"\n]\n")
}

fn pretty(out: &mut dyn Write, issue: &TrackedIssue) -> std::io::Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(&issue.fields())?)
}

fn table(out: &mut dyn Write, issues: &[&TrackedIssue]) -> std::io::Result<()> {
    let width = |column: fn(&TrackedIssue) -> &str| {
        issues
            .iter()
            .map(|issue| clean(column(issue)).chars().count())
            .max()
            .unwrap_or(0)
            .min(40)
    };
    let (ids, states) = (width(|issue| &issue.id), width(|issue| &issue.state));
    for issue in issues {
        let (id, state) = (clean(&issue.id), clean(&issue.state));
        writeln!(out, "{id:<ids$}  {state:<states$}  {}", clean(&issue.title))?;
    }
    Ok(())
}

fn show(out: &mut dyn Write, issue: &TrackedIssue) -> std::io::Result<()> {
    writeln!(out, "{}  {}", clean(&issue.id), clean(&issue.title))?;
    writeln!(out, "state: {}", clean(&issue.state))?;
    for (key, value) in &issue.front {
        if !matches!(key.as_str(), "id" | "title" | "state") && !value.is_null() {
            let value = match value {
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Array(items) if items.iter().all(serde_json::Value::is_string) => items
                    .iter()
                    .filter_map(serde_json::Value::as_str)
                    .collect::<Vec<_>>()
                    .join(", "),
                other => other.to_string(),
            };
            writeln!(out, "{}: {}", clean(key), clean(&value))?;
        }
    }
    writeln!(out, "file: {}", clean(&issue.path.display().to_string()))?;
    if !issue.description.is_empty() {
        writeln!(out, "\n{}", clean_lines(&issue.description))?;
    }
    for comment in &issue.comments {
        writeln!(
            out,
            "\n{} · {}\n{}",
            clean(&comment.at),
            clean(&comment.author),
            clean_lines(&comment.text)
        )?;
    }
    Ok(())
}

fn text_or_stdin(text: &str, stdin: &mut dyn Read) -> Result<String, TrackerError> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut read = String::new();
    stdin.read_to_string(&mut read).map_err(TrackerError::Input)?;
    Ok(read)
}

/// Replaces control characters, which a terminal would interpret.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn clean_lines(text: &str) -> String {
    text.chars()
        .filter(|&c| c == '\n' || c == '\t' || !c.is_control())
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        issue: IssueArgs,
    }

    /// Returns exit code, stdout, and stderr or the error.
    fn vik_issue(dir: &std::path::Path, args: &[&str], stdin: &str) -> (u8, String, String) {
        let dir = dir.join("issues").display().to_string();
        let cli = ["vik-issue", "--dir", &dir]
            .into_iter()
            .chain(args.iter().copied());
        let cli = TestCli::try_parse_from(cli).unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = run(&cli.issue, &mut stdin.as_bytes(), &mut out, &mut err);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&dir, "DIR");
        match code {
            Ok(code) => (code, text(out), text(err)),
            Err(error) => (
                error.exit_code(),
                text(out),
                error.to_string().replace(&dir, "DIR"),
            ),
        }
    }

    #[test]
    fn verbs_create_list_move_comment_and_show_issues() {
        let dir = tempfile::tempdir().unwrap();
        let vik = |args: &[&str]| vik_issue(dir.path(), args, "from stdin\n");
        let mut transcript = String::new();
        for args in [
            &["list", "--json"][..],
            &["new", "First", "--body", "-", "--label", "a", "--label", "b"],
            &[
                "new",
                "Second \u{1b}[31m",
                "--state",
                "backlog",
                "--priority",
                "-1",
                "--json",
            ],
            &["new", "Third", "--id", "../x"],
            &["list"],
            &["list", "--state", "backlog"],
            &["move", "1", "review", "--from", "backlog"],
            &[
                "move", "1", "review", "--from", "todo", "--reason", "it works", "--author", "ann",
            ],
            &["move", "1", "review"],
            &["comment", "1", "-", "--author", "bob"],
            &["close", "2", "--json"],
            &["show", "3"],
        ] {
            let (code, out, err) = vik(args);
            transcript += &format!(
                "$ {}\n{out}{err}[{code}]\n",
                args.join(" ").replace('\u{1b}', "ESC")
            );
        }
        insta::assert_snapshot!(transcript, @r#"
        $ list --json
        cannot open the issues folder DIR[1]
        $ new First --body - --label a --label b
        1
        [0]
        $ new Second ESC[31m --state backlog --priority -1 --json
        {"id":"2"}
        [0]
        $ new Third --id ../x
        "../x" cannot be the id of a new issue[2]
        $ list
        1  todo     First
        2  backlog  Second  [31m
        [0]
        $ list --state backlog
        2  backlog  Second  [31m
        [0]
        $ move 1 review --from backlog
        the issue "1" is in state "todo", not in "backlog"[1]
        $ move 1 review --from todo --reason it works --author ann
        1: todo → review
        [0]
        $ move 1 review
        1 is already in review
        [0]
        $ comment 1 - --author bob
        [0]
        $ close 2 --json
        {"id":"2","from":"backlog","to":"done","changed":true}
        [0]
        $ show 3
        no issue "3" in DIR[8]
        "#);
        let (_, shown, _) = vik(&["show", "1"]);
        let stamp = shown
            .lines()
            .find_map(|line| line.strip_suffix(" · ann"))
            .unwrap()
            .to_owned();
        assert!(stamp.parse::<Timestamp>().is_ok());
        let created = shown
            .lines()
            .find_map(|line| line.strip_prefix("created_at: "))
            .unwrap()
            .to_owned();
        let shown = shown.replace(&created, "TIME").replace(&stamp, "TIME");
        let second = shown
            .lines()
            .find_map(|line| line.strip_suffix(" · bob"))
            .unwrap()
            .to_owned();
        insta::assert_snapshot!(shown.replace(&second, "TIME"), @r"
        1  First
        state: review
        created_at: TIME
        labels: a, b
        file: DIR/1-first.md

        from stdin

        TIME · ann
        todo → review: it works

        TIME · bob
        from stdin
        ");
    }

    #[test]
    fn listing_fails_only_when_all_files_are_broken() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("issues")).unwrap();
        assert_eq!(
            vik_issue(dir.path(), &["list", "--json"], ""),
            (0, "[\n]\n".to_owned(), String::new())
        );
        std::fs::write(dir.path().join("issues/x.md"), "---\nstate: a\n---\n").unwrap();
        let (code, out, err) = vik_issue(dir.path(), &["list", "--json"], "");
        assert_eq!((code, out.as_str()), (1, "[\n]\n"));
        assert_eq!(
            err,
            "skipped DIR/x.md:1: it has no `id`\n  hint: add a line such as `id: 1`\n"
        );
        vik_issue(dir.path(), &["new", "good"], "");
        let (code, out, _) = vik_issue(dir.path(), &["list", "--json"], "");
        assert_eq!(code, 0);
        let pull = vik_core::issue::Pull::parse(out.as_bytes()).unwrap();
        assert_eq!((pull.issues.len(), pull.issues[0].id.as_str()), (1, "1"));
    }
}
