//! The machine of one issue: which stages match, how often each was tried, what waits, what is parked.
//!
//! It is told what happened and asked what could start; it never acts. All time is an argument, all state is plain
//! data, so that the same machine can be simulated, stored and moved.

mod approve;
mod attempt_result;
mod lifetime;
mod park;
mod rebuild;
mod retry;
mod run;
mod run_event;

use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, RunId, StageName};
use crate::intent::Intent;
use crate::issue::Issue;
use crate::limits::{Limit, LimitHit, LimitScope, Spend};
use crate::outcome::Outcome;
use crate::scheduler::{RootCause, Start, StopReason};
use crate::time::{Mono, Now};
use crate::workflow::{AgentProfile, IssuePolicy, Stage, Workflow};

pub use attempt_result::AttemptResult;
pub use lifetime::LifetimeUsage;
pub use park::ParkReason;
pub use run::{Answered, Approved, Phase, Run, WaitReason};
pub use run_event::RunEvent;

/// The number of a pull, counted from 1 when it *starts*: only a pull that started after an attempt ended can tell
/// what the attempt did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PullNo(pub u64);

/// After this many lost attempts in a row the (issue, stage) is parked.
const MOST_LOST_IN_A_ROW: u32 = 5;

/// All that is known about one issue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IssueMachine {
    issue: Issue,
    /// Whether the last good pull brought it.
    present: bool,
    runs: Vec<Run>,
    /// What the issue has used in its whole life.
    #[serde(default)]
    life: LifetimeUsage,
    /// Attempts lost in a row, whatever the run: they do not count as tries, but they must not go on for ever either.
    #[serde(default)]
    lost_in_a_row: u32,
    /// Whether a person paused it.
    #[serde(default)]
    paused: bool,
}

/// What an observation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// What happened to runs.
    pub events: Vec<RunEvent>,
    /// Whether anything changed that must be remembered.
    pub changed: bool,
}

impl IssueMachine {
    /// A machine for an issue seen for the first time, or again after nothing but its counters were kept.
    pub fn new(issue: Issue, life: LifetimeUsage) -> Self {
        Self {
            issue,
            present: true,
            runs: Vec::new(),
            life,
            lost_in_a_row: 0,
            paused: false,
        }
    }

    /// Brings what was stored into the time of a new daemon: its monotonic clock is another one, and its first pull is
    /// the first that tells anything.
    pub fn restored(mut self, now: Now) -> Self {
        // Told anew: whether it is still there is to be found out.
        self.present = true;
        for run in &mut self.runs {
            match &mut run.phase {
                // It tells anew what it waits for.
                Phase::Active { awaiting, .. } => *awaiting = None,
                Phase::Awaiting { request, until, .. } => *until = now.mono_at(request.until),
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
                Phase::Parked { unseen_until, .. } => {
                    if let Some(pull) = unseen_until {
                        *pull = PullNo(1);
                    }
                }
            }
        }
        self
    }

    /// The latest snapshot.
    pub fn issue(&self) -> &Issue {
        &self.issue
    }

    /// Whether the last good pull brought the issue.
    pub fn is_present(&self) -> bool {
        self.present
    }

    /// Its runs that are not over.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// What it has used.
    pub fn life(&self) -> &LifetimeUsage {
        &self.life
    }

    /// Attempts that were lost in a row.
    pub fn lost_in_a_row(&self) -> u32 {
        self.lost_in_a_row
    }

    /// Whether a person paused it.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether an attempt is under way.
    pub fn is_active(&self) -> bool {
        self.runs.iter().any(|run| run.active().is_some())
    }

    /// Whether an agent of it may still live, unseen.
    pub fn is_unproven(&self) -> bool {
        self.runs.iter().any(Run::is_unproven)
    }

    /// The stage that is parked and why: one that takes the issue as it is, else the first one.
    pub fn parked(&self, workflow: &Workflow) -> Option<RootCause> {
        let takes = |run: &&Run| {
            let stage = workflow.stage(&run.stage);
            stage.is_some_and(|stage| stage.when_state == *self.issue.state)
        };
        let mut parked = self.runs.iter().filter(|run| run.park_reason().is_some());
        let run = parked.clone().find(takes).or_else(|| parked.next())?;
        Some(RootCause {
            issue: self.issue.id.clone(),
            stage: run.stage.clone(),
            reason: run.park_reason()?,
        })
    }

    /// Whether nothing but its life's counters needs to be remembered.
    pub fn is_idle(&self) -> bool {
        self.runs.is_empty() && !self.paused && self.lost_in_a_row == 0
    }

    /// The run of a stage.
    pub fn run(&self, stage: &StageName) -> Option<&Run> {
        self.runs.iter().find(|run| run.stage == *stage)
    }

