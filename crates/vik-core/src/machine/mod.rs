//! The state machine of one issue: its runs, their attempts, and what is waiting or parked.
//!
//! It takes facts and answers what could start; it performs no action. All time is an argument and
//! all state is plain data, so that the same machine can be simulated, stored and moved.

mod approve;
mod follow_up;
mod hand_over;
mod lifetime;
mod messages;
mod observe;
mod park;
mod park_detail;
mod question;
mod rebuild;
mod retry;
mod run;
mod run_event;
mod start;
mod taken_over;
mod turns;
mod uncounted;
mod unpark;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::approval::Gate;
use crate::attempt::{AttemptResult, HandedBack, Resume, Start, StopReason};
use crate::ids::{AgentName, AttemptId, RunId, StageName};
use crate::issue::{ActivityKey, Issue};
use crate::limits::{Charges, LimitHit, LimitScope, Spend};
use crate::message::WaitingMessage;
use crate::outcome::Outcome;
use crate::time::{Mono, Now};
use crate::worker::WorkerName;
use crate::workflow::{ResumePolicy, Stage, Workflow};

pub use follow_up::FollowUp;
pub use hand_over::HandOver;
pub use lifetime::LifetimeUsage;
pub use park::{ParkReason, RootCause};
pub use run::{Answered, Approved, Phase, Run, WaitReason};
pub use run_event::{FreedBy, RunEvent};
pub use start::NewAttempt;
pub use taken_over::TakenOver;
use uncounted::{InARow, MOST_INTERNAL_IN_A_ROW, is_uncounted_stop};
pub use uncounted::{MOST_ASKED_IN_A_ROW, MOST_WORKERS_LOST_IN_A_ROW};

/// The number of a pull, counted from 1 when it *starts*: only a pull that started after the end of
/// an attempt shows what the attempt did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PullNo(pub u64);

/// The state of one issue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IssueMachine {
    issue: Issue,
    /// Whether the last successful pull returned it.
    present: bool,
    runs: Vec<Run>,
    /// What the issue has used in its whole life.
    #[serde(default)]
    life: LifetimeUsage,
    /// Consecutive lost attempts over all runs: they do not count as attempts, but must not repeat
    /// forever.
    #[serde(default)]
    lost_in_a_row: u32,
    /// Consecutive attempts over all runs that were lost because of their worker, until they park a
    /// stage.
    #[serde(default, skip_serializing_if = "run::is_zero")]
    workers_lost_in_a_row: u32,
    /// Consecutive internal failures of each stage, over all of its runs, until they park it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    internal_in_a_row: BTreeMap<StageName, u32>,
    #[serde(default)]
    paused: bool,
    /// The messages of people that no agent has taken, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    messages: Vec<WaitingMessage>,
    /// The hold of the person who has taken the issue over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taken_over: Option<TakenOver>,
    /// What a person did who had taken the issue over, until an agent has read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    handed_back: Option<Box<HandedBack>>,
    /// The last conversation of each stage with `resume: issue`, for the attempts of later runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    conversations: BTreeMap<StageName, (AgentName, Resume)>,
    /// The comments and checks that the agents of each stage had in their prompts. A stage of which no
    /// agent has read a prompt is not in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    seen: BTreeMap<StageName, BTreeSet<ActivityKey>>,
    /// The worker that has the workspace; `None` for this machine, or if there is no workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker: Option<WorkerName>,
    /// The fencing number of the last attempt.
    #[serde(default, skip_serializing_if = "start::is_unnumbered")]
    fencing_number: u64,
}

/// The result of applying an observation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    pub events: Vec<RunEvent>,
    /// Whether anything changed that must be stored.
    pub changed: bool,
}

impl Observation {
    /// What changed together with these events, and nothing without one.
    pub(crate) fn of(events: impl IntoIterator<Item = RunEvent>) -> Self {
        let events: Vec<_> = events.into_iter().collect();
        Self {
            changed: !events.is_empty(),
            events,
        }
    }
}

impl IssueMachine {
    /// Creates the machine of an issue that is seen for the first time. `life` is what is known of
    /// its usage.
    pub fn new(issue: Issue, life: LifetimeUsage) -> Self {
        Self {
            issue,
            present: true,
            runs: Vec::new(),
            life,
            lost_in_a_row: 0,
            workers_lost_in_a_row: 0,
            internal_in_a_row: BTreeMap::new(),
            paused: false,
            messages: Vec::new(),
            taken_over: None,
            handed_back: None,
            conversations: BTreeMap::new(),
            seen: BTreeMap::new(),
            worker: None,
            fencing_number: 0,
        }
    }

