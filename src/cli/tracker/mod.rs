//! `vik tracker …`: the built-in trackers as programs that speak the tracker protocol, and the test
//! of trackers.

mod args;
mod conformance;
mod output;

#[cfg(test)]
mod tests;

use std::io::{ErrorKind, Read, Write};

use vik_base::report::{ErrorCode, Exit, Failure};
use vik_tracker::Tracker;
use vik_tracker::github::GithubTracker;
use vik_tracker::protocol::{CallError, FilesTracker, Protocol};

pub use args::TrackerArgs;
use args::{ProtocolVerb, TrackerCommand};

use super::CliResult;
use super::issue::report_broken;

/// Runs a verb of `vik tracker`.
pub fn run(args: &TrackerArgs) -> CliResult {
    match &args.command {
        TrackerCommand::Files(files) => {
            let report = |broken: &_| {
                // An unread stderr must not fail the listing.
                let _ = report_broken(&mut std::io::stderr(), broken);
            };
            let tracker = FilesTracker::new(Tracker::new(&files.dir), files.author.name(), report);
            serve(&tracker, &files.verb)
        }
        TrackerCommand::Github(github) => {
            let tracker =
                GithubTracker::new("gh", github.repo.as_deref()).map_err(|error| failure(&error))?;
            serve(&tracker, &github.verb)
        }
        TrackerCommand::Test(test) => conformance::run(test),
        TrackerCommand::Output(output) => answer(output::carry_out(output, &mut std::io::stdin())),
    }
}

/// Carries out one request from the command line, as the protocol defines it.
fn serve(tracker: &dyn Protocol, verb: &ProtocolVerb) -> CliResult {
    answer(respond(tracker, verb, &mut std::io::stdin()))
}

/// Prints the answer of a tracker.
fn answer(answer: Result<serde_json::Value, CallError>) -> CliResult {
    let answer = answer.map_err(|error| failure(&error))?;
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{answer}").and_then(|()| stdout.flush()) {
        // A reader that closed the pipe has read enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let heading = "cannot print the answer";
            Err(Failure::failed(ErrorCode::TrackerFailed, heading, &error))
        }
        _ => Ok(Exit::Done),
    }
}

fn respond(
    tracker: &dyn Protocol,
    verb: &ProtocolVerb,
    stdin: &mut dyn Read,
) -> Result<serde_json::Value, CallError> {
    tracker.call(&verb.request(stdin)?)
}

/// Returns the failure with the exit code of the protocol. Prints how long to wait, if it is known.
fn failure(error: &CallError) -> Failure {
    let (exit, code) = match error {
        CallError::Failed(_) => (Exit::Failed, ErrorCode::TrackerFailed),
        CallError::Usage(_) => (Exit::Usage, ErrorCode::IssueUsage),
        CallError::NotFound(_) => (Exit::NoIssue, ErrorCode::IssueNotFound),
        CallError::Later { wait, .. } => {
            if !wait.is_zero() {
                super::warn(&format!("retry-after: {}\n", wait.as_secs()));
            }
            (Exit::TryLater, ErrorCode::TrackerLater)
        }
    };
    Failure::new(exit, code, error.to_string())
}
