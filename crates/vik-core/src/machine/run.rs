//! One run: the pursuit of one stage during one stay of the issue in its state.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::retry::{self, RetryDecision, RetryInput};
use super::{AttemptResult, LifetimeUsage, ParkReason, PullNo, RunEvent};
use crate::approval::{Answer, Request};
use crate::ids::{AgentName, AttemptId, RunId, StageName};
use crate::issue::{Fingerprint, Issue};
use crate::limits::{LimitHit, Spend};
use crate::outcome::{CostSource, FailureClass, Outcome};
use crate::plural::count;
use crate::scheduler::{Resume, Start, StopReason};
use crate::time::{Mono, Now};
use crate::workflow::{IssuePolicy, Stage};

/// The pursuit of one stage during one stay of the issue in its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The stage it is for.
    pub stage: StageName,
    /// Attempts that count against `max_attempts`.
    pub attempts: u32,
    /// Attempts a person allowed beyond `max_attempts`.
    #[serde(default)]
    pub extra_attempts: u32,
    /// Whether any attempt changed a commit or a file.
    pub changed: bool,
    /// How the last attempt ended.
    pub last: Option<AttemptResult>,
    /// Which it was.
    #[serde(default, rename = "last_session")]
    pub last_attempt: Option<AttemptId>,
    /// What Vik stopped it for.
    #[serde(default)]
    pub last_stopped: Option<StopReason>,
    /// The conversation that the next attempt may go on with, where it is by the same agent.
    #[serde(default)]
    pub conversation: Option<(AgentName, Resume)>,
    /// What a person let start (`approve.before`).
    #[serde(default)]
    pub approved: Option<Approved>,
    /// Where it stands.
    pub phase: Phase,
}

/// A person's word that a run may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// The text of the issue that was approved: another one was not.
    pub text: Fingerprint,
    /// What the person says to the agent.
    pub message: Option<String>,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// An attempt is under way: reserved before anything is done for it.
    Active {
        /// The attempt's id.
        #[serde(rename = "session")]
        attempt_id: AttemptId,
        /// Since when.
        since: Timestamp,
        /// All it was started with, so that another daemon can take it up.
        start: Box<Start>,
        /// What it is charged where it ends without telling what it used.
        estimate: Spend,
        /// What it was told to stop for.
        stopping: Option<StopReason>,
        /// What it waits for a person with.
        #[serde(default)]
        awaiting: Option<Box<Request>>,
        /// What was said to what it waited with, until it tells that it heard.
        #[serde(default)]
        answered: Option<Box<Answered>>,
    },
    /// It starts when a person says so.
    Awaiting {
        /// What is asked.
        request: Box<Request>,
        /// The text of the issue that is asked for.
        text: Fingerprint,
        /// When the default answer is given.
        until: Mono,
    },
    /// An attempt ended; the issue must be seen again, by a pull with this number or a later one.
    Settling {
        /// The first pull that can tell.
        after: PullNo,
        /// When the attempt ended.
        ended: Now,
    },
    /// The next attempt waits.
    BackingOff {
        /// Since when.
        since: Timestamp,
        /// How long in all.
        wait: Duration,
        /// Until when.
        until: Mono,
        /// For what.
        why: WaitReason,
    },
    /// Not started again until a person changes the issue or says so.
    Parked {
        /// Since when.
        since: Timestamp,
        /// Why.
        reason: ParkReason,
        /// The same in a person's words.
        detail: String,
        /// The issue as it was; a different one frees it.
        fingerprint: Fingerprint,
        /// What the last attempt itself did to the issue is not seen yet: the first pull from this one on tells, and
        /// the fingerprint is taken anew then.
        unseen_until: Option<PullNo>,
    },
}

/// An answer on its way to an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The request that is answered.
    pub request: String,
    /// What is said.
    pub answer: Answer,
    /// By whom.
    pub by: String,
}

/// What the next attempt waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// The end of a back-off.
    #[default]
    Backoff,
    /// The provider's quota window.
    Quota,
}

impl Run {
    pub(super) fn new(id: RunId, stage: StageName, phase: Phase) -> Self {
        Self {
            id,
            stage,
            attempts: 0,
            extra_attempts: 0,
            changed: false,
            last: None,
            last_attempt: None,
            last_stopped: None,
            conversation: None,
            approved: None,
            phase,
        }
    }

