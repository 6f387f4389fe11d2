//! What is left to say when the loop ends: the summary and the exit code.

use std::path::PathBuf;

use jiff::Timestamp;
use vik_core::event::Ended;
use vik_core::ids::IssueId;
use vik_core::machine::{Machine, Note, ParkReason, Phase};
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
pub struct Closing {
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
    /// Whether it was drained.
    pub drained: bool,
    /// Why nothing could be kept any more, where that ended it.
    pub broken: Option<CommitError>,
    /// Whether any state, commit or file changed.
    changed: bool,
    /// Whether any run succeeded.
    succeeded: bool,
}

impl Closing {
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

    pub(super) fn add_note(&mut self, issue: &IssueId, note: &Note) {
        let issue = one_line(issue.as_str(), SHOWN_ID);
        match note {
            // The issue left the state of the stage.
            Note::Ended { succeeded: true, .. } => self.changed = true,
            Note::Ended {
                stage,
                succeeded: false,
                ..
            } => {
                self.failed.push(format!(
                    "{issue} {stage}: failed, and the issue left the stage's state"
                ));
            }
            Note::BackingOff { .. }
            | Note::Awaiting { .. }
            | Note::Answered { .. }
            | Note::Parked { .. }
            | Note::Freed { .. }
            | Note::Unparked { .. } => {}
        }
    }

    /// The exit code: the first that holds (contract, "Exit codes").
    pub fn exit(&self) -> Exit {
        let holds = [
            (Exit::Interrupted, self.stopped),
            (Exit::Budget, !self.budget.is_empty()),
            (Exit::Failed, !self.failed.is_empty()),
            (Exit::NotFound, !self.any_pull || !self.not_found.is_empty()),
            // What the tracker would say now is not known: the work waits for it.
            (
                Exit::Waiting,
                !self.waiting.is_empty() || self.pull_error.is_some(),
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

impl Orchestrator {
    /// Looks over what is left.
    pub(super) fn close(mut self) -> Closing {
        let mut closing = std::mem::take(&mut self.closing);
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
        self.look_over_runs(&mut closing);
        // Of a daemon that was told to end, what waits is no news.
        if !closing.stopped && !closing.drained {
            self.look_over_waiting(&mut closing);
        }
        closing
    }

    fn look_over_runs(&self, closing: &mut Closing) {
        let Filter { issues, stages } = &self.options.filter;
        let mut runs: Vec<_> = self
            .scheduler
            .runs()
            .filter(|(issue, run)| {
                (issues.is_empty() || issues.contains(issue))
                    && (stages.is_empty() || stages.contains(&run.stage))
                    && self.scheduler.machine(issue).is_some_and(Machine::is_present)
            })
            .collect();
        runs.sort_by_key(|(id, run)| (*id, &run.stage));
        for (issue, run) in runs {
            let failed = run.last.is_some() && !run.last_succeeded();
            let name = format!("{} {}", one_line(issue.as_str(), SHOWN_ID), run.stage);
            match &run.phase {
                Phase::Parked { since, reason, .. } => {
                    self.look_over_parked(closing, &name, *since, *reason, run.changed);
                }
                Phase::Settling { .. } if failed && !run.last_cancelled() => {
                    closing.failed.push(format!("{name}: failed"));
                }
                // No pull has told yet what it did to its issue.
                Phase::Settling { .. } => closing.changed |= run.last_succeeded(),
                // What waits for a person is told with all that waits.
                Phase::Active { .. } | Phase::BackingOff { .. } | Phase::Awaiting { .. } => {}
            }
        }
    }

    fn look_over_parked(
        &self,
        closing: &mut Closing,
        name: &str,
        since: Timestamp,
        reason: ParkReason,
        changed: bool,
    ) {
        let line = format!("{name}: parked ({})", reason.as_str());
        match reason {
            ParkReason::OverBudget | ParkReason::IssueLimit => closing.budget.push(line),
            // An earlier daemon has told that it failed.
            _ if since < self.started_at => closing.waiting.push(format!("{line} since {since:.0}")),
            ParkReason::NoProgress if changed => {
                closing
                    .waiting
                    .push(format!("{name}: parked, its state did not change"));
            }
            ParkReason::NoProgress => closing
                .no_progress
                .push(format!("{name}: parked, nothing changed")),
            ParkReason::Cancelled => closing.waiting.push(line),
            _ => closing.failed.push(line),
        }
    }

    fn look_over_waiting(&self, closing: &mut Closing) {
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
