//! The summary and the exit code at the end of the loop.

use std::collections::{HashSet, VecDeque};

use jiff::Timestamp;
use vik_base::report::{Exit, one_line};
use vik_core::attempt::Start;
use vik_core::ended::Ended;
use vik_core::ids::{AttemptId, IssueId, RunId};
use vik_core::machine::{IssueMachine, ParkReason, Phase, Run, RunEvent};
use vik_core::outcome::{CostSource, Outcome, Usage};
use vik_core::scheduler::{Filter, Hold, Scheduler};
use vik_core::time::Now;
use vik_session::attempt::AttemptEnd;

use crate::api_view;
use crate::commit_queue::CommitFailure;
use crate::pull_loop::PullLoop;

/// The maximum number of attempts, and of failed runs, that a summary lists: a daemon may run for
/// months.
const MAX_ROWS: usize = 1000;

/// The maximum number of characters shown of an issue's id.
const SHOWN_ID: usize = 60;

/// One attempt in the final summary.
#[derive(Clone, Debug)]
pub struct SummaryRow {
    pub issue: String,
    pub stage: String,
    /// The number of the attempt within its run.
    pub attempt: u32,
    pub attempt_id: AttemptId,
    pub end: AttemptEnd,
}

/// The sums of attempts.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttemptTotals {
    pub attempts: u64,
    pub succeeded: u64,
    /// Attempts that ended with a question, which is no failure.
    pub asked: u64,
    pub usage: Usage,
    /// The cost that was not estimated; `None` if unknown.
    pub reported_usd: Option<f64>,
    /// The cost of attempts whose cost was estimated; `None` if there are none.
    pub estimated_usd: Option<f64>,
}

impl AttemptTotals {
    fn add(&mut self, ended: &Ended) {
        self.attempts += 1;
        self.succeeded += u64::from(ended.result.outcome == Outcome::Succeeded);
        self.asked += u64::from(ended.result.has_asked());
        self.usage = self.usage.plus(ended.result.usage);
        let Some(usd) = ended.cost_usd else { return };
        let sum = match ended.cost_source {
            CostSource::Estimate => &mut self.estimated_usd,
            _ => &mut self.reported_usd,
        };
        *sum.get_or_insert(0.0) += usd;
    }
}

/// What the loop has done.
#[derive(Clone, Debug, Default)]
pub struct RunSummary {
    /// The latest attempts, in the order in which they ended.
    pub rows: VecDeque<SummaryRow>,
    /// The sums of all attempts.
    pub totals: AttemptTotals,
    /// Whether the loop was asked to stop.
    pub stopped: bool,
    /// Whether the interrupt of a terminal stopped it.
    pub interrupted: bool,
    /// Whether any pull succeeded.
    pub any_pull: bool,
    /// Why the last pull failed, if it did.
    pub pull_error: Option<String>,
    /// The issues named on the command line that were in no pull, or match no stage.
    pub not_found: Vec<IssueId>,
    /// What waits for a person, or longer than the loop waits: one line each.
    pub waiting: Vec<String>,
    /// What a limit stopped: one line each.
    pub budget: Vec<String>,
    /// The runs that ended or are parked after a failure: one line each.
    pub failed: Vec<String>,
    /// The number of such runs that `failed` does not list.
    pub failed_more: usize,
    /// The runs that succeeded but changed nothing.
    pub no_progress: Vec<String>,
    /// What an earlier daemon parked and nobody has unparked: one line each.
    pub parked: Vec<String>,
    /// The issues whose state differs from a stage's state only in case: one line each.
    pub misspelled: Vec<String>,
    /// Whether the loop was drained.
    pub drained: bool,
    /// The failure of a commit that ended the loop, if there was one.
    pub broken: Option<CommitFailure>,
    /// Whether any state, commit or file changed.
    changed: bool,
    /// Whether any run succeeded.
    succeeded: bool,
    /// The runs with an attempt that ended in this loop, until they are over.
    ours: HashSet<RunId>,
}

impl RunSummary {
    pub(super) fn add_attempt(&mut self, start: &Start, end: &AttemptEnd) {
        self.changed |= end.ended.result.changed == Some(true);
        self.succeeded |= end.ended.result.outcome == Outcome::Succeeded;
        self.totals.add(&end.ended);
        self.ours.insert(start.run);
        if self.rows.len() == MAX_ROWS {
            self.rows.pop_front();
        }
        self.rows.push_back(SummaryRow {
            issue: start.issue.id.to_string(),
            stage: start.stage.name.to_string(),
            attempt: start.attempt,
            attempt_id: start.attempt_id,
            end: end.clone(),
        });
    }

