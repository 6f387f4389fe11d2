//! What is left to say when the loop ends: the summary and the exit code.

use std::path::PathBuf;

use jiff::Timestamp;
use vik_core::event::Ended;
use vik_core::ids::IssueId;
use vik_core::machine::{IssueMachine, ParkReason, Phase, Run, RunEvent};
use vik_core::outcome::Outcome;
use vik_core::scheduler::{Filter, Hold, Start};
use vik_store::ledger::CommitError;

use super::Orchestrator;
use crate::control::view;
use crate::report::{Exit, one_line};
use crate::session::AttemptEnd;

/// How many characters of an issue's id are shown.
const SHOWN_ID: usize = 60;

/// One attempt in the closing summary.
#[derive(Clone, Debug)]
pub struct SummaryRow {
    /// The issue.
    pub issue: String,
    /// The stage.
    pub stage: String,
    /// Its number within the run.
    pub attempt: u32,
    /// How it ended.
    pub ended: Ended,
    /// Its log.
    pub log: PathBuf,
}

/// What happened, in all.
#[derive(Clone, Debug, Default)]
pub struct RunSummary {
    /// Attempts in the order of their ends.
    pub rows: Vec<SummaryRow>,
    /// Whether it was asked to end.
    pub stopped: bool,
    /// Whether it was asked by the interrupt of a terminal.
    pub interrupted: bool,
    /// Whether any pull succeeded.
    pub any_pull: bool,
    /// Why the last pull failed, where it did.
    pub pull_error: Option<String>,
    /// Issues named on the command line that no pull brought, or that match no stage.
    pub not_found: Vec<IssueId>,
    /// What waits for longer than it was waited for, or for a person: one line each.
    pub waiting: Vec<String>,
    /// What a limit stopped: one line each.
    pub budget: Vec<String>,
    /// Runs that are over, or parked, after a failure: one line each.
    pub failed: Vec<String>,
    /// Runs that succeeded and yet left everything as it was.
    pub no_progress: Vec<String>,
    /// What an earlier daemon parked and nobody freed: one line each.
    pub parked: Vec<String>,
    /// Issues in a state that a stage takes but for upper and lower case: one line each.
    pub misspelled: Vec<String>,
    /// Whether it was drained.
    pub drained: bool,
    /// Why nothing could be kept any more, where that ended it.
    pub broken: Option<CommitError>,
    /// Whether any state, commit or file changed.
    changed: bool,
    /// Whether any run succeeded.
    succeeded: bool,
}

impl RunSummary {
    pub(super) fn add_attempt(&mut self, start: &Start, end: &AttemptEnd) {
        self.changed |= end.ended.workspace_changed == Some(true);
        self.succeeded |= end.ended.outcome == Outcome::Succeeded;
        self.rows.push(SummaryRow {
            issue: start.issue.id.to_string(),
            stage: start.stage.name.to_string(),
            attempt: start.attempt,
            ended: end.ended.clone(),
            log: end.log.clone(),
        });
    }

    pub(super) fn add_note(&mut self, issue: &IssueId, note: &RunEvent) {
        let id = issue;
        let issue = one_line(id.as_str(), SHOWN_ID);
        match note {
            // The issue left the state of the stage.
            RunEvent::Ended { succeeded: true, .. } => self.changed = true,
            RunEvent::Ended {
                stage,
                succeeded: false,
                ..
            }
            | RunEvent::Closed {
                stage,
                succeeded: false,
                ..
            } => {
                // One that failed in an earlier daemon is no failure of this one.
                let is_ours = |row: &SummaryRow| row.issue == id.as_str() && row.stage == stage.as_str();
                if self.rows.iter().any(is_ours) {
                    self.failed.push(format!(
                        "{issue} {stage}: failed, and the issue left the stage's state"
                    ));
                }
            }
            RunEvent::BackingOff { .. }
            | RunEvent::Awaiting { .. }
            | RunEvent::Answered { .. }
            | RunEvent::Parked { .. }
            | RunEvent::Freed { .. }
            | RunEvent::Closed { .. }
            | RunEvent::Unparked { .. } => {}
        }
    }

    fn add_run(&mut self, name: &str, standing: Standing, run: &Run) {
        let (list, text) = match standing {
            Standing::Unlisted => return,
            Standing::Unseen => {
                self.changed |= run.last_succeeded();
                return;
            }
            Standing::Budget(reason) => (&mut self.budget, format!("parked ({})", reason.as_str())),
            Standing::FailedAndParked(reason) => (&mut self.failed, format!("parked ({})", reason.as_str())),
            Standing::Failed => (&mut self.failed, "failed".to_owned()),
            Standing::FailedAndLeft => {
                let text = "failed, and the pull does not bring the issue any more";
                (&mut self.failed, text.to_owned())
            }
            Standing::Parked(reason, since) => {
                (&mut self.parked, format!("{}, since {since:.0}", reason.as_str()))
            }
            Standing::Cancelled => (&mut self.waiting, "parked (cancelled)".to_owned()),
            Standing::StateKept => (&mut self.waiting, "parked, its state did not change".to_owned()),
            Standing::NothingDone => (&mut self.no_progress, "parked, nothing changed".to_owned()),
        };
        list.push(format!("{name}: {text}"));
    }