    /// Whether the last attempt succeeded.
    pub fn last_succeeded(&self) -> bool {
        self.last
            .as_ref()
            .is_some_and(|report| report.outcome == Outcome::Succeeded)
    }

    /// Why it is parked where it has no attempt left.
    pub fn exhausted_reason(&self) -> ParkReason {
        if self.last_succeeded() {
            ParkReason::NoProgress
        } else {
            ParkReason::AttemptsUsedUp
        }
    }

    /// Whether the last attempt was stopped by Vik or a person.
    pub fn last_cancelled(&self) -> bool {
        self.last
            .as_ref()
            .is_some_and(|report| report.outcome == Outcome::Cancelled)
    }

    /// Attempts it may have in all.
    pub fn allowed(&self, stage: &Stage) -> u32 {
        stage.retry.max_attempts.saturating_add(self.extra_attempts)
    }

    /// The attempt that is under way.
    pub fn active(&self) -> Option<&Start> {
        match &self.phase {
            Phase::Active { start, .. } => Some(start),
            _ => None,
        }
    }

    /// Whether its last attempt ended, and what that did to the issue is not seen yet.
    pub fn is_unseen(&self) -> bool {
        matches!(
            self.phase,
            Phase::Settling { .. }
                | Phase::Parked {
                    unseen_until: Some(_),
                    ..
                }
        )
    }

    /// An end that could not be proven may mean a live agent in the workspace: nothing starts beside it.
    pub fn is_unproven(&self) -> bool {
        self.park_reason() == Some(ParkReason::UnprovenEnd)
    }