    /// Adapts a stored machine to a new daemon, which has another monotonic clock and counts its
    /// pulls from 1.
    pub fn restored(mut self, now: Now) -> Self {
        self.runs.shrink_to_fit();
        // Whether the tracker still has the issue will be found out.
        self.present = true;
        for run in &mut self.runs {
            match &mut run.phase {
                // The attempt reports the request again if it still waits. Until then only a result
                // can be answered: the agent that made a call may have ended, and the default answer
                // to an expired request is due.
                Phase::Active { awaiting, .. } => {
                    awaiting.take_if(|request| request.gate != Gate::After || request.until <= now.wall);
                }
                Phase::Awaiting { request, until, .. } => *until = now.mono_at(request.until),
                Phase::Asking { question, until } => {
                    *until = question.timeout.as_ref().map(|timeout| now.mono_at(timeout.at));
                }
                Phase::Settling { after, ended } => {
                    *after = PullNo(1);
                    let ago = since(ended.wall, now);
                    ended.mono = Mono(now.mono.0.saturating_sub(ago));
                }
                Phase::BackingOff {
                    since: from,
                    wait,
                    until,
                    ..
                } => *until = now.mono.plus(wait.saturating_sub(since(*from, now))),
                // The try was interrupted. The next one repeats only the steps that may be repeated.
                Phase::HandingOver { is_cancelled, .. } => {
                    let state = run.hand_over.as_ref().filter(|_| *is_cancelled);
                    let state = state.map(|hand_over| hand_over.start.stage.when.first_state());
                    run.phase = if let Some(state) = state {
                        Phase::Parked {
                            since: now.wall,
                            reason: ParkReason::Cancelled,
                            detail: StopReason::Cancelled.to_string(),
                            fingerprint: self.issue.fingerprint_in(state),
                            unseen_until: Some(PullNo(1)),
                        }
                    } else {
                        Phase::due(now, WaitReason::HandOver)
                    };
                }
                Phase::Parked { unseen_until, .. } => {
                    if let Some(pull) = unseen_until {
                        *pull = PullNo(1);
                    }
                }
            }
        }
        self
    }

    /// Adapts a machine that only the ledger had to a daemon that sees its issue again. A pull has
    /// to say whether the tracker lists it.
    pub fn recalled(self, now: Now) -> Self {
        Self {
            present: false,
            ..self.restored(now)
        }
    }

    pub fn issue(&self) -> &Issue {
        &self.issue
    }

    /// Returns whether the last successful pull returned the issue.
    pub fn is_present(&self) -> bool {
        self.present
    }

    /// Returns the runs that are not over.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Returns the usage in the issue's whole life.
    pub fn life(&self) -> &LifetimeUsage {
        &self.life
    }

    /// Returns whether an attempt of the issue has ended that counts as one.
    pub fn is_under_way(&self) -> bool {
        self.life.attempts > 0
    }

    /// Returns the number of consecutive lost attempts.
    pub fn lost_in_a_row(&self) -> u32 {
        self.lost_in_a_row
    }

    /// Returns the number of consecutive attempts that were lost because of their worker.
    pub fn workers_lost_in_a_row(&self) -> u32 {
        self.workers_lost_in_a_row
    }

    /// Returns whether so many consecutive attempts were lost because of their worker that a stage is
    /// to be parked.
    pub fn loses_workers(&self) -> bool {
        self.workers_lost_in_a_row >= MOST_WORKERS_LOST_IN_A_ROW
    }

    /// Returns the worker that has the workspace; `None` for this machine, or if there is no
    /// workspace.
    pub fn worker(&self) -> Option<&WorkerName> {
        self.worker.as_ref()
    }

    /// Returns the last conversation of each stage with `resume: issue`, with its agent.
    pub fn conversations(&self) -> &BTreeMap<StageName, (AgentName, Resume)> {
        &self.conversations
    }

    /// Forgets what belongs to the workspace, which was removed: its worker, and the conversations
    /// about it. Returns false if nothing changed.
    pub fn forget_workspace(&mut self) -> bool {
        let conversations = std::mem::take(&mut self.conversations);
        self.worker.take().is_some() || !conversations.is_empty()
    }

    /// Returns the number of consecutive internal failures of each stage that is not parked for
    /// them; none of a stage without any.
    pub fn internal_in_a_row(&self) -> &BTreeMap<StageName, u32> {
        &self.internal_in_a_row
    }

    /// Returns whether so many consecutive attempts of a stage failed because of Vik itself that
    /// it is to be parked.
    pub fn fails_internally(&self, stage: &StageName) -> bool {
        self.internal_in_a_row
            .get(stage)
            .is_some_and(|in_a_row| *in_a_row >= MOST_INTERNAL_IN_A_ROW)
    }

    pub fn is_paused(&self) -> bool {
        self.paused
    }

    pub fn is_active(&self) -> bool {
        self.runs.iter().any(|run| run.active().is_some())
    }

