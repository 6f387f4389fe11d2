//! Explains why a stage runs, why it does not, and when it starts next.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Scheduler;
use super::dispatch::{Slots, due, taken_over};
use crate::ids::{AttemptId, IssueId, RunId, StageName};
use crate::intent::Intent;
use crate::limits::Limit;
use crate::machine::{FollowUp, IssueMachine, LifetimeUsage, Phase, RootCause, Run, WaitReason};
use crate::outcome::{FailureClass, Outcome};
use crate::scheduler::Hold;
use crate::time::Now;
use crate::trust::Trust;
use crate::turn::TurnOfMax;
use crate::workflow::Stage;

/// The root causes of all blocked issues, found when the first is asked for.
type Roots<'s> = LazyCell<HashMap<IssueId, RootCause>, Box<dyn FnOnce() -> HashMap<IssueId, RootCause> + 's>>;

/// The explanation of an issue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    pub issue: IssueId,
    pub title: Arc<str>,
    pub state: Arc<str>,
    /// The address of the issue for people.
    pub url: Option<String>,
    pub labels: Vec<String>,
    /// How far the text of the issue is trusted.
    #[serde(default)]
    pub trust: Trust,
    /// Whether the last successful pull returned it.
    pub present: bool,
    /// Whether a person paused it.
    pub paused: bool,
    /// The hold on the whole issue, where no stage matches or none could start.
    pub hold: Option<Hold>,
    /// The stages that match or have a run, in file order.
    pub stages: Vec<StageExplanation>,
    /// The usage in the issue's whole life.
    pub life: LifetimeUsage,
    /// The attempts allowed in the issue's whole life.
    pub allowed_attempts: u32,
    /// The spending limit of the issue's whole life.
    pub limit: Limit,
    /// The number of messages of people that no agent has taken.
    #[serde(default)]
    pub messages_waiting: usize,
}

/// The explanation of one stage of an issue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageExplanation {
    pub stage: StageName,
    /// The current run, where there is one.
    pub run: Option<RunId>,
    #[serde(rename = "session")]
    pub attempt_id: Option<AttemptId>,
    /// Attempts of the run that count.
    pub attempts: u32,
    /// The number of attempts allowed.
    pub allowed_attempts: u32,
    /// The outcome of the last attempt.
    pub last_outcome: Option<Outcome>,
    pub last_class: Option<FailureClass>,
    /// The turn of the conversation that the running attempt is in, in a stage with `turns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnOfMax>,
    /// The hold; `None` if the stage runs or may start now. A running attempt has one while it waits
    /// for a person.
    pub hold: Option<Hold>,
    /// When the stage may start next, where that is known.
    pub next: Option<Timestamp>,
    /// The resolved intent; `None` if the intent is invalid.
    #[serde(default)]
    pub intent: Option<Intent>,
}

/// A stage of an issue that will start without intervention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    pub issue: IssueId,
    pub stage: StageName,
    /// The current run, where there is one.
    pub run: Option<RunId>,
    /// Attempts of the run that count.
    pub attempts: u32,
    pub hold: Hold,
    /// When the hold ends, where that is known.
    pub until: Option<Timestamp>,
}

impl Scheduler {
    /// Returns why the issue does or does not run, and when its stages start next. `None` if the
    /// issue is unknown.
    pub fn explain(&self, issue: &IssueId, now: Now) -> Option<Explanation> {
        let machine = self.machines.get(issue)?;
        let policy = &self.workflow.issue;
        let concerns = |stage: &&Stage| {
            stage.when.has_state(&machine.issue().state) || machine.run(&stage.name).is_some()
        };
        let slots = self.slots_before(issue, now);
        let roots = self.lazy_root_causes();
        let stages: Vec<_> = policy
            .stages
            .iter()
            .filter(concerns)
            .map(|stage| self.explain_stage(machine, stage, now, &slots, &roots))
            .collect();
        let hold = taken_over(machine)
            .or_else(|| self.issue_hold(machine))
            .or_else(|| {
                let matches = |stage: &Stage| stage.when.has_state(&machine.issue().state);
                (!policy.stages.iter().any(matches)).then_some(Hold::NoStage)
            });
        Some(Explanation {
            issue: issue.clone(),
            title: Arc::clone(&machine.issue().title),
            state: Arc::clone(&machine.issue().state),
            url: machine.issue().url(),
            labels: machine.issue().labels(),
            trust: self.trust(machine),
            present: machine.is_present(),
            paused: machine.is_paused(),
            hold,
            stages,
            life: *machine.life(),
            allowed_attempts: machine.life().allowed(policy),
            limit: machine.life().limit(policy),
            messages_waiting: machine.messages().len(),
        })
    }

