//! Verbs that ask a running daemon.

use std::path::Path;

use vik_api::{Response, Verb};

use super::{Done, print};
use crate::control::ask;
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
        Presence::Starting => Err(Failure::new(
            Exit::NoDaemon,
            "daemon_starting",
            format!("the daemon of {} is starting or ending", path.display()),
        )
        .hint("try again in a moment")),
        Presence::Dead(_) | Presence::None => Err(no_daemon(&path)),
    }
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

/// Asks, and takes an error of the daemon as our own.
///
/// # Errors
/// When it cannot be asked, or refuses.
pub fn request(info: &InstanceInfo, verb: Verb) -> Result<Response, Failure> {
    match ask(&info.socket, verb) {
        Ok(Response::Error(body)) => Err(body.into()),
        Ok(response) => Ok(response),
        Err(error) => Err(Failure::failed(
            "daemon_unreachable",
            format!("the daemon (pid {}) cannot be asked", info.process.pid),
            &error,
        )),
    }
}

/// `vik refresh`
pub fn refresh(workflow: &Path) -> Done {
    let (_, info) = find(workflow)?;
    request(&info, Verb::Refresh)?;
    print("a pull was asked for\n");
    Ok(Exit::Done)
}
