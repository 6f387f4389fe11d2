//! Requests of verbs to a running daemon.

use std::path::Path;

use vik_api::{Response, Verb};
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_control::ask;
use vik_daemon::{Instance, InstanceInfo, Presence};
use vik_orchestrator::api_view::unknown_issue;
use vik_workflow::absolute;

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

/// Sends a request and converts an error of the daemon. Returns `None` if the daemon has exited.
///
/// # Errors
/// If the daemon runs but cannot be reached, or refuses.
pub fn request(instance: &Instance, info: &InstanceInfo, verb: Verb) -> Result<Option<Response>, Failure> {
    let failure = match ask(&info.socket, verb) {
        Ok(Response::Error(body)) if body.code == ErrorCode::Stopping.as_str() => body.into(),
        Ok(Response::Error(body)) => return Err(body.into()),
        Ok(response) => return Ok(Some(response)),
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

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The request is carried out and on disk. Holds the number of affected attempts, runs or
    /// issues.
    Applied(usize),
    /// There was nothing to do. Holds the reason.
    Nothing(String),
}

/// Requests an action of the daemon of a workflow, for one issue or for all.
///
/// # Errors
/// If no daemon runs (exit 4), if it does not know the issue (exit 8), or if it refuses.
pub fn send_command(workflow: &Path, verb: Verb, issue: Option<&str>) -> Result<RequestOutcome, Failure> {
    let (instance, info) = find(workflow)?;
    match request(&instance, &info, verb)? {
        Some(Response::Done { count }) => Ok(RequestOutcome::Applied(count)),
        Some(Response::Accepted) => Ok(RequestOutcome::Applied(0)),
        Some(Response::Nothing { why }) => Ok(RequestOutcome::Nothing(why)),
        Some(Response::NotFound) => Err(unknown_issue(issue.unwrap_or_default())),
        Some(_) => Err(unexpected_response()),
        None => Err(no_daemon(&info.workflow_path)),
    }
}

/// Returns the error for an answer of the wrong kind.
pub fn unexpected_response() -> Failure {
    Failure::new(
        Exit::Bug,
        ErrorCode::DaemonNonsense,
        "unexpected response from the daemon",
    )
}