    fn explain_stage(
        &self,
        machine: &IssueMachine,
        stage: &Stage,
        now: Now,
        slots: &Slots,
        roots: &Roots<'_>,
    ) -> StageExplanation {
        let run = machine.run(&stage.name);
        let last = run.and_then(|run| run.last.as_ref());
        let active = run.and_then(Run::active);
        let hold = match active {
            Some(_) => run.and_then(Run::request).map(|request| Hold::Approval {
                request: Box::new(request.clone()),
            }),
            None => self.hold(machine, stage, now, slots),
        }
        .map(|hold| hold.with_root(|| roots.get(&machine.issue().id).cloned()));
        let intent = match active {
            Some(start) => Some(start.intent.clone()),
            None => Intent::resolve(stage, machine.issue()).ok(),
        };
        StageExplanation {
            intent,
            stage: stage.name.clone(),
            run: run.map(|run| run.id),
            attempt_id: active.map(|start| start.attempt_id),
            attempts: run.map_or(0, |run| run.attempts),
            allowed_attempts: run.map_or(stage.retry.max_attempts, |run| run.allowed(stage)),
            last_outcome: last.map(|report| report.outcome),
            last_class: last.and_then(|report| report.failure_class),
            turn: active.and_then(|start| machine.turn_of_max(start)),
            next: hold.as_ref().and_then(Hold::until),
            hold,
        }
    }