    /// Why it is parked, where it is.
    pub fn park_reason(&self) -> Option<ParkReason> {
        match self.phase {
            Phase::Parked { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// What it waits for a person with.
    pub fn request(&self) -> Option<&Request> {
        match &self.phase {
            Phase::Awaiting { request, .. } => Some(request),
            Phase::Active { awaiting, .. } => awaiting.as_deref(),
            _ => None,
        }
    }

    /// Whether the end of its issue ends it: it is parked, and no agent of it may still live.
    pub(super) fn is_over_when_closed(&self) -> bool {
        self.park_reason().is_some() && !self.is_unproven()
    }

    /// The issue was closed while the run was parked.
    pub(super) fn closed_event(&self) -> RunEvent {
        // What its own last attempt did to the issue is no person's decision.
        if self.is_unseen() {
            return self.ended_event();
        }
        RunEvent::Closed {
            run: self.id,
            stage: self.stage.clone(),
            succeeded: self.last_succeeded(),
        }
    }

    pub(super) fn ended_event(&self) -> RunEvent {
        RunEvent::Ended {
            run: self.id,
            stage: self.stage.clone(),
            succeeded: self.last_succeeded(),
        }
    }

    /// An attempt ended, which was started with `start`.
    pub(super) fn attempt_ended(
        &mut self,
        start: &Start,
        stopped: Option<StopReason>,
        report: AttemptResult,
        after: PullNo,
        now: Now,
    ) {
        self.changed |= report.changed == Some(true);
        self.conversation = conversation(start, &report).map(|resume| (start.stage.agent.clone(), resume));
        self.last = Some(report);
        self.last_attempt = Some(start.attempt_id);
        self.last_stopped = stopped;
        self.phase = Phase::Settling { after, ended: now };
    }

    /// The issue was seen again after an attempt, and it is still in the stage's state.
    pub(super) fn settle(
        &mut self,
        ended: Now,
        stage: &Stage,
        issue: &Issue,
        (life, lost_in_a_row): (&LifetimeUsage, u32),
        policy: &IssuePolicy,
        now: Now,
    ) -> RunEvent {
        // Without a report there is nothing to hold against it.
        let next = match (&self.last, self.last_attempt) {
            (Some(report), Some(attempt_id)) => RetryInput {
                report,
                attempt_id,
                stopped: self.last_stopped.as_ref(),
                attempts: self.attempts,
                allowed: self.allowed(stage),
                lost_in_a_row,
                life_used_up: life.used_up(policy).is_some(),
                retry: &stage.retry,
            }
            .next(now),
            _ => RetryDecision::After(Duration::ZERO),
        };
        let (from, wait, why) = match next {
            RetryDecision::Park(reason) => {
                let fingerprint = issue.fingerprint_in(&stage.when_state);
                return self.park(reason, fingerprint, None, life.used_up(policy), now);
            }
            RetryDecision::After(wait) => (ended, wait, WaitReason::Backoff),
            RetryDecision::Quota(wait) => (now, wait, WaitReason::Quota),
        };
        self.phase = Phase::BackingOff {
            since: from.wall,
            wait,
            until: from.mono.plus(wait),
            why,
        };
        RunEvent::BackingOff {
            run: self.id,
            stage: self.stage.clone(),
            attempts: self.attempts,
            wait,
            why,
        }
    }

    pub(super) fn park(
        &mut self,
        reason: ParkReason,
        fingerprint: Fingerprint,
        unseen_until: Option<PullNo>,
        used_up: Option<LimitHit>,
        now: Now,
    ) -> RunEvent {
        self.phase = Phase::Parked {
            since: now.wall,
            reason,
            detail: self.park_detail(reason, used_up),
            fingerprint,
            unseen_until,
        };
        RunEvent::Parked {
            run: self.id,
            stage: self.stage.clone(),
            reason,
        }
    }

    /// It may be tried again at once.
    pub(super) fn release(&mut self, now: Now) -> RunEvent {
        self.phase = match self.phase {
            // What its last attempt did to the issue is seen first.
            Phase::Parked {
                unseen_until: Some(after),
                ..
            } => Phase::Settling { after, ended: now },
            _ => Phase::BackingOff {
                since: now.wall,
                wait: Duration::ZERO,
                until: now.mono,
                why: WaitReason::Backoff,
            },
        };
        RunEvent::Unparked {
            run: self.id,
            stage: self.stage.clone(),
        }
    }

    fn park_detail(&self, reason: ParkReason, used_up: Option<LimitHit>) -> String {
        let attempts = count(self.attempts.into(), "attempt");
        let last = self.last.as_ref();
        match reason {
            ParkReason::NoProgress => format!("{attempts} succeeded, yet the issue kept its state"),
            ParkReason::Cancelled => "a person cancelled it".to_owned(),
            ParkReason::Denied
                if last.is_none_or(|last| last.failure_class != Some(FailureClass::Denied)) =>
            {
                "its start was denied".to_owned()
            }
            ParkReason::IssueLimit => {
                let stopped = match &self.last_stopped {
                    Some(StopReason::OverBudget(hit)) => Some(*hit),
                    _ => None,
                };
                used_up.or(stopped).map_or_else(
                    || "the issue has used what it may use in its whole life".to_owned(),
                    |hit| format!("used up: {hit}"),
                )
            }
            _ => {
                let outcome = last.map_or("failed", |report| report.outcome.as_str());
                let why = last.and_then(|report| report.reason.as_deref());
                // The words of an agent or a hook: as many as are read.
                let why: String = why.unwrap_or("no reason is known").chars().take(500).collect();
                format!("{attempts}; the last one {outcome}: {why}")
            }
        }
    }
}

/// The conversation that the attempt after this one may go on with.
fn conversation(start: &Start, report: &AttemptResult) -> Option<Resume> {
    if report.resume_failed || !retry::is_resumable(report) {
        return None;
    }
    let earlier = start.resume.as_ref();
    let Some(id) = report.provider_session_id.as_ref() else {
        // It ended before it could tell: the one it was to go on with still stands.
        return earlier.cloned();
    };
    let (before, cost_before) = earlier
        .filter(|earlier| earlier.provider_session_id == *id)
        .map(|earlier| (earlier.total, earlier.cost))
        .unwrap_or_default();
    let cost = report
        .spend
        .filter(|_| report.cost_source == CostSource::Reported)
        .map(|spend| spend.usd)
        .unwrap_or_default();
    Some(Resume {
        attempt_id: start.attempt_id,
        provider_session_id: id.clone(),
        total: before.plus(report.usage),
        cost: cost_before.plus(cost),
    })
}