    pub(super) fn add_note(&mut self, issue: &IssueId, note: &RunEvent) {
        match note {
            RunEvent::Ended {
                run,
                stage,
                succeeded,
                not_handed_over,
            }
            | RunEvent::Closed {
                run,
                stage,
                succeeded,
                not_handed_over,
            } => {
                let is_ours = self.ours.remove(run);
                if *succeeded && not_handed_over.is_none() {
                    // The issue left the state of the stage.
                    self.changed |= matches!(note, RunEvent::Ended { .. });
                } else if is_ours && self.failed.len() < MAX_ROWS {
                    let issue = one_line(issue.as_str(), SHOWN_ID);
                    let failed = match not_handed_over {
                        Some(_) => "succeeded, but its hand-over failed",
                        None => "failed",
                    };
                    self.failed.push(format!(
                        "{issue} {stage}: {failed}; the issue has left the stage's state"
                    ));
                } else {
                    // A run that failed under an earlier daemon does not count as a failure of this
                    // loop.
                    self.failed_more += usize::from(is_ours);
                }
            }
            RunEvent::HandOverFailed { run, .. } => drop(self.ours.insert(*run)),
            RunEvent::Freed { run, .. } => {
                self.ours.remove(run);
            }
            RunEvent::BackingOff { .. }
            | RunEvent::Continues { .. }
            | RunEvent::HandedOver { .. }
            | RunEvent::Awaiting { .. }
            | RunEvent::Asked { .. }
            | RunEvent::QuestionAnswered { .. }
            | RunEvent::Answered { .. }
            | RunEvent::Parked { .. }
            | RunEvent::Unparked { .. } => {}
        }
    }

    fn add_run(&mut self, name: &str, status: RunStatus, run: &Run) {
        let (list, text) = match status {
            RunStatus::Unlisted => return,
            RunStatus::Unseen => {
                self.changed |= run.last_succeeded();
                return;
            }
            RunStatus::Budget(reason) => (&mut self.budget, format!("parked ({})", reason.as_str())),
            RunStatus::FailedAndParked(reason) => (&mut self.failed, format!("parked ({})", reason.as_str())),
            RunStatus::Failed => (&mut self.failed, "failed".to_owned()),
            RunStatus::FailedAndLeft => {
                let text = "failed; the pull no longer returns the issue";
                (&mut self.failed, text.to_owned())
            }
            RunStatus::Parked(reason, since) => {
                (&mut self.parked, format!("{}, since {since:.0}", reason.as_str()))
            }
            RunStatus::Cancelled => (&mut self.waiting, "parked (cancelled)".to_owned()),
            RunStatus::StateKept => (&mut self.waiting, "parked: its state did not change".to_owned()),
            RunStatus::NothingDone => (&mut self.no_progress, "parked: nothing changed".to_owned()),
        };
        list.push(format!("{name}: {text}"));
    }