    /// The exit code: the first that holds (contract, "Exit codes").
    pub fn exit(&self) -> Exit {
        let holds = [
            (Exit::Interrupted, self.stopped),
            (Exit::Budget, !self.budget.is_empty()),
            (Exit::Failed, !self.failed.is_empty()),
            (
                Exit::NotFound,
                !self.any_pull || !self.not_found.is_empty() || !self.misspelled.is_empty(),
            ),
            // What the tracker would say now is not known: the work waits for it.
            (
                Exit::Waiting,
                !self.waiting.is_empty() || !self.parked.is_empty() || self.pull_error.is_some(),
            ),
            (
                Exit::NoProgress,
                !self.no_progress.is_empty() || (self.succeeded && !self.changed),
            ),
        ];
        holds
            .into_iter()
            .find(|(_, holds)| *holds)
            .map_or(Exit::Done, |(exit, _)| exit)
    }
}

/// What is left of a run when the loop ends, as the summary and the exit code have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nothing to say, or it is said with all that waits.
    Unlisted,
    /// No pull has shown what its last attempt did.
    Unseen,
    /// A limit stopped it.
    Budget(ParkReason),
    /// It failed.
    Failed,
    /// It failed, and the pull does not bring its issue any more.
    FailedAndLeft,
    /// It failed, and is parked.
    FailedAndParked(ParkReason),
    /// It was parked before this loop began.
    Parked(ParkReason, Timestamp),
    /// A person cancelled it.
    Cancelled,
    /// It changed something, yet the issue kept its state.
    StateKept,
    /// It changed nothing.
    NothingDone,
}

/// Decides what is left of a run. `is_present`: the last pull brought its issue; `ended_here`: an attempt of it ended in
/// this loop.
fn standing(run: &Run, started_at: Timestamp, is_present: bool, ended_here: bool) -> Standing {
    let failed = run.last.is_some() && !run.last_succeeded() && !run.last_cancelled();
    match &run.phase {
        Phase::Parked { since, reason, .. } => match reason {
            ParkReason::OverBudget | ParkReason::IssueLimit => Standing::Budget(*reason),
            _ if *since < started_at => Standing::Parked(*reason, *since),
            ParkReason::NoProgress if run.changed => Standing::StateKept,
            ParkReason::NoProgress => Standing::NothingDone,
            ParkReason::Cancelled => Standing::Cancelled,
            _ => Standing::FailedAndParked(*reason),
        },
        Phase::Settling { .. } if failed => Standing::Failed,
        Phase::Settling { .. } => Standing::Unseen,
        // No pull brings its issue, so no next attempt starts by itself.
        Phase::BackingOff { .. } if failed && ended_here && !is_present => Standing::FailedAndLeft,
        // What waits for its time or a person is listed with all that waits.
        Phase::Active { .. } | Phase::BackingOff { .. } | Phase::Awaiting { .. } => Standing::Unlisted,
    }
}

impl Orchestrator {
    /// Looks over what is left.
    pub(super) fn close(mut self) -> RunSummary {
        let mut closing = std::mem::take(&mut self.summary);
        closing.broken = self.broken.take().map(|broken| broken.error);
        closing.any_pull = self.counts.ok > 0;
        closing.pull_error = self
            .last_pull
            .take()
            .filter(|_| self.counts.failed_in_a_row > 0)
            .and_then(|last| last.error);
        closing.not_found = self
            .found
            .iter()
            .filter(|(_, found)| !found)
            .map(|(id, _)| id.clone())
            .collect();
        closing.misspelled = std::mem::take(&mut self.misspelled);
        self.summarize_runs(&mut closing);
        // Of a daemon that was told to end, what waits is no news.
        if !closing.stopped && !closing.drained {
            self.summarize_waiting(&mut closing);
        }
        closing
    }

    fn summarize_runs(&self, closing: &mut RunSummary) {
        let Filter { issues, stages } = &self.options.filter;
        let mut runs: Vec<_> = self
            .scheduler
            .runs()
            .filter(|(issue, run)| {
                (issues.is_empty() || issues.contains(issue))
                    && (stages.is_empty() || stages.contains(&run.stage))
            })
            .collect();
        runs.sort_by_key(|(id, run)| (*id, &run.stage));
        for (issue, run) in runs {
            let is_present = self
                .scheduler
                .machine(issue)
                .is_some_and(IssueMachine::is_present);
            let ended_here = closing
                .rows
                .iter()
                .any(|row| row.issue == issue.as_str() && row.stage == run.stage.as_str());
            let name = format!("{} {}", one_line(issue.as_str(), SHOWN_ID), run.stage);
            closing.add_run(&name, standing(run, self.started_at, is_present, ended_here), run);
        }
    }

    fn summarize_waiting(&self, closing: &mut RunSummary) {
        let (waiting, _) = self.scheduler.waiting(self.now(), usize::MAX);
        for waiting in waiting {
            let list = match &waiting.hold {
                Hold::DayLimit { .. } => &mut closing.budget,
                // What the last attempts did is told above.
                Hold::Settling => continue,
                _ => &mut closing.waiting,
            };
            let issue = one_line(waiting.issue.as_str(), SHOWN_ID);
            let hold = view::hold(&waiting.hold);
            let until = hold
                .until
                .map(|until| format!(", until {until:.0}"))
                .unwrap_or_default();
            list.push(format!("{issue} {}: {}{until}", waiting.stage, hold.detail));
        }
    }
}

#[cfg(test)]
mod tests;