    /// Returns whether an agent of the issue may still be alive unobserved.
    pub fn is_unproven(&self) -> bool {
        self.runs.iter().any(Run::is_unproven)
    }

    /// Returns the parked stage and its reason: the stage that matches the state of the issue, else
    /// the first one.
    pub fn parked(&self, workflow: &Workflow) -> Option<RootCause> {
        let takes = |run: &&Run| {
            let stage = workflow.stage(&run.stage);
            stage.is_some_and(|stage| self.issue.is_taken_by(&stage.when))
        };
        let mut parked = self.runs.iter().filter(|run| run.park_reason().is_some());
        let run = parked.clone().find(takes).or_else(|| parked.next())?;
        Some(RootCause {
            issue: self.issue.id.clone(),
            stage: run.stage.clone(),
            reason: run.park_reason()?,
        })
    }

    /// Returns whether only the lifetime counters must be kept, for which the ledger is enough.
    pub fn is_idle(&self) -> bool {
        self.runs.is_empty()
            && !self.paused
            && self.taken_over.is_none()
            && self.lost_in_a_row == 0
            && self.workers_lost_in_a_row == 0
            && self.internal_in_a_row.is_empty()
            && self.messages.is_empty()
    }

    /// Returns the run of a stage.
    pub fn run(&self, stage: &StageName) -> Option<&Run> {
        self.runs.iter().find(|run| run.stage == *stage)
    }

