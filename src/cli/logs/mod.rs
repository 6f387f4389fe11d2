//! `vik logs`: prints session logs as a transcript, as JSON lines, or as the agent printed them.

mod parts;
mod raw;
mod remote;
mod scripts;
mod style;
mod tail;
mod transcript;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use vik_base::report::{ErrorCode, Exit, Failure, colored, one_line, stdout_width};
use vik_core::ids::IssueId;
use vik_store::PastAttempt;
use vik_workspace::Layout;

use self::remote::RemoteLogs;
use self::scripts::ScriptOutputs;
use self::style::OutputStyle;
use self::tail::Tail;
use self::transcript::Transcript;
use super::args::LogsArgs;
use super::issue_arg::workflow_hint;
use super::{CliResult, history, warn};

/// How often logs of workers are checked for new events.
const REMOTE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How often logs are checked for new events.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Prints logs. With `--follow` it continues until it is interrupted or the selected sessions have
/// ended.
pub fn run(workflow: &Path, args: &LogsArgs) -> CliResult {
    let layout = history::layout(workflow)?;
    let issue = args.issue.id().map(IssueId::from);
    let mut remote = RemoteLogs::find(workflow, layout.root())?;
    if args.raw && remote.is_some() {
        return Err(remote::raw_is_remote());
    }
    if args.raw && !args.unmasked {
        raw::resolve_secrets(workflow)?;
    }
    let mut open: HashMap<PathBuf, Tail> = HashMap::new();
    let selected = |attempt: &PastAttempt| {
        let record = &attempt.record;
        let is_of_stage = args
            .stage
            .as_ref()
            .is_none_or(|stage| record.stage.as_str() == stage);
        is_of_stage
            && args.session.as_ref().is_none_or(|session| {
                let id = record.session_id.to_string();
                id.starts_with(session.as_str())
            })
    };
    let has_filter = args.issue.id().is_some() || args.session.is_some() || args.stage.is_some();
    let since = args.since.map(|since| since.before(Timestamp::now()));
    let outputs = ScriptOutputs::new(workflow);
    let mut transcript = Transcript::new(OutputStyle {
        width: stdout_width(),
        color: colored(&io::stdout()),
        full: args.full,
        timestamps: args.timestamps,
    });
    let mut is_first = true;
    loop {
        let mut attempts = match &mut remote {
            Some(remote) => remote.attempts(issue.as_ref(), args, has_filter || since.is_some())?,
            None => history::attempts(&layout, issue.as_ref())?,
        };
        let has_none = attempts.is_empty();
        attempts.retain(selected);
        if is_first && attempts.is_empty() && (has_filter || !args.follow) {
            if remote.is_none() && are_on_workers(&layout) {
                return Err(remote::no_hub());
            }
            let hint = args.issue.id().and_then(workflow_hint);
            let message = match &issue {
                Some(issue) if has_none && files_removed(&layout, issue) => {
                    "the files of the issue's sessions were removed, by `vik prune` or because of their age"
                }
                _ => "no matching session found",
            };
            return Err(Failure::new(Exit::NotFound, ErrorCode::NoSession, message)
                .hint(hint.unwrap_or_else(|| "`vik runs` lists all runs".to_owned())));
        }
        // Without a filter: the newest session, or with `--follow` all running and future sessions.
        if !has_filter && since.is_none() && is_first {
            let newest = attempts.len().saturating_sub(1);
            if newest > 0 && !args.follow {
                warn(&newest_of(&attempts));
            }
            let keep = |index: usize, attempt: &PastAttempt| {
                index == newest || (args.follow && attempt.ended.is_none())
            };
            for (index, attempt) in attempts.iter().enumerate() {
                if !keep(index, attempt) {
                    open.insert(path(attempt, args), Tail::done());
                }
            }
        }
        let mut all_ended = true;
        for attempt in &attempts {
            all_ended &= attempt.ended.is_some();
            let path = path(attempt, args);
            // Of a session that starts later, nothing is left out.
            let last = args.tail.filter(|_| is_first);
            let tail = open.entry(path.clone()).or_insert_with(|| Tail::new(last, since));
            let is_terminal = io::stdout().is_terminal();
            let mut out = io::stdout().lock();
            let (texts, out) = ((&mut transcript, &outputs), (&mut out, is_terminal));
            match tail.print(&path, attempt, args, texts, out) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
                Err(error) => {
                    return Err(Failure::failed(
                        ErrorCode::Logs,
                        format!("cannot read {}", path.display()),
                        &error,
                    ));
                }
            }
        }
        is_first = false;
        if !args.follow || (has_filter && all_ended) {
            return Ok(Exit::Done);
        }
        std::thread::sleep(match remote {
            Some(_) => REMOTE_POLL_INTERVAL,
            None => POLL_INTERVAL,
        });
    }
}

/// Returns whether the ledger has attempts of the issue.
fn files_removed(layout: &Layout, issue: &IssueId) -> bool {
    let ledger = history::ledger(layout.root());
    let attempts = ledger.and_then(|ledger| ledger.attempts(Some(issue), 1).ok());
    attempts.is_some_and(|attempts| !attempts.is_empty())
}

/// Returns whether the attempts of the workflow run on workers, which have the logs.
fn are_on_workers(layout: &Layout) -> bool {
    let ledger = history::ledger(layout.root());
    ledger.is_some_and(|ledger| ledger.is_copy().unwrap_or(false))
}

/// Returns the line that names the newest session and the ways to choose another one.
fn newest_of(attempts: &[PastAttempt]) -> String {
    let Some(record) = attempts.last().map(|attempt| &attempt.record) else {
        return String::new();
    };
    format!(
        "the newest of {} sessions, of issue {}; choose with --issue ID, --stage NAME, --session ID or --since WHEN\n",
        attempts.len(),
        one_line(record.issue_id.as_str(), 40)
    )
}

fn path(attempt: &PastAttempt, args: &LogsArgs) -> PathBuf {
    if args.raw {
        attempt.files.raw()
    } else {
        attempt.files.log()
    }
}