    fn lazy_root_causes(&self) -> Roots<'_> {
        LazyCell::new(Box::new(|| self.root_causes()))
    }

    /// Returns the hold on a stage that does not run: holds on the issue come first, then holds on
    /// the stage, then global ones.
    fn hold(&self, machine: &IssueMachine, stage: &Stage, now: Now, slots: &Slots) -> Option<Hold> {
        if let Some(hold) = taken_over(machine) {
            return Some(hold);
        }
        if let Some(run) = machine.run(&stage.name)
            && let Phase::Parked {
                reason,
                detail,
                since,
                ..
            } = &run.phase
        {
            return Some(Hold::Parked {
                reason: *reason,
                detail: detail.clone(),
                since: *since,
                freed_by: reason.freed_by().to_owned(),
            });
        }
        let held = self.issue_hold(machine);
        if let Some(Hold::NotPulled) = held {
            // A hold that no pull can end is more informative.
            return person_hold(machine, stage)
                .or_else(|| self.hand_over_hold(machine, stage, now))
                .or_else(|| backing_off(machine, stage, now))
                .or_else(|| self.global_hold(now))
                .or(held);
        }
        held.or_else(|| self.stage_hold(machine, stage, now))
            .or_else(|| self.worker_to_start(machine, stage, slots).err())
            .or_else(|| self.global_hold(now))
    }

    fn issue_hold(&self, machine: &IssueMachine) -> Option<Hold> {
        let issue = machine.issue();
        if self.workflow.is_terminal(&issue.state) {
            return Some(Hold::Terminal);
        }
        if !self.has_pulled {
            return Some(Hold::NotPulled);
        }
        if self.lookups.is_missing(&issue.id) {
            return Some(Hold::Missing);
        }
        (!machine.is_present()).then_some(Hold::NotPresent)
    }

    fn stage_hold(&self, machine: &IssueMachine, stage: &Stage, now: Now) -> Option<Hold> {
        if !stage.when.has_state(&machine.issue().state) {
            return Some(Hold::NoStage);
        }
        let labels: Vec<_> = stage
            .when
            .missing_labels(|| machine.issue().labels())
            .map(str::to_owned)
            .collect();
        if !labels.is_empty() {
            return Some(Hold::MissingLabels { labels });
        }
        if !self.filter.allows(&machine.issue().id, &stage.name) {
            return Some(Hold::Filtered);
        }
        let other = machine
            .runs()
            .iter()
            .find(|run| run.is_unproven())
            .map(|run| &run.stage)
            .or_else(|| machine.conflicting_stage(stage));
        if let Some(other) = other {
            return Some(Hold::OtherStage { stage: other.clone() });
        }
        if machine.runs().iter().any(Run::is_unseen) {
            return Some(Hold::Settling);
        }
        person_hold(machine, stage)
            .or_else(|| self.hand_over_hold(machine, stage, now))
            .or_else(|| backing_off(machine, stage, now))
            .or_else(|| self.nothing_new(machine, stage))
            .or_else(|| self.earlier_stage_hold(machine, stage, now))
    }

    fn nothing_new(&self, machine: &IssueMachine, stage: &Stage) -> Option<Hold> {
        let is_follow_up = stage.when.is_follow_up(&machine.issue().state);
        if !is_follow_up || machine.run(&stage.name).is_some() {
            return None;
        }
        match machine.follow_up(stage, self.workflow.trust.as_ref()) {
            FollowUp::Due { .. } => None,
            FollowUp::Waits { pending } => Some(Hold::NothingNew { pending }),
        }
    }

    /// Returns the stage that this one waits for without any other hold: an earlier stage of the
    /// file that is due, or a running one that may use up the issue's limits.
    fn earlier_stage_hold(&self, machine: &IssueMachine, stage: &Stage, now: Now) -> Option<Hold> {
        let other = match due(&self.workflow, &self.filter, &self.spending, machine, now) {
            Some(first) => Some(&first.name).filter(|first| **first != stage.name),
            None => machine
                .runs()
                .iter()
                .find_map(Run::active)
                .map(|start| &start.stage.name),
        };
        other.map(|stage| Hold::OtherStage { stage: stage.clone() })
    }

    /// Returns the stages that will start without intervention, in their order, at most `most` of
    /// them, and the total number.
    pub fn waiting(&self, now: Now, most: usize) -> (Vec<Waiting>, usize) {
        let mut waiting = Vec::new();
        let mut count = 0;
        let mut slots = self.slots();
        let roots = self.lazy_root_causes();
        let stages = &self.workflow.issue.stages;
        for machine in self.order.iter().filter_map(|id| self.machines.get(id)) {
            let next = stages
                .iter()
                .filter(|stage| machine.issue().is_taken_by(&stage.when))
                .find(|stage| {
                    let run = machine.run(&stage.name);
                    run.is_none_or(|run| run.active().is_none() && run.park_reason().is_none())
                        && self.filter.allows(&machine.issue().id, &stage.name)
                });
            let Some(stage) = next else { continue };
            let hold = self.hold(machine, stage, now, &slots).unwrap_or(Hold::Slot);
            self.reserve_scope(machine, stage, &hold, &mut slots);
            // Stages that follow a running or an awaiting one are listed elsewhere.
            if matches!(
                hold,
                Hold::OtherStage { .. } | Hold::NothingNew { .. } | Hold::Terminal | Hold::Missing
            ) {
                continue;
            }
            count += 1;
            if waiting.len() < most {
                let run = machine.run(&stage.name);
                let issue = machine.issue().id.clone();
                let hold = hold.with_root(|| roots.get(&issue).cloned());
                waiting.push(Waiting {
                    issue,
                    stage: stage.name.clone(),
                    run: run.map(|run| run.id),
                    attempts: run.map_or(0, |run| run.attempts),
                    until: hold.until(),
                    hold,
                });
            }
        }
        (waiting, count)
    }
}

/// Returns the hold of a stage whose start a person must approve, or whose agent asked a question.
fn person_hold(machine: &IssueMachine, stage: &Stage) -> Option<Hold> {
    match machine.run(&stage.name).map(|run| &run.phase) {
        Some(Phase::Awaiting { request, .. }) => Some(Hold::Approval {
            request: request.clone(),
        }),
        Some(Phase::Asking { question, .. }) => Some(Hold::Question {
            question: question.clone(),
        }),
        _ => None,
    }
}

/// Returns the back-off or quota that the next attempt of a stage waits for.
fn backing_off(machine: &IssueMachine, stage: &Stage, now: Now) -> Option<Hold> {
    let run = machine.run(&stage.name)?;
    let Phase::BackingOff { until, why, .. } = run.phase else {
        return None;
    };
    let held = until > now.mono;
    let until = now.wall_at(until);
    if !held {
        return None;
    }
    Some(match why {
        // Its hand-over is the hold.
        WaitReason::HandOver => return None,
        WaitReason::Backoff => Hold::BackingOff {
            until,
            after: run.last.as_ref().map(|report| report.outcome),
            is_requested: run.waits_on_request(),
        },
        WaitReason::Quota => Hold::Quota { until },
    })
}
