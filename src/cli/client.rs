//! Verbs that ask a running daemon.

use std::path::Path;

use vik_api::{Response, Verb};

use crate::control::{STOPPING, ask, unknown_issue};
use crate::daemon::{Instance, InstanceInfo, Presence};
use crate::report::{Exit, Failure};
use crate::workflow_file::absolute;

/// The daemon of a workflow, found by its instance folder alone.
///
/// # Errors
/// When there is none (exit 4).
pub fn find(workflow: &Path) -> Result<(Instance, InstanceInfo), Failure> {
    let path = absolute(workflow);
    let instance = Instance::of(&path)?;
    match instance.presence() {
        Presence::Running(info) => Ok((instance, info)),
        Presence::Starting => Err(between(&path)),
        Presence::Dead(_) | Presence::None => Err(no_daemon(&path)),
    }
}

/// There is a daemon, but none that could be asked.
pub fn between(path: &Path) -> Failure {
    Failure::new(
        Exit::NoDaemon,
        "daemon_starting",
        format!("the daemon of {} is starting or ending", path.display()),
    )
    .hint("try again in a moment")
}

/// There is no daemon.
pub fn no_daemon(path: &Path) -> Failure {
    Failure::new(
        Exit::NoDaemon,
        "no_daemon",
        format!("no daemon runs for {}", path.display()),
    )
    .hint("start one with `vik run -d`, or name another workflow with --workflow FILE")
}

/// Asks, and takes an error of the daemon as our own. `None`: it is gone meanwhile.
///
/// # Errors
/// When it lives and cannot be asked, or refuses.
pub fn request(instance: &Instance, info: &InstanceInfo, verb: Verb) -> Result<Option<Response>, Failure> {
    let failure = match ask(&info.socket, verb) {
        Ok(Response::Error(body)) if body.code == STOPPING => body.into(),
        Ok(Response::Error(body)) => return Err(body.into()),
        Ok(response) => return Ok(Some(response)),
        Err(error) => Failure::failed(
            "daemon_unreachable",
            format!("the daemon (pid {}) cannot be asked", info.process.pid),
            &error,
        ),
    };
    // One that ends, or was killed, still has its lock when its socket is closed already.
    if instance.has_lost(info) {
        return Ok(None);
    }
    Err(failure)
}

/// What a daemon did of what it was asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Done {
    /// It is done, and on disk: so many attempts, runs or issues were touched.
    Did(usize),
    /// There was nothing to do, and why.
    Nothing(String),
}

/// Asks the daemon of a workflow to do something, about one issue or all.
///
/// # Errors
/// When no daemon runs (exit 4), when it does not know the issue (exit 8), or when it refuses.
pub fn steer(workflow: &Path, verb: Verb, issue: Option<&str>) -> Result<Done, Failure> {
    let (instance, info) = find(workflow)?;
    match request(&instance, &info, verb)? {
        Some(Response::Done { count }) => Ok(Done::Did(count)),
        Some(Response::Accepted) => Ok(Done::Did(0)),
        Some(Response::Nothing { why }) => Ok(Done::Nothing(why)),
        Some(Response::NotFound) => Err(unknown_issue(issue.unwrap_or_default())),
        Some(_) => Err(nonsense()),
        None => Err(no_daemon(&info.workflow_path)),
    }
}

/// The daemon gave an answer to another question.
pub fn nonsense() -> Failure {
    Failure::new(Exit::Bug, "daemon_nonsense", "the daemon answered something else")
}
