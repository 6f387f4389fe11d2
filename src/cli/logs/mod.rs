//! `vik logs`: session logs as a transcript, as JSON lines, or as the agent printed them.

mod event;
mod raw;
mod style;
mod tail;
mod tool;
mod transcript;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use vik_store::PastAttempt;

use self::style::Paper;
use self::tail::Tail;
use self::transcript::Transcript;
use super::args::LogsArgs;
use super::{CliResult, colored, history};
use crate::report::{Exit, Failure, stdout_width};

/// How often new events are looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Prints logs, and with `--follow` goes on until it is interrupted or its sessions have ended.
pub fn run(workflow: &Path, args: &LogsArgs) -> CliResult {
    let root = history::root(workflow)?;
    if args.raw && !args.unmasked {
        raw::resolve_secrets(workflow)?;
    }
    let mut open: HashMap<PathBuf, Tail> = HashMap::new();
    let selected = |attempt: &PastAttempt| {
        args.issue
            .as_ref()
            .is_none_or(|issue| attempt.record.issue_id.as_str() == issue)
            && args.session.as_ref().is_none_or(|session| {
                attempt
                    .record
                    .session_id
                    .to_string()
                    .starts_with(session.as_str())
            })
    };
    let narrowed = args.issue.is_some() || args.session.is_some();
    let mut transcript = Transcript::new(Paper {
        width: stdout_width(),
        color: colored(&io::stdout()),
        full: args.full,
    });
    let mut first = true;
    loop {
        let mut attempts = history::read(&root)?.attempts;
        attempts.retain(selected);
        if first && attempts.is_empty() && (narrowed || !args.follow) {
            return Err(
                Failure::new(Exit::NotFound, "no_session", "no session is known that fits")
                    .hint("`vik runs` lists all"),
            );
        }
        // Without a wish, the newest session; when following, all that come and those that run.
        if !narrowed && first {
            let newest = attempts.len().saturating_sub(1);
            let keep =
                |at: usize, attempt: &PastAttempt| at == newest || (args.follow && attempt.ended.is_none());
            for (at, attempt) in attempts.iter().enumerate() {
                if !keep(at, attempt) {
                    open.insert(path(attempt, args), Tail::done());
                }
            }
        }
        let mut all_ended = true;
        for attempt in &attempts {
            all_ended &= attempt.ended.is_some();
            let path = path(attempt, args);
            let tail = open.entry(path.clone()).or_default();
            let is_terminal = io::stdout().is_terminal();
            let mut out = io::stdout().lock();
            match tail.print(&path, attempt, args, &mut transcript, (&mut out, is_terminal)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
                Err(error) => {
                    return Err(Failure::failed(
                        "logs",
                        format!("cannot read {}", path.display()),
                        &error,
                    ));
                }
            }
        }
        first = false;
        if !args.follow || (narrowed && all_ended) {
            return Ok(Exit::Done);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn path(attempt: &PastAttempt, args: &LogsArgs) -> PathBuf {
    if args.raw {
        attempt.files.raw()
    } else {
        attempt.files.log()
    }
}