    /// The issue is in a pull.
    pub fn observe(&mut self, issue: Issue, pull: PullNo, now: Now, workflow: &Workflow) -> Observation {
        // Of thousands that are parked, most are as they were: that costs nothing.
        let is_same = self.issue == issue;
        self.issue = issue;
        self.present = true;
        self.apply_pull(is_same, pull, now, workflow)
    }

    /// The issue is in a pull; `is_same`: as it was in the one before.
    pub(crate) fn apply_pull(
        &mut self,
        is_same: bool,
        pull: PullNo,
        now: Now,
        workflow: &Workflow,
    ) -> Observation {
        let mut observed = Observation::default();
        let Self {
            issue,
            runs,
            life,
            lost_in_a_row,
            ..
        } = self;
        let is_closed = workflow.is_terminal(&issue.state);
        runs.retain_mut(|run| {
            if is_closed && run.is_over_when_closed() {
                observed.events.push(run.closed_event());
                return false;
            }
            let stage = workflow.stage(&run.stage);
            let matching = stage.filter(|stage| stage.when_state == *issue.state);
            let succeeded = run.last_succeeded();
            match &mut run.phase {
                Phase::Active { .. } => true,
                Phase::Parked {
                    reason,
                    fingerprint,
                    unseen_until,
                    ..
                } => {
                    if let Some(from) = unseen_until {
                        if pull < *from {
                            return true;
                        }
                        *unseen_until = None;
                        observed.changed = true;
                        // What the attempt itself did to the issue is no reason to try again, nor is the way back to
                        // the state of the stage.
                        if let Some(stage) = stage {
                            *fingerprint = issue.fingerprint_in(&stage.when_state);
                        }
                        if succeeded && matching.is_none() {
                            observed.events.push(run.ended_event());
                            return false;
                        }
                        return true;
                    }
                    let freed = !is_same
                        && matching.is_some()
                        && reason.is_freed_by_a_change()
                        && *fingerprint != issue.fingerprint();
                    if freed {
                        *lost_in_a_row = 0;
                        observed.events.push(RunEvent::Freed {
                            run: run.id,
                            stage: run.stage.clone(),
                        });
                    }
                    !freed
                }
                Phase::Awaiting { text, .. } if matching.is_some() => {
                    if !is_same
                        && *text != issue.text_fingerprint()
                        && let Some(policy) = stage.and_then(|stage| stage.approve.as_ref())
                    {
                        // What was read by whoever is about to answer is another text now.
                        observed.events.push(run.request_approval(issue, policy, now));
                    }
                    true
                }
                Phase::Settling { after, .. } if pull < *after => true,
                Phase::Settling { ended, .. } if matching.is_some() => {
                    let ended = *ended;
                    if let Some(stage) = matching {
                        let so_far = (&*life, *lost_in_a_row);
                        observed
                            .events
                            .push(run.settle(ended, stage, issue, so_far, &workflow.issue, now));
                    }
                    true
                }
                Phase::BackingOff { .. } if matching.is_some() => true,
                Phase::Settling { .. } | Phase::BackingOff { .. } | Phase::Awaiting { .. } => {
                    observed.events.push(run.ended_event());
                    false
                }
            }
        });
        observed.changed |= !observed.events.is_empty();
        observed
    }

    /// The issue is not in a good pull. Its counters stay: a tracker may lose sight of an issue for a while.
    pub fn on_absent(&mut self, pull: PullNo, now: Now, workflow: &Workflow) -> Observation {
        self.present = false;
        let mut observed = Observation::default();
        let Self {
            issue,
            runs,
            life,
            lost_in_a_row,
            ..
        } = self;
        runs.retain_mut(|run| match run.phase {
            Phase::Settling { after, ended } if pull >= after => {
                let stage = workflow.stage(&run.stage);
                let is_there = |stage: &&Stage| stage.when_state == *issue.state && !run.last_succeeded();
                match stage.filter(is_there) {
                    Some(stage) => {
                        let so_far = (&*life, *lost_in_a_row);
                        observed
                            .events
                            .push(run.settle(ended, stage, issue, so_far, &workflow.issue, now));
                        true
                    }
                    None => {
                        observed.events.push(run.ended_event());
                        false
                    }
                }
            }
            _ => true,
        });
        observed.changed = !observed.events.is_empty();
        observed
    }

    /// The issue was looked at on its own. What ended is judged by pulls only.
    pub fn apply_lookup(&mut self, issue: Issue, now: Now, workflow: &Workflow) -> Observation {
        let present = self.present;
        let observed = self.observe(issue, PullNo::default(), now, workflow);
        self.present = present;
        observed
    }

