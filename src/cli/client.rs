//! Requests of verbs to a running daemon.

use std::path::Path;

use vik_api::{Action, ErrorBody, Problem, Status};
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_client::{Client, ClientError, Endpoint, blocking};
use vik_core::ids::IssueId;
use vik_core::scheduler::{Command, CommandResult};
use vik_daemon::{Instance, InstanceInfo, Presence};
use vik_orchestrator::api_view;
use vik_workflow::{WorkflowFile, absolute};

/// Finds the daemon of a workflow by its instance folder alone.
///
/// # Errors
/// If no daemon runs (exit 4).
pub fn find(workflow: &Path) -> Result<(Instance, InstanceInfo), Failure> {
    let path = absolute(workflow);
    let instance = Instance::of(&path)?;
    match instance.presence() {
        Presence::Running(info) => Ok((instance, info)),
        Presence::Starting => Err(daemon_starting(&path)),
        Presence::Dead(_) | Presence::None => Err(no_daemon(&path)),
    }
}

/// Returns the error for a daemon that exists but cannot be asked yet or any more.
pub fn daemon_starting(path: &Path) -> Failure {
    Failure::new(
        Exit::NoDaemon,
        ErrorCode::DaemonStarting,
        format!("the daemon for {} is starting or stopping", path.display()),
    )
    .hint("try again in a moment")
}

/// Returns the error for a missing daemon.
pub fn no_daemon(path: &Path) -> Failure {
    Failure::new(
        Exit::NoDaemon,
        ErrorCode::NoDaemon,
        format!("no daemon is running for {}", path.display()),
    )
    .hint("start one with `vik run -d`, or select another workflow with --workflow FILE")
}

/// Like [`find`], but a missing daemon is no failure.
///
/// # Errors
/// If the daemon is starting, or its folder cannot be determined.
pub fn find_running(workflow: &Path) -> Result<Option<(Instance, InstanceInfo)>, Failure> {
    match find(workflow) {
        Err(failure) if failure.code() == ErrorCode::NoDaemon.as_str() => Ok(None),
        found => found.map(Some),
    }
}

/// Sends a request and converts an error of the daemon. Returns `None` if the daemon has exited.
///
/// # Errors
/// If the daemon runs but cannot be reached, or refuses.
pub fn request<T>(
    instance: &Instance,
    info: &InstanceInfo,
    send: impl AsyncFnOnce(&Client) -> Result<T, ClientError>,
) -> Result<Option<T>, Failure> {
    let failure = match blocking(&Endpoint::Unix(info.socket.clone()), send) {
        Ok(response) => return Ok(Some(response)),
        Err(error) if error.is_unknown_path() => return Err(too_old(info)),
        Err(ClientError::Refused(problem)) if problem.code != ErrorCode::Stopping.as_str() => {
            return Err(refused(*problem));
        }
        Err(ClientError::Refused(problem)) => refused(*problem),
        Err(error @ ClientError::Status { .. }) => {
            return Err(Failure::new(
                Exit::Bug,
                ErrorCode::DaemonNonsense,
                "unexpected response from the daemon",
            )
            .with_source(&error));
        }
        Err(error) => Failure::failed(
            ErrorCode::DaemonUnreachable,
            format!("cannot reach the daemon (pid {})", info.process.pid),
            &error,
        ),
    };
    // A daemon that is exiting or was killed can still hold its lock after its socket is closed.
    if instance.has_ended(info) {
        return Ok(None);
    }
    Err(failure)
}

/// Returns the error for a refusal of the daemon.
pub fn refused(problem: Problem) -> Failure {
    let status = problem.status;
    let mut failure = Failure::from(ErrorBody::from(problem));
    let is_usage = [
        ErrorCode::UnknownStage,
        ErrorCode::NoQuestion,
        ErrorCode::AnswerInvalid,
    ]
    .iter()
    .any(|code| failure.code() == code.as_str());
    failure.exit = match status {
        // The same as if no daemon ran.
        _ if is_usage => Exit::Usage,
        404 => Exit::NotFound,
        _ => Exit::Failed,
    };
    failure
}

/// Returns the error for a daemon whose API lacks the path of a request.
fn too_old(info: &InstanceInfo) -> Failure {
    Failure::new(
        Exit::Failed,
        ErrorCode::DaemonTooOld,
        format!(
            "the running daemon (version {}) does not support this command",
            info.version
        ),
    )
    .hint("replace it with `vik restart --keep-sessions`, which leaves its agents running")
}

/// Returns the status of a running daemon, or `None` if it has exited.
///
/// # Errors
/// The errors of [`request`].
pub fn status(instance: &Instance, info: &InstanceInfo) -> Result<Option<Status>, Failure> {
    request(instance, info, async |client| client.state().await)
}

/// The result of an action.
#[derive(Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    /// The action is carried out and on disk. Holds the number of affected attempts, runs or
    /// issues.
    Applied(usize),
    /// There was nothing to do. Holds the reason.
    Nothing(String),
}

/// Requests an action of the daemon of a workflow. If none runs, a command is applied to the ledger.
///
/// # Errors
/// If an action needs a daemon and none runs (exit 4), if the issue is unknown (exit 8), or if the
/// action is refused.
pub fn act(workflow: &Path, action: impl Into<Action>) -> Result<ActionOutcome, Failure> {
    let action = action.into();
    let (instance, info) = match find(workflow) {
        Ok(found) => found,
        Err(error) => {
            return match action {
                Action::Command(command)
                    if error.code() == ErrorCode::NoDaemon.as_str() && command != Command::Drain =>
                {
                    apply_offline(workflow, command)
                }
                _ => Err(error),
            };
        }
    };
    let steered = request(&instance, &info, async |client| client.act(&action).await)?;
    let steered = steered.ok_or_else(|| no_daemon(&info.workflow_path))?;
    Ok(match steered.nothing {
        Some(why) => ActionOutcome::Nothing(why),
        None => ActionOutcome::Applied(steered.count),
    })
}

/// Applies a command to the ledger. The next daemon does what follows from it.
fn apply_offline(workflow: &Path, command: Command) -> Result<ActionOutcome, Failure> {
    let issue = command.issue().cloned();
    let loaded = WorkflowFile::valid(&absolute(workflow), |_| {})?;
    offline_outcome(vik_daemon::offline::apply(&loaded, command)?, issue.as_ref())
}

/// Returns the outcome of a command that was applied to the ledger.
///
/// # Errors
/// If the command was refused.
pub fn offline_outcome(result: CommandResult, issue: Option<&IssueId>) -> Result<ActionOutcome, Failure> {
    match result {
        CommandResult::Done(count) => {
            super::warn("no daemon is running: recorded for the next `vik run`\n");
            Ok(ActionOutcome::Applied(count))
        }
        CommandResult::Sent(_) => Ok(ActionOutcome::Applied(1)),
        CommandResult::NoEffect(reason) => Ok(ActionOutcome::Nothing(reason.to_owned())),
        refused => Err(offline_refusal(refused, issue)),
    }
}

/// Returns the error of a command that was refused without a daemon.
pub fn offline_refusal(result: CommandResult, issue: Option<&IssueId>) -> Failure {
    match result {
        CommandResult::AnswerRefused(refusal) => api_view::answer_refused(&refusal),
        CommandResult::Refused(refusal) => api_view::message_refused(&refusal),
        CommandResult::UnknownStage { stage, known } => api_view::unknown_stage(stage.as_str(), known.iter()),
        _ => api_view::unknown_issue(issue.map_or("", IssueId::as_str))
            .hint("without a daemon, Vik knows only the issues that it has worked on or paused"),
    }
}
