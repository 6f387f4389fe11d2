//! Checks that `explain` predicts the next decisions.

use std::collections::{BTreeMap, BTreeSet};

use vik_core::ids::StageName;
use vik_core::machine::{ParkReason, RunEvent};
use vik_core::scheduler::{Effect, Hold, Input, NoWorker, Scheduler};
use vik_core::time::Now;
use vik_core::trust::Trust;
use vik_core::workflow::Workflow;

use super::owned::may_be_followed;
use super::{Broken, Oracle, ensure, number};
use crate::tracker::Item;

/// The prediction of `explain` for the next decision.
#[derive(Default)]
pub(crate) struct Expected {
    /// The held stages, some by another stage of the same issue.
    held: BTreeMap<(usize, StageName), Option<StageName>>,
    /// At least one of these starts, is looked up, or is parked.
    free: Vec<(usize, StageName)>,
    /// The stages that do not wait for a worker for the reason that `explain` gives.
    wrong: Vec<(usize, StageName, NoWorker)>,
}

impl Expected {
    /// Checks the effects against the prediction.
    pub(crate) fn meets(&self, effects: &[Effect]) -> Result<(), Broken> {
        const PREDICTION: &str = "`explain` predicts the next decision";
        ensure(
            self.wrong.is_empty(),
            "`explain` knows why no worker fits",
            || format!("{:?}", self.wrong),
        )?;
        let mut started = false;
        let mut done = BTreeSet::new();
        // After a default answer the order and the reserved scopes may differ.
        let is_answered = |effect: &Effect| {
            matches!(
                effect,
                Effect::RunEvent(_, RunEvent::Answered { .. } | RunEvent::QuestionAnswered { .. })
            )
        };
        if effects.iter().any(is_answered) {
            return Ok(());
        }
        for effect in effects {
            match effect {
                Effect::Start(start) => {
                    started = true;
                    let key = (number(&start.issue.id), start.stage.name.clone());
                    // It waited for another stage that has just started and allows it beside, or
                    // that is parked now.
                    let waited = |other: &Option<StageName>| {
                        other
                            .as_ref()
                            .is_some_and(|other| done.contains(&(key.0, other.clone())))
                    };
                    let is_free = self.held.get(&key).is_none_or(waited);
                    ensure(is_free, PREDICTION, || format!("{key:?} starts, but was held"))?;
                    done.insert(key);
                }
                // Limits and approvals are checked only when a stage is next.
                Effect::RunEvent(
                    issue,
                    RunEvent::Parked { stage, .. } | RunEvent::Awaiting { stage, .. },
                ) => {
                    started = true;
                    done.insert((number(issue), stage.clone()));
                }
                Effect::LookUp(_) => started = true,
                _ => {}
            }
        }
        ensure(self.free.is_empty() || started, PREDICTION, || {
            format!("no hold for {:?}, but nothing starts", self.free)
        })
    }
}

impl Oracle {
    /// Returns the prediction for an input that only passes time.
    pub(crate) fn expects(&self, scheduler: &Scheduler, input: &Input, now: Now) -> Expected {
        let mut expected = Expected::default();
        if !matches!(input, Input::Tick) {
            return expected;
        }
        for issue in 0..self.known.len() {
            let Some(explanation) = scheduler.explain(&self.ids[issue], now) else {
                continue;
            };
            // Only a pull makes an issue eligible.
            let pulled = self.pulled[issue].as_ref();
            let mut turn = self.is_current
                // A pending lookup for another reason serves this one too.
                && !self.lookups.contains(&issue)
                && pulled.is_some_and(|item| *item.state == *explanation.state);
            for stage in explanation
                .stages
                .into_iter()
                .filter(|stage| stage.attempt_id.is_none())
            {
                match explanation.hold.as_ref().or(stage.hold.as_ref()) {
                    None if turn => expected.free.push((issue, stage.stage)),
                    None => {}
                    Some(hold) => {
                        // The stage is next, and the later ones wait for it.
                        turn &= !matches!(
                            hold,
                            Hold::Slot
                                | Hold::OpenFiles { .. }
                                | Hold::AgentSlot { .. }
                                | Hold::StageSlot
                                | Hold::NoWorker { .. }
                                | Hold::ScopeConflict { .. }
                        );
                        if let Hold::NoWorker { reason } = hold
                            && !self.waits_for_worker(issue, &stage.stage, reason)
                        {
                            expected.wrong.push((issue, stage.stage.clone(), reason.clone()));
                        }
                        let other = match hold {
                            Hold::OtherStage { stage } => Some(stage.clone()),
                            _ => None,
                        };
                        expected.held.insert((issue, stage.stage), other);
                    }
                }
            }
        }
        expected
    }