    /// Returns the first exit code whose condition holds (contract, "Exit codes").
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_base::report::Exit;
    /// use vik_orchestrator::RunSummary;
    ///
    /// let mut summary = RunSummary::default();
    /// assert_eq!(summary.exit(), Exit::NotFound, "no pull succeeded");
    /// summary.any_pull = true;
    /// assert_eq!(summary.exit(), Exit::Done);
    /// summary.failed.push("7 plan: failed".to_owned());
    /// assert_eq!(summary.exit(), Exit::Failed);
    /// ```
    pub fn exit(&self) -> Exit {
        let holds = [
            (Exit::Interrupted, self.stopped),
            (Exit::Budget, !self.budget.is_empty()),
            (Exit::Failed, !self.failed.is_empty()),
            (
                Exit::NotFound,
                !self.any_pull || !self.not_found.is_empty() || !self.misspelled.is_empty(),
            ),
            // After a failed pull, the state of the tracker is unknown, so work may be waiting.
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

/// The status of a run at the end of the loop, for the summary and the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunStatus {
    /// Not listed, or listed with everything that waits.
    Unlisted,
    /// No pull has returned the issue since the last attempt.
    Unseen,
    /// A limit stopped the run.
    Budget(ParkReason),
    Failed,
    /// The run failed, and the last pull did not return its issue.
    FailedAndLeft,
    /// The run failed and is parked.
    FailedAndParked(ParkReason),
    /// The run was parked before this loop started.
    Parked(ParkReason, Timestamp),
    Cancelled,
    /// The run changed something, but the issue kept its state.
    StateKept,
    /// The run changed nothing.
    NothingDone,
}

/// Returns the status of a run. `is_present`: the last pull returned its issue; `ended_here`: an
/// attempt of it ended in this loop.
fn run_status(run: &Run, started_at: Timestamp, is_present: bool, ended_here: bool) -> RunStatus {
    let failed = run.last.as_ref().is_some_and(|last| !last.has_asked())
        && !run.last_succeeded()
        && !run.last_cancelled();
    match &run.phase {
        Phase::Parked { since, reason, .. } => match reason {
            ParkReason::OverBudget | ParkReason::IssueLimit => RunStatus::Budget(*reason),
            _ if *since < started_at => RunStatus::Parked(*reason, *since),
            ParkReason::NoProgress if run.changed => RunStatus::StateKept,
            ParkReason::NoProgress => RunStatus::NothingDone,
            ParkReason::Cancelled => RunStatus::Cancelled,
            _ => RunStatus::FailedAndParked(*reason),
        },
        Phase::Settling { .. } if failed => RunStatus::Failed,
        Phase::Settling { .. } => RunStatus::Unseen,
        // No pull returns its issue, so the next attempt will not start by itself.
        Phase::BackingOff { .. } if (failed || run.hand_over.is_some()) && ended_here && !is_present => {
            RunStatus::FailedAndLeft
        }
        // Runs that wait for a time or a person are listed with everything that waits.
        Phase::Active { .. }
        | Phase::HandingOver { .. }
        | Phase::BackingOff { .. }
        | Phase::Awaiting { .. }
        | Phase::Asking { .. } => RunStatus::Unlisted,
    }
}

/// The state of the loop at its end.
pub(super) struct FinalState<'a> {
    pub(super) scheduler: &'a Scheduler,
    pub(super) filter: &'a Filter,
    pub(super) pulls: &'a PullLoop,
    pub(super) started_at: Timestamp,
    pub(super) now: Now,
}

impl RunSummary {
    /// Completes the summary at the end of the loop.
    pub(super) fn complete(mut self, broken: Option<CommitFailure>, state: &FinalState<'_>) -> Self {
        let pulls = state.pulls;
        self.broken = broken;
        self.any_pull = pulls.counts().ok > 0;
        let last = pulls.last().filter(|_| pulls.counts().failed_in_a_row > 0);
        self.pull_error = last.and_then(|last| last.error.clone());
        self.not_found = pulls.not_found().cloned().collect();
        self.misspelled = pulls.misspelled().to_vec();
        self.add_runs(state);
        // When the daemon was asked to end, waiting work is expected.
        if !self.stopped && !self.drained {
            self.add_waiting(state);
        }
        self
    }

    fn add_runs(&mut self, state: &FinalState<'_>) {
        let Filter { issues, stages } = state.filter;
        let mut runs: Vec<_> = state
            .scheduler
            .runs()
            .filter(|(issue, run)| {
                (issues.is_empty() || issues.contains(issue))
                    && (stages.is_empty() || stages.contains(&run.stage))
            })
            .collect();
        runs.sort_by_key(|(id, run)| (*id, &run.stage));
        for (issue, run) in runs {
            let machine = state.scheduler.machine(issue);
            let is_present = machine.is_some_and(IssueMachine::is_present);
            let ended_here = self.ours.contains(&run.id);
            let name = format!("{} {}", one_line(issue.as_str(), SHOWN_ID), run.stage);
            self.add_run(
                &name,
                run_status(run, state.started_at, is_present, ended_here),
                run,
            );
        }
    }

    fn add_waiting(&mut self, state: &FinalState<'_>) {
        let (waiting, _) = state.scheduler.waiting(state.now, usize::MAX);
        for (issue, _) in state.scheduler.taken_over_issues() {
            // Also in a state of no stage, where nothing else waits.
            if waiting.iter().all(|waiting| waiting.issue != *issue) {
                let issue = one_line(issue.as_str(), SHOWN_ID);
                self.waiting.push(format!("{issue}: a person has taken it over"));
            }
        }
        for waiting in waiting {
            let list = match &waiting.hold {
                Hold::DayLimit { .. } => &mut self.budget,
                // The results of the last attempts are listed above.
                Hold::Settling => continue,
                _ => &mut self.waiting,
            };
            let issue = one_line(waiting.issue.as_str(), SHOWN_ID);
            let hold = api_view::hold(&waiting.hold);
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
