//! `vik issue …`: the embedded tracker.
//!
//! `vik issue list --json` is a pull command. Files that are not issues are reported on stderr and
//! skipped. The exit code is 0 if at least one file is good or if there are no files.

mod args;
mod text;

#[cfg(test)]
mod tests;

use std::io::{Read, Write};
use std::path::Path;

use jiff::Timestamp;
use serde_json::json;
use vik_tracker::{NewIssue, TrackedIssue, Tracker, TrackerError};
use vik_workflow::WorkflowFile;

use super::doctor::used_states;
pub use args::{Author, IssueArgs};
use args::{Change, IssueCommand};
pub use text::report_broken;
use text::{array, clean, pretty, show, table};

/// Runs a verb: writes data to `out` and skipped files to `err`. Without `--dir`, the issues are next
/// to the workflow file. Returns the exit code.
///
/// # Errors
/// If the verb failed. The error has its own exit code, code and hint.
pub fn run(
    workflow: &Path,
    args: &IssueArgs,
    stdin: &mut dyn Read,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<u8, TrackerError> {
    let dir = args.dir.clone();
    let tracker = Tracker::new(dir.unwrap_or_else(|| workflow.with_file_name("issues")));
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
            change,
        } => move_to(&tracker, id, state, from.as_deref(), change, out)?,
        IssueCommand::Close { id, change } => move_to(&tracker, id, "done", None, change, out)?,
        IssueCommand::Comment { id, text, author } => {
            let text = text_or_stdin(text, stdin)?;
            tracker.comment(id, &author.name(), &text, now)?;
            Ok(())
        }
    };
    printed.and_then(|()| out.flush()).map_err(TrackerError::Output)?;
    Ok(0)
}

/// Returns a warning if an issue was moved to a state that means nothing in the workflow, if there
/// is a workflow.
pub fn unknown_state(workflow: &Path, args: &IssueArgs) -> Option<String> {
    let IssueCommand::Move { state, .. } = &args.command else {
        return None;
    };
    let loaded = WorkflowFile::valid(workflow, |_| {}).ok()?;
    let mut known = used_states(&loaded.workflow);
    known.extend(loaded.workflow.issue.terminal_states.iter().cloned());
    if known.contains(state) {
        return None;
    }
    Some(format!(
        "warning: the workflow does not use the state `{}`; known states: {}\n",
        clean(state),
        clean(&known.join(", "))
    ))
}

fn move_to(
    tracker: &Tracker,
    id: &str,
    state: &str,
    from: Option<&str>,
    change: &Change,
    out: &mut dyn Write,
) -> Result<std::io::Result<()>, TrackerError> {
    let author = change.author.name();
    let reason = change.reason.as_deref().filter(|text| !text.trim().is_empty());
    let reason = reason.map(|text| (author.as_str(), text));
    let moved = tracker.move_to(id, state, from, reason, Timestamp::now())?;
    Ok(if change.json {
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

fn text_or_stdin(text: &str, stdin: &mut dyn Read) -> Result<String, TrackerError> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut read = String::new();
    stdin.read_to_string(&mut read).map_err(TrackerError::Input)?;
    Ok(read)
}