    /// Checks in a quiet world that an issue which matches a stage waits for a valid reason.
    pub(crate) fn rests(
        &self,
        item: &Item,
        scheduler: &Scheduler,
        policy: &Workflow,
        now: Now,
    ) -> Result<(), Broken> {
        const RESTS: &str = "each issue that can run has run, or has a reported reason not to";
        let issue = item.issue;
        let stages = policy.issue.stages.iter();
        let mut matching = stages.filter(|stage| stage.when.has_state(item.state)).peekable();
        if matching.peek().is_none() || policy.is_terminal(item.state) {
            return Ok(());
        }
        let explanation = scheduler.explain(&self.ids[issue], now);
        let explanation =
            explanation.ok_or_else(|| Broken::new(RESTS, format!("issue {issue} is unknown")))?;
        for stage in matching {
            let hold_of = |stage: &StageName| {
                let one = explanation.stages.iter().find(|one| one.stage == *stage);
                explanation.hold.as_ref().or_else(|| one?.hold.as_ref())
            };
            let hold = hold_of(&stage.name);
            let is_true = |hold: &Hold| match hold {
                // It waits for an earlier stage that is itself waiting.
                Hold::OtherStage { stage } if self.is_unproven(issue, stage) => true,
                Hold::OtherStage { stage } => {
                    hold_of(stage).is_some_and(|hold| self.is_true(hold, issue, stage, item))
                }
                hold => self.is_true(hold, issue, &stage.name, item),
            };
            let is_true = hold.is_some_and(is_true);
            ensure(is_true, RESTS, || {
                format!("issue {issue}, stage {}: {hold:?}", stage.name)
            })?;
        }
        Ok(())
    }

    /// Returns whether an agent of the issue may still be alive because its end is unproven.
    pub(crate) fn may_live(&self, issue: usize) -> bool {
        let mut parked = self.books.parked.iter();
        parked.any(|((of, _), parked)| *of == issue && parked.reason == ParkReason::UnprovenEnd)
    }

    /// Returns whether a person has taken the issue over.
    pub(crate) fn is_taken_over(&self, issue: usize) -> bool {
        self.books.taken_over.contains(&issue)
    }

    fn is_unproven(&self, issue: usize, stage: &StageName) -> bool {
        let parked = self.books.parked.get(&(issue, stage.clone()));
        parked.is_some_and(|parked| parked.reason == ParkReason::UnprovenEnd)
    }

    fn is_true(&self, hold: &Hold, issue: usize, stage: &StageName, item: &Item) -> bool {
        let parked = |stage: &StageName| self.books.parked.contains_key(&(issue, stage.clone()));
        match hold {
            Hold::Paused { .. } => self.books.paused || self.books.paused_issues.contains(&issue),
            Hold::TakenOver { .. } => self.is_taken_over(issue),
            Hold::Parked { .. } => parked(stage),
            Hold::Blocked { .. } | Hold::Cycle { .. } => self.is_not_blocked(item).is_err(),
            Hold::BadIntent { .. } => {
                let stage = self.policy.stage(stage);
                stage.is_some_and(|stage| !may_be_followed(stage, item))
            }
            Hold::Untrusted { .. } => self.trust(item) == Trust::Held,
            Hold::NothingNew { .. } => self.has_nothing_new(stage, item),
            Hold::Question { question } => question.timeout.is_none() && self.questions.is_open(question.id),
            Hold::NoWorker { reason } => self.waits_for_worker(issue, stage, reason),
            Hold::Filtered => true,
            _ => false,
        }
    }
}
