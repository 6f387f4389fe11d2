//! An observer that turns progress events into facts. It never waits.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use vik_base::clock;
use vik_core::ids::{IssueId, StageName};
use vik_core::machine::RunEvent;
use vik_core::outcome::Outcome;
use vik_core::workflow::Workflow;
use vik_orchestrator::{Observer, Progress};

use super::Lost;
use super::fact::{About, Fact};

/// How the last attempt of a run failed, until its consequence is known.
struct Failed {
    title: String,
    outcome: Outcome,
    reason: String,
}

/// Sends facts to the notifiers, then calls the next observer.
pub struct Watcher {
    facts: mpsc::Sender<Fact>,
    lost: Lost,
    workflow: watch::Sender<Arc<Workflow>>,
    failed: HashMap<(IssueId, StageName), Failed>,
    next: Box<dyn Observer>,
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

impl Watcher {
    pub(super) fn new(
        facts: mpsc::Sender<Fact>,
        lost: Lost,
        workflow: watch::Sender<Arc<Workflow>>,
        next: Box<dyn Observer>,
    ) -> Self {
        Self {
            facts,
            lost,
            workflow,
            failed: HashMap::new(),
            next,
        }
    }

    fn send(&self, fact: Fact) {
        if self.facts.try_send(fact).is_err() {
            self.lost.add();
        }
    }

    fn fact(&mut self, progress: &Progress<'_>) -> Option<Fact> {
        match progress {
            Progress::Parked(parked) => Some(Fact::parked(parked)),
            Progress::Awaiting(awaiting) => Some(Fact::awaiting(awaiting)),
            Progress::Asked(asked) => Some(Fact::asked(asked)),
            Progress::DayLimit { day, hit } => Some(Fact::day_limit(clock::now(), *day, hit)),
            Progress::EditRejected { first } => Some(Fact::trouble(clock::now(), "edit_rejected", first)),
            Progress::LedgerFailed { error } => Some(Fact::trouble(clock::now(), "ledger", error)),
            Progress::Ended(start, end) => {
                let key = (start.issue.id.clone(), start.stage.name.clone());
                let outcome = end.ended.result.outcome;
                if matches!(
                    outcome,
                    Outcome::Failed | Outcome::TimedOut | Outcome::Stalled | Outcome::Lost
                ) {
                    let failed = Failed {
                        title: start.issue.title.to_string(),
                        outcome,
                        reason: end.ended.result.reason.clone().unwrap_or_default(),
                    };
                    self.failed.insert(key, failed);
                } else {
                    self.failed.remove(&key);
                }
                None
            }
            Progress::Note(issue, note) => {
                // An attempt that waits for a person continues, so nothing follows from the
                // previous attempt yet.
                if matches!(note, RunEvent::Awaiting { .. } | RunEvent::Answered { .. }) {
                    return None;
                }
                let (run, stage) = note.about();
                let failed = self.failed.remove(&((*issue).clone(), stage.clone()))?;
                let RunEvent::Ended { succeeded: false, .. } = note else {
                    return None;
                };
                let about = About {
                    issue: (*issue).clone(),
                    title: failed.title,
                    stage: stage.clone(),
                    run: run.to_string(),
                };
                Some(Fact::given_up(
                    clock::now(),
                    about,
                    failed.outcome,
                    &failed.reason,
                ))
            }
            Progress::Reloaded { workflow, .. } => {
                self.workflow.send_replace(Arc::clone(workflow));
                None
            }
            Progress::Pulled { .. }
            | Progress::Messages(_)
            | Progress::Warning { .. }
            | Progress::PullFailed { .. }
            | Progress::Started(..)
            | Progress::Stopping { .. } => None,
        }
    }
}

impl Observer for Watcher {
    fn on_progress(&mut self, progress: &Progress<'_>) {
        if let Some(fact) = self.fact(progress)
            && !self.workflow.borrow().notify.is_empty()
        {
            self.send(fact);
        }
        self.next.on_progress(progress);
    }
}
