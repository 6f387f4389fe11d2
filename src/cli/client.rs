//! Verbs that ask a running daemon.

use std::path::Path;

use vik_api::{Response, Verb};

use crate::control::ask;
use crate::daemon::{Instance, InstanceInfo, Presence};
use crate::report::{Exit, Failure, one_line};
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
    let (_, info) = find(workflow)?;
    match request(&info, verb)? {
        Response::Done { count } => Ok(Done::Did(count)),
        Response::Accepted => Ok(Done::Did(0)),
        Response::Nothing { why } => Ok(Done::Nothing(why)),
        Response::NotFound => Err(unknown_issue(issue.unwrap_or_default())),
        _ => Err(nonsense()),
    }
}

/// No such issue is known.
pub fn unknown_issue(issue: &str) -> Failure {
    Failure::new(
        Exit::NotFound,
        "unknown_issue",
        format!("no issue `{}` is known", one_line(issue, 60)),
    )
    .hint("Vik knows issues that a pull brought in the state of a stage; `vik refresh` pulls now")
}

/// The daemon gave an answer to another question.
pub fn nonsense() -> Failure {
    Failure::new(Exit::Bug, "daemon_nonsense", "the daemon answered something else")
}