    /// The tracker does not have the issue any more: what waits or is parked is over.
    pub fn on_missing(&mut self) -> Observation {
        self.present = false;
        let mut observed = Observation::default();
        self.runs.retain(|run| {
            let waits = matches!(run.phase, Phase::BackingOff { .. } | Phase::Awaiting { .. });
            if waits {
                observed.events.push(run.ended_event());
            } else if run.is_over_when_closed() {
                observed.events.push(run.closed_event());
            }
            !waits && !run.is_over_when_closed()
        });
        observed.changed = !observed.events.is_empty();
        observed
    }

    /// The first stage in file order that may start now. Two stages run at a time only where one of them is parallel,
    /// and none starts before the issue was seen after the last attempt.
    pub fn candidate<'w>(
        &self,
        workflow: &'w Workflow,
        now: Now,
        allowed: impl Fn(&StageName) -> bool,
    ) -> Option<&'w Stage> {
        if self.cannot_start() || workflow.is_terminal(&self.issue.state) {
            return None;
        }
        let matches = |stage: &&Stage| stage.when_state == *self.issue.state && allowed(&stage.name);
        workflow.issue.stages.iter().filter(matches).find(|stage| {
            let is_due = match self.run(&stage.name).map(|run| &run.phase) {
                None => true,
                Some(Phase::BackingOff { until, .. }) => *until <= now.mono,
                Some(_) => false,
            };
            is_due && self.conflicting_stage(stage).is_none()
        })
    }

    /// Whether no stage may start, whichever it is.
    fn cannot_start(&self) -> bool {
        let blocks = |run: &Run| run.is_unseen() || run.is_unproven();
        !self.present || self.runs.iter().any(blocks)
    }

    /// The stage that runs and beside which this one may not.
    pub fn conflicting_stage(&self, stage: &Stage) -> Option<&StageName> {
        let mut active = self.runs.iter().filter_map(Run::active);
        let blocks =
            |start: &&Start| start.stage.name != stage.name && !(stage.parallel || start.stage.parallel);
        active.find(blocks).map(|start| &start.stage.name)
    }

    /// Reserves a stage for an attempt. `new_run` is the run's id, should it be a new one; `budget` is what may be
    /// spent, `fenced` whether the issue's text is not trusted; `agent` says what is charged where the attempt does not
    /// tell, and whether a conversation can go on.
    pub fn start(
        &mut self,
        stage: &Stage,
        (new_run, attempt_id): (RunId, AttemptId),
        (budget, fenced): (Limit, bool),
        agent: Option<&AgentProfile>,
        now: Now,
    ) -> Start {
        let at = self.runs.iter().position(|run| run.stage == stage.name);
        let mut run = match at {
            Some(at) => self.runs.remove(at),
            None => Run::new(
                new_run,
                stage.name.clone(),
                Phase::Settling {
                    after: PullNo::default(),
                    ended: now,
                },
            ),
        };
        let resume = run
            .conversation
            .as_ref()
            .filter(|_| stage.resume && agent.is_some_and(|agent| agent.runtime.can_resume()))
            .filter(|(earlier, _)| *earlier == stage.agent)
            .map(|(_, resume)| resume.clone());
        let start = Start {
            issue: self.issue.clone(),
            stage: stage.clone(),
            run: run.id,
            attempt_id,
            attempt: run.attempts + 1,
            previous: run.last.clone(),
            resume,
            budget,
            // The scheduler starts nothing whose intent cannot be followed.
            intent: Intent::resolve(stage, &self.issue).unwrap_or_else(|_| Intent::nothing()),
            fenced,
            message: run
                .approved
                .as_ref()
                .and_then(|approved| approved.message.clone()),
        };
        run.phase = Phase::Active {
            attempt_id,
            since: now.wall,
            start: Box::new(start.clone()),
            estimate: agent.map(|agent| agent.estimate).unwrap_or_default(),
            stopping: None,
            awaiting: None,
            answered: None,
        };
        self.runs.insert(at.unwrap_or(self.runs.len()), run);
        start
    }

    /// The attempt that is under way with this id: what it was started with, what it costs at least, and what it was
    /// told to stop for.
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

    /// An attempt is told to stop. False where it was told before; what a person says holds over what was said before.
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

    /// An attempt ended, and this is charged. A report about any other attempt than an active one changes nothing:
    /// `None`.
    pub fn on_attempt_ended(
        &mut self,
        attempt_id: AttemptId,
        report: AttemptResult,
        stopped: Option<StopReason>,
        charged: Spend,
        after: PullNo,
        now: Now,
    ) -> Option<Observation> {
        let start = self.active(attempt_id)?.0.clone();
        let run = self.runs.iter_mut().find(|run| run.id == start.run)?;
        // Losing a host, or being drained, uses no attempt.
        let is_drained = report.outcome == Outcome::Cancelled && stopped.is_none();
        let is_lost = report.outcome == Outcome::Lost;
        let is_day_limit =
            matches!(&stopped, Some(StopReason::OverBudget(hit)) if hit.scope == LimitScope::Day);
        if !is_lost && !is_drained {
            self.life.attempts += 1;
            // A day that is used up says nothing against the run: it goes on when the day turns.
            run.attempts += u32::from(!is_day_limit);
        }
        self.life.spend = self.life.spend.plus(charged);
        if is_lost {
            self.lost_in_a_row += 1;
        } else if !is_drained {
            self.lost_in_a_row = 0;
        }
        let reason = retry::immediate_park_reason(&report, stopped.as_ref());
        run.attempt_ended(&start, stopped, report, after, now);
        let fingerprint = self.issue.fingerprint_in(&start.stage.when_state);
        let events = reason.map(|reason| run.park(reason, fingerprint, Some(after), None, now));
        Some(Observation {
            events: events.into_iter().collect(),
            changed: true,
        })
    }

    /// Parks a stage that is not started. `when_state` is the stage's state: the way back there frees nothing. `used_up` is
    /// the limit of the issue that is reached, where that is why.
    pub fn park(
        &mut self,
        (stage, when_state): (&StageName, &str),
        new_run: RunId,
        reason: ParkReason,
        used_up: Option<LimitHit>,
        now: Now,
    ) -> RunEvent {
        let fingerprint = self.issue.fingerprint_in(when_state);
        let at = self.run_at(stage, new_run, now);
        let unseen_until = match self.runs[at].phase {
            Phase::Settling { after, .. } if after > PullNo::default() => Some(after),
            _ => None,
        };
        self.runs[at].park(reason, fingerprint, unseen_until, used_up, now)
    }

    /// Where the run of a stage is; a new one where there is none.
    fn run_at(&mut self, stage: &StageName, new_run: RunId, now: Now) -> usize {
        let at = self.runs.iter().position(|run| run.stage == *stage);
        at.unwrap_or_else(|| {
            let phase = Phase::Settling {
                after: PullNo::default(),
                ended: now,
            };
            self.runs.push(Run::new(new_run, stage.clone(), phase));
            self.runs.len() - 1
        })
    }

    /// Frees all that is parked, and allows so many attempts more; `None`: as many as a run of the stage has.
    pub fn unpark(&mut self, attempts: Option<u32>, workflow: &Workflow, now: Now) -> Vec<RunEvent> {
        let policy = &workflow.issue;
        let mut events = Vec::new();
        for run in self.runs.iter_mut().filter(|run| run.park_reason().is_some()) {
            let most = workflow.stage(&run.stage).map(|stage| stage.retry.max_attempts);
            let more = attempts.or(most).unwrap_or(1).max(1);
            let wanted = run.attempts.saturating_add(more);
            let extra = wanted.saturating_sub(most.unwrap_or(1));
            run.extra_attempts = run.extra_attempts.max(extra);
            let wanted = self.life.attempts.saturating_add(more);
            let extra = wanted.saturating_sub(policy.max_attempts);
            self.life.extra_attempts = self.life.extra_attempts.max(extra);
            events.push(run.release(now));
        }
        if !events.is_empty() {
            self.lost_in_a_row = 0;
            if self
                .life
                .limit(policy)
                .reached(LimitScope::Issue, self.life.spend)
                .is_some()
            {
                self.life.forgiven = self.life.spend;
            }
        }
        events
    }

    /// Frees what the issue's limits parked, should they have been raised.
    pub fn free_raised(&mut self, policy: &IssuePolicy, now: Now) -> Vec<RunEvent> {
        let by_limit = |run: &&mut Run| run.park_reason() == Some(ParkReason::IssueLimit);
        if self.life.used_up(policy).is_some() {
            return Vec::new();
        }
        let parked = self.runs.iter_mut().filter(by_limit);
        parked.map(|run| run.release(now)).collect()
    }

    /// A person pauses it, or lets it go on. False where it was so already.
    pub fn pause(&mut self, paused: bool) -> bool {
        std::mem::replace(&mut self.paused, paused) != paused
    }
}

/// How long ago that was; nothing where the clock says it is yet to come.
fn since(then: jiff::Timestamp, now: Now) -> Duration {
    SignedDuration::try_from(now.wall - then)
        .ok()
        .and_then(|ago| Duration::try_from(ago).ok())
        .unwrap_or_default()
}
