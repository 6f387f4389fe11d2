//! `vik tracker …`: the built-in trackers as programs that speak the tracker protocol, and the test
//! of trackers.

mod args;
mod conformance;
mod output;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::future::pending;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::time::Duration;

use vik_base::report::{ErrorCode, Exit, Failure};
use vik_daemon::Instance;
use vik_session::secrets::Resolver;
use vik_tracker::Tracker;
use vik_tracker::github::GithubTracker;
use vik_tracker::protocol::{CallError, FilesTracker, ProgramTracker, Protocol};
use vik_tracker::redmine::RedmineTracker;
use vik_workflow::{LoadedWorkflow, WorkflowFile};

pub use args::TrackerArgs;
use args::{ProtocolVerb, TrackerCommand};

use super::doctor::Scratch;
use super::issue::report_broken;
use super::{CliResult, runtime, workflow_of_hook};

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

/// Returns the tracker of a workflow, which runs in the folder of the workflow, with the secrets of
/// the pull.
pub fn of_workflow(workflow: &Path) -> Result<ProgramTracker, Failure> {
    let file = WorkflowFile::valid(&workflow_of_hook(workflow), |_| {})?;
    let Some((program, args)) = file.workflow.tracker.as_deref().and_then(<[_]>::split_first) else {
        let heading = format!("{} names no tracker", file.path.display());
        return Err(Failure::new(Exit::Usage, ErrorCode::Usage, heading)
            .hint("name one with `issues: {tracker: github}`, or use `vik tracker github`"));
    };
    let folder = file.path.parent().unwrap_or(Path::new("/"));
    let program = match program.contains('/') {
        true => folder.join(program).into_os_string(),
        false => program.into(),
    };
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    let tracker = ProgramTracker::new(&program, &args, TIMEOUT).map_err(|error| failure(&error))?;
    Ok(tracker.within(folder, secrets(&file)?))
}

/// Returns the secrets of the pull. A hook has those that the workflow gives it, and no others.
fn secrets(file: &LoadedWorkflow) -> Result<Vec<(String, String)>, Failure> {
    let names = &file.workflow.pull.secrets;
    if std::env::var_os("VIK_ATTEMPT_ID").is_some() {
        let Some(missing) = names.iter().find(|name| std::env::var_os(name).is_none()) else {
            return Ok(Vec::new());
        };
        let heading = format!("the tracker needs the secret {missing}, which this hook does not get");
        return Err(
            Failure::new(Exit::Failed, ErrorCode::Secrets, heading).hint(format!(
                "add it to the hooks: `hooks: {{secrets: [{}]}}`",
                names.join(", ")
            )),
        );
    }
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let heading = "cannot read the secrets of the tracker";
    let host = vik_daemon::host(&file.path, &file.workflow, &Instance::of(&file.path)?)?;
    let scratch = Scratch::new().map_err(|error| Failure::failed(ErrorCode::Secrets, heading, &error))?;
    let resolver = Resolver {
        host: &host,
        secrets: &file.workflow.secrets,
        folder: scratch.path(),
    };
    let values = runtime()?
        .block_on(resolver.values(names, pending()))
        .map_err(|error| Failure::failed(ErrorCode::Secrets, heading, &error))?;
    Ok(values.of(names).collect())
}

/// Carries out one request from the command line, as the protocol defines it.
fn serve(tracker: &dyn Protocol, verb: &ProtocolVerb) -> CliResult {
    let answered = respond(tracker, verb, &mut std::io::stdin());
    if let Some(warning) = tracker.warning() {
        super::warn(&format!("warning: {warning}\n"));
    }
    answer(answered)
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
pub fn failure(error: &CallError) -> Failure {
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
