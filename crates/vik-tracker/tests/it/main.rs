//! Tracker programs, with real processes. The tests have their own binary, since a program that is
//! run without a shim claims every child of this process in another session.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod calls;
mod conformance;
mod github;
mod github_api;
mod gitlab;
mod gitlab_api;
mod gitlab_refusals;
mod program;
mod programs;
mod redmine;
mod redmine_api;
mod web;

use std::ffi::OsStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vik_tracker::protocol::ProgramTracker;

/// A process without a mark may belong to any running program, so the tests take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a tracker that is a shell script. The arguments of the script begin at `$1`.
fn script(text: &str, timeout: Duration) -> ProgramTracker {
    let args = ["-c", text, "tracker"].map(Into::into);
    ProgramTracker::new(OsStr::new("sh"), &args, timeout).unwrap()
}
