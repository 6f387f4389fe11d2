//! `vik tracker …`: the built-in trackers as programs that speak the tracker protocol, and the test
//! of trackers.

mod args;
mod conformance;
mod output;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::time::Duration;

use vik_base::report::{ErrorCode, Exit, Failure};
use vik_tracker::Tracker;
use vik_tracker::github::GithubTracker;
use vik_tracker::protocol::{CallError, FilesTracker, ProgramTracker, Protocol};
use vik_tracker::redmine::RedmineTracker;
use vik_workflow::WorkflowFile;

pub use args::TrackerArgs;
use args::{ProtocolVerb, TrackerCommand};

use super::issue::report_broken;
use super::{CliResult, workflow_of_hook};

/// How long a request to another program may take. The timeout of a hook usually ends it before.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Runs a verb of `vik tracker`.
pub fn run(workflow: &Path, args: &TrackerArgs) -> CliResult {
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
        TrackerCommand::Workflow(args) => serve(&of_workflow(workflow)?, &args.verb),
        TrackerCommand::Gitlab(gitlab) => {
            let tracker = gitlab.tracker().map_err(|error| failure(&error))?;
            serve(&tracker, &gitlab.verb)
        }
        TrackerCommand::Redmine(redmine) => {
            let access = redmine.insecure.access(&redmine.url, "REDMINE_API_KEY");
            let tracker = RedmineTracker::new(&access, &redmine.project).map_err(|error| failure(&error))?;
            serve(&tracker, &redmine.verb)
        }
        TrackerCommand::Test(test) => conformance::run(test),
        TrackerCommand::Output(output) => answer(output::carry_out(output, &mut std::io::stdin())),
    }
}

/// Returns the tracker of a workflow, and changes to the folder of the workflow, in which the
/// tracker runs.
fn of_workflow(workflow: &Path) -> Result<ProgramTracker, Failure> {
    let file = WorkflowFile::valid(&workflow_of_hook(workflow), |_| {})?;
    let Some((program, args)) = file.workflow.tracker.as_deref().and_then(<[_]>::split_first) else {
        let heading = format!("{} names no tracker", file.path.display());
        return Err(Failure::new(Exit::Usage, ErrorCode::Usage, heading)
            .hint("name one with `issues: {tracker: github}`, or use `vik tracker github`"));
    };
    let folder = file.path.parent().unwrap_or(Path::new("/"));
    std::env::set_current_dir(folder).map_err(|error| {
        let heading = "cannot change to the folder of the workflow";
        Failure::failed(ErrorCode::TrackerFailed, heading, &error)
    })?;
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    ProgramTracker::new(program.as_ref(), &args, TIMEOUT).map_err(|error| failure(&error))
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