    /// Returns the first stage in file order that may start now. Two stages run at once only if one
    /// of them is parallel, and none starts before the issue was seen after its last attempt.
    pub fn candidate<'w>(
        &self,
        workflow: &'w Workflow,
        now: Now,
        allowed: impl Fn(&StageName) -> bool,
    ) -> Option<&'w Stage> {
        if self.cannot_start() || workflow.is_terminal(&self.issue.state) {
            return None;
        }
        let matches = |stage: &&Stage| self.issue.is_taken_by(&stage.when) && allowed(&stage.name);
        workflow.issue.stages.iter().filter(matches).find(|stage| {
            let is_due = match self.run(&stage.name).map(|run| &run.phase) {
                None => !self.waits_for_follow_up(stage, workflow),
                Some(Phase::BackingOff { until, why, .. }) => {
                    *why != WaitReason::HandOver && *until <= now.mono
                }
                Some(_) => false,
            };
            is_due && self.conflicting_stage(stage).is_none()
        })
    }

    /// Returns whether no stage at all may start.
    fn cannot_start(&self) -> bool {
        let blocks = |run: &Run| run.is_unseen() || run.is_unproven();
        !self.present || self.runs.iter().any(blocks)
    }

    /// Returns the stage beside which this one may not run: it is running, or its work is being
    /// handed over.
    pub fn conflicting_stage(&self, stage: &Stage) -> Option<&StageName> {
        let mut active = self.runs.iter().filter_map(Run::occupant);
        let blocks =
            |start: &&Start| start.stage.name != stage.name && !(stage.parallel || start.stage.parallel);
        active.find(blocks).map(|start| &start.stage.name)
    }

    /// Returns the active attempt with this id: its start, its estimate, and the reason why it is
    /// being stopped.
    pub fn active(&self, attempt_id: AttemptId) -> Option<(&Start, Spend, Option<&StopReason>)> {
        self.runs.iter().find_map(|run| match &run.phase {
            Phase::Active {
                attempt_id: active,
                start,
                estimate,
                stopping,
                ..
            } if *active == attempt_id => Some((&**start, *estimate, stopping.as_ref())),
            _ => None,
        })
    }

    /// Marks an attempt as being stopped. Returns false if it already was; a cancellation by a
    /// person replaces an earlier reason.
    pub fn stop(&mut self, attempt_id: AttemptId, why: StopReason) -> bool {
        for run in &mut self.runs {
            if let Phase::Active {
                attempt_id: active,
                stopping,
                ..
            } = &mut run.phase
                && *active == attempt_id
            {
                let is_first = stopping.is_none();
                if is_first || why == StopReason::Cancelled {
                    *stopping = Some(why);
                }
                return is_first;
            }
        }
        false
    }

    /// Handles the end of an attempt, and charges it. Returns `None` for an attempt that is not
    /// active, which changes nothing.
    pub fn on_attempt_ended(
        &mut self,
        attempt_id: AttemptId,
        report: AttemptResult,
        stopped: Option<StopReason>,
        charged: Charges,
        after: PullNo,
        now: Now,
    ) -> Option<Observation> {
        let start = self.active(attempt_id)?.0.clone();
        self.return_messages(attempt_id);
        let run = self.runs.iter_mut().find(|run| run.id == start.run)?;
        // A lost host or worker, a failure of Vik, a drain, a person who takes over, a request to try again
        // later and a question use no attempt.
        let is_drained = is_uncounted_stop(&report, stopped.as_ref());
        let is_lost = report.outcome == Outcome::Lost;
        let is_day_limit =
            matches!(&stopped, Some(StopReason::OverBudget(hit)) if hit.scope == LimitScope::Day);
        let is_internal = report.is_internal();
        let is_later = report.requested_wait().is_some();
        let has_asked = report.has_asked();
        let counts = !is_lost && !is_drained && !is_internal && !is_later && !has_asked;
        // A conversation counts once in the life of the issue, however many turns it has.
        let is_further_turn = run.granted_turn(&start) > 1 && report.ended_turn();
        self.life.attempts += u32::from(counts && !is_further_turn);
        self.life.spend = self.life.spend.plus(charged.total);
        self.life.estimated = self.life.estimated.plus(charged.estimated);
        // None of them resets another, so that they cannot alternate for ever.
        if report.has_lost_worker() {
            self.workers_lost_in_a_row = self.workers_lost_in_a_row.saturating_add(1);
        } else if is_lost {
            self.lost_in_a_row += 1;
        } else if is_internal {
            *self
                .internal_in_a_row
                .entry(start.stage.name.clone())
                .or_default() += 1;
        } else if is_later {
            run.later_in_a_row = run.later_in_a_row.saturating_add(1);
        } else if has_asked {
            run.asked_in_a_row = run.asked_in_a_row.saturating_add(1);
        } else if !is_drained {
            run.asked_in_a_row = 0;
            run.later_in_a_row = 0;
            self.lost_in_a_row = 0;
            self.workers_lost_in_a_row = 0;
            self.internal_in_a_row.remove(&start.stage.name);
        }
        let reason = retry::immediate_park_reason(&report, stopped.as_ref());
        let has_read_prompt = report.has_read_prompt();
        if has_read_prompt {
            run.on_answers_read(&start);
        }
        run.attempt_ended(&start, stopped, report, after, now);
        if start.stage.resume == ResumePolicy::Issue {
            let last = run.conversation.as_ref().or(run.finished.as_ref()).cloned();
            let name = start.stage.name.clone();
            match last {
                Some(last) => drop(self.conversations.insert(name, last)),
                // It cannot be resumed any more.
                None if start.resume.is_some() => drop(self.conversations.remove(&name)),
                None => {}
            }
        }
        // The day's limit does not count against the run, which proceeds on the next day, and a
        // turn only if it is the last one of its conversation.
        run.attempts += u32::from(counts && !is_day_limit && !run.continues(&start.stage));
        let fingerprint = self.issue.fingerprint_in(start.stage.when.first_state());
        let events = reason.map(|reason| run.park(reason, fingerprint, Some(after), None, now));
        if has_read_prompt {
            self.on_note_read(&start);
            self.on_activity_read(&start);
        }
        Some(Observation {
            events: events.into_iter().collect(),
            changed: true,
        })
    }

    /// Parks a stage that is not running. `when_state` is the state of the stage, to which a return
    /// frees nothing. `used_up` is the limit of the issue that was reached, if that is the reason.
    pub fn park(
        &mut self,
        (stage, when_state): (&StageName, &str),
        new_run: RunId,
        reason: ParkReason,
        used_up: Option<LimitHit>,
        now: Now,
    ) -> RunEvent {
        let fingerprint = self.issue.fingerprint_in(when_state);
        match reason {
            ParkReason::Internal => drop(self.internal_in_a_row.remove(stage)),
            ParkReason::Lost => self.workers_lost_in_a_row = 0,
            _ => {}
        }
        let at = self.run_at(stage, new_run, now);
        let unseen_until = match self.runs[at].phase {
            Phase::Settling { after, .. } if after > PullNo::default() => Some(after),
            _ => None,
        };
        self.runs[at].park(reason, fingerprint, unseen_until, used_up, now)
    }

    /// Returns the index of the run of a stage, created if absent.
    fn run_at(&mut self, stage: &StageName, new_run: RunId, now: Now) -> usize {
        let at = self.runs.iter().position(|run| run.stage == *stage);
        at.unwrap_or_else(|| {
            // Most issues have one run, and a vector reserves room for four.
            self.runs.reserve_exact(1);
            self.runs.push(Run::new(new_run, stage.clone(), now));
            self.runs.len() - 1
        })
    }

    /// Pauses or resumes the issue. Returns false if nothing changed.
    pub fn pause(&mut self, paused: bool) -> bool {
        std::mem::replace(&mut self.paused, paused) != paused
    }
}

/// Returns the time since an instant; zero if the instant is in the future.
fn since(then: jiff::Timestamp, now: Now) -> Duration {
    SignedDuration::try_from(now.wall - then)
        .ok()
        .and_then(|ago| Duration::try_from(ago).ok())
        .unwrap_or_default()
}
