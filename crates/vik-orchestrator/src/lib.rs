//! The daemon's loop: it passes inputs to the scheduler and carries out its effects.
//!
//! An [`Orchestrator`] is made from a [`Setup`]. [`Orchestrator::run`] pulls issues, gives them to
//! the scheduler, commits its decisions to a [`CommitLog`], and only then has them carried out by
//! its [`Effects`]: on this machine by [`LocalEffects`], and where the workspaces are by
//! [`WorkspaceEffects`]. A [`ControlRequest`] is answered between
//! two inputs. An [`Observer`] sees what happens as [`Progress`], and a [`RunSummary`] lists what was
//! done.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod api_view;
mod attempts;
mod commit_queue;
mod control;
mod effects;
mod events;
mod expired;
mod finish;
mod hand_back;
pub mod intake;
mod lifecycle;
mod local_effects;
mod local_workspaces;
mod notices;
mod open_files;
mod orchestrator;
mod person_messages;
mod pressure;
mod progress;
mod pull_loop;
mod reload;
mod requests;
mod retention;
mod run_again;
pub mod service_state;
pub mod signals;
mod status;
mod stopping;
mod tasks;
#[cfg(test)]
mod tests;
mod workers;

use vik_core::scheduler::Filter;

pub use commit_queue::{Closed, CommitFailure, CommitLog, Committing, Recalling};
pub use control::{ActionResult, ControlRequest};
pub use effects::{
    Effects, ExpiredRemoval, ExpiryScan, PullDigest, PullOutput, Removal, Task, WorkspaceEffects,
};
pub use expired::{ExpiryTimes, History, Inventory, remove_expired_files};
pub use finish::{AttemptTotals, RunSummary, SummaryRow};
pub use local_effects::LocalEffects;
pub use local_workspaces::{LocalWorkspaces, remove_workspace};
pub use open_files::OpenFiles;
pub use orchestrator::{Orchestrator, Setup};
pub use progress::{Asked, Awaiting, Observer, Parked, Progress, Silent};
pub use status::{NotifierHealth, StatusSources};

/// How long the loop runs, and what it may start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether the loop ends when there is nothing left to do.
    pub once: bool,
    /// The number of pulls after which the loop ends; `None` uses the workflow's value.
    pub max_iterations: Option<u64>,
    /// Restricts what may start.
    pub filter: Filter,
}

impl Options {
    /// Returns the options as arguments of `run`.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_orchestrator::Options;
    ///
    /// let mut options = Options { max_iterations: Some(3), ..Options::default() };
    /// options.filter.issues.push("7".into());
    /// assert_eq!(options.to_args(), ["--issue=7", "--max-iterations=3"]);
    /// ```
    pub fn to_args(&self) -> Vec<String> {
        let issues = self.filter.issues.iter().map(|id| format!("--issue={id}"));
        let stages = self.filter.stages.iter().map(|name| format!("--stage={name}"));
        let max_iterations = self.max_iterations.map(|max| format!("--max-iterations={max}"));
        issues.chain(stages).chain(max_iterations).collect()
    }
}
