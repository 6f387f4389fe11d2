//! The machine of one issue: which stages match, how often each was tried, what waits, what is parked.
//!
//! It is told what happened and asked what could start; it never acts. All time is an argument, all state is plain
//! data, so that the same machine can be simulated, stored and moved.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::backoff;
use crate::ids::{RunId, SessionId, StageName};
use crate::issue::{Fingerprint, Issue};
use crate::limits::Spend;
use crate::outcome::{CostSource, FailureClass, Outcome, Usage};
use crate::time::{Mono, Now};
use crate::workflow::{Stage, Workflow};

/// The number of a pull, counted from 1 when it *starts*: only a pull that started after an attempt ended can tell
/// what the attempt did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PullNo(pub u64);

/// All that is known about one issue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    issue: Issue,
    /// Whether the last good pull brought it.
    present: bool,
    runs: Vec<Run>,
    /// What the issue has used in its whole life.
    #[serde(default)]
    life: Life,
    /// Whether a person paused it.
    #[serde(default)]
    paused: bool,
}

/// Counters of an issue's whole life. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Life {
    /// Starts of an agent.
    pub attempts: u32,
    /// Attempts a person allowed beyond `issue.limits.attempts`.
    pub extra_attempts: u32,
    /// What was charged.
    pub spend: Spend,
}

/// The pursuit of one stage during one stay of the issue in its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The stage it is for.
    pub stage: StageName,
    /// Attempts that count against `max_attempts`.
    pub attempts: u32,
    /// Attempts lost in a row: they do not count as tries, but they must not go on for ever either.
    pub lost_in_a_row: u32,
    /// Whether any attempt changed a commit or a file.
    pub changed: bool,
    /// How the last attempt ended.
    pub last: Option<Report>,
    /// Where it stands.
    pub phase: Phase,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// An attempt is under way: reserved before anything is done for it.
    Active {
        /// The attempt's id.
        session: SessionId,
        /// Since when.
        since: Timestamp,
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
    },
    /// Not started again until a person changes the issue or says so.
    Parked {
        /// Since when.
        since: Timestamp,
        /// Why.
        reason: ParkReason,
        /// The issue as it was; a different one frees it.
        fingerprint: Fingerprint,
    },
}

/// Why an (issue, stage) is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParkReason {
    /// Every attempt that was allowed succeeded, yet the issue kept its state.
    NoProgress,
    /// The attempts are used up, and the last one failed.
    AttemptsUsedUp,
    /// Attempt after attempt was lost: its shim died, or its workspace was held by another process tree.
    Lost,
    /// The end of an agent's process tree could not be proven.
    UnprovenEnd,
}

/// After this many lost attempts in a row the (issue, stage) is parked.
const MOST_LOST_IN_A_ROW: u32 = 5;

impl ParkReason {
    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoProgress => "no_progress",
            Self::AttemptsUsedUp => "attempts_used_up",
            Self::Lost => "lost",
            Self::UnprovenEnd => "unproven_end",
        }
    }
}

/// What is told about the end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed.
    pub failure_class: Option<FailureClass>,
    /// In a person's words.
    pub reason: Option<String>,
    /// What the next attempt should know: the tail of `verify`'s output.
    pub feedback: Option<String>,
    /// Whether a commit or file changed, where it could be told.
    pub changed: Option<bool>,
    /// Whether the agent's own program was started.
    #[serde(default)]
    pub ran: bool,
    /// What it used, as far as the agent told; `None` where it told nothing.
    #[serde(default)]
    pub spend: Option<Spend>,
    /// Where the money figure of `spend` comes from.
    #[serde(default)]
    pub cost_source: CostSource,
    /// Tokens by kind, as far as the agent told.
    #[serde(default)]
    pub usage: Usage,
    /// When the provider's quota window opens again, where it told.
    #[serde(default)]
    pub resets_at: Option<Timestamp>,
    /// The provider's id of the conversation.
    #[serde(default)]
    pub provider_session_id: Option<String>,
    /// The conversation that was to be resumed could not be: the next attempt starts anew.
    #[serde(default)]
    pub resume_failed: bool,
    /// It failed while the workspace was being made (`after_create`): that is tried again in a clean folder.
    #[serde(default)]
    pub preparing: bool,
    /// The agent's exit code.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// How the end of the process tree is known (`cgroup`, `subreaper`, `census`, …).
    #[serde(default)]
    pub proof: Option<String>,
}

impl Report {
    /// A report that says nothing but how it ended.
    pub fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            failure_class: None,
            reason: None,
            feedback: None,
            changed: None,
            ran: false,
            spend: None,
            cost_source: CostSource::None,
            usage: Usage::default(),
            resets_at: None,
            provider_session_id: None,
            resume_failed: false,
            preparing: false,
            exit_code: None,
            proof: None,
        }
    }
}

/// What happened to a run; for logs, `explain` and the closing summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// It is over.
    Ended {
        /// The run.
        run: RunId,
        /// Its stage.
        stage: StageName,
        /// Whether its last attempt succeeded.
        succeeded: bool,
    },
    /// It will be tried again.
    BackingOff {
        /// The run.
        run: RunId,
        /// Its stage.
        stage: StageName,
        /// Attempts used so far.
        attempts: u32,
        /// For how long.
        wait: Duration,
    },
    /// It will not be tried again.
    Parked {
        /// The run.
        run: RunId,
        /// Its stage.
        stage: StageName,
        /// Why.
        reason: ParkReason,
    },
    /// The issue was changed, so it may be tried again.
    Freed {
        /// The run that was parked.
        run: RunId,
        /// Its stage.
        stage: StageName,
    },
}

impl Machine {
    /// A machine for an issue seen for the first time.
    pub fn new(issue: Issue) -> Self {
        Self {
            issue,
            present: true,
            runs: Vec::new(),
            life: Life::default(),
            paused: false,
        }
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

    /// Whether an attempt is under way.
    pub fn is_active(&self) -> bool {
        self.runs
            .iter()
            .any(|run| matches!(run.phase, Phase::Active { .. }))
    }

    /// Whether nothing needs to be remembered about it.
    pub fn is_forgettable(&self) -> bool {
        !self.present && self.runs.is_empty()
    }

    /// The issue is in a pull.
    pub fn observe(&mut self, issue: Issue, pull: PullNo, now: Now, workflow: &Workflow) -> Vec<Note> {
        self.issue = issue;
        self.present = true;
        let Self { issue, runs, .. } = self;
        let mut notes = Vec::new();
        runs.retain_mut(|run| {
            let stage = workflow
                .stage(&run.stage)
                .filter(|stage| stage.when_state == *issue.state);
            match (&run.phase, stage) {
                (Phase::Active { .. }, _) => true,
                (Phase::Parked { fingerprint, .. }, Some(_)) if *fingerprint != issue.fingerprint() => {
                    notes.push(Note::Freed {
                        run: run.id,
                        stage: run.stage.clone(),
                    });
                    false
                }
                (Phase::Parked { .. }, _) => true,
                (Phase::Settling { after, .. }, _) if pull < *after => true,
                (_, None) => {
                    notes.push(run.over());
                    false
                }
                (Phase::Settling { ended, .. }, Some(stage)) => {
                    notes.push(run.settle(*ended, stage, issue, now));
                    true
                }
                (Phase::BackingOff { .. }, Some(_)) => true,
            }
        });
        notes
    }

    /// The issue is not in a good pull. Its counters stay: a tracker may lose sight of an issue for a while.
    pub fn vanish(&mut self, pull: PullNo, now: Now, workflow: &Workflow) -> Vec<Note> {
        self.present = false;
        let Self { issue, runs, .. } = self;
        let mut notes = Vec::new();
        runs.retain_mut(|run| match run.phase {
            Phase::Settling { after, ended } if pull >= after => {
                match workflow.stage(&run.stage).filter(|_| !run.last_succeeded()) {
                    Some(stage) => {
                        notes.push(run.settle(ended, stage, issue, now));
                        true
                    }
                    None => {
                        notes.push(run.over());
                        false
                    }
                }
            }
            _ => true,
        });
        notes
    }

    /// The first stage in file order that may start now. One stage of an issue runs at a time, and none starts
    /// before the issue was seen after the last attempt.
    pub fn candidate<'w>(
        &self,
        workflow: &'w Workflow,
        now: Now,
        allowed: impl Fn(&StageName) -> bool,
    ) -> Option<&'w Stage> {
        let blocked = |run: &Run| {
            matches!(run.phase, Phase::Active { .. } | Phase::Settling { .. }) || run.is_unproven()
        };
        if !self.present || self.runs.iter().any(blocked) {
            return None;
        }
        let matches = |stage: &&Stage| stage.when_state == *self.issue.state && allowed(&stage.name);
        workflow.issue.stages.iter().filter(matches).find(|stage| {
            match self.run(&stage.name).map(|run| &run.phase) {
                None => true,
                Some(Phase::BackingOff { until, .. }) => *until <= now.mono,
                Some(_) => false,
            }
        })
    }

    /// Reserves the stage for an attempt. Returns the run as it now is.
    pub fn start(&mut self, stage: &StageName, run: RunId, session: SessionId, now: Now) -> &Run {
        let phase = Phase::Active {
            session,
            since: now.wall,
        };
        match self.runs.iter().position(|run| run.stage == *stage) {
            Some(at) => {
                self.runs[at].phase = phase;
                &self.runs[at]
            }
            None => {
                let stage = stage.clone();
                self.runs.push(Run {
                    id: run,
                    stage,
                    attempts: 0,
                    lost_in_a_row: 0,
                    changed: false,
                    last: None,
                    phase,
                });
                &self.runs[self.runs.len() - 1]
            }
        }
    }

    /// An attempt ended. A report about any other attempt than the active one changes nothing.
    pub fn ended(&mut self, session: SessionId, report: Report, after: PullNo, now: Now) -> Option<Note> {
        let is_it =
            |run: &&mut Run| matches!(run.phase, Phase::Active { session: active, .. } if active == session);
        let run = self.runs.iter_mut().find(is_it)?;
        // Losing a host, or being stopped by Vik, uses no attempt.
        if !matches!(report.outcome, Outcome::Cancelled | Outcome::Lost) {
            run.attempts += 1;
        }
        run.lost_in_a_row = if report.outcome == Outcome::Lost {
            run.lost_in_a_row + 1
        } else {
            0
        };
        run.changed |= report.changed == Some(true);
        let unproven = report.failure_class == Some(FailureClass::UnprovenEnd);
        run.last = Some(report);
        if unproven {
            return Some(run.park(ParkReason::UnprovenEnd, &self.issue, now));
        }
        run.phase = Phase::Settling { after, ended: now };
        None
    }

    fn run(&self, stage: &StageName) -> Option<&Run> {
        self.runs.iter().find(|run| run.stage == *stage)
    }
}

impl Run {
    /// Whether the last attempt succeeded.
    pub fn last_succeeded(&self) -> bool {
        self.last
            .as_ref()
            .is_some_and(|report| report.outcome == Outcome::Succeeded)
    }

    /// Whether the last attempt was stopped by Vik or a person.
    pub fn last_cancelled(&self) -> bool {
        self.last
            .as_ref()
            .is_some_and(|report| report.outcome == Outcome::Cancelled)
    }

    /// An end that could not be proven may mean a live agent in the workspace: nothing starts beside it.
    fn is_unproven(&self) -> bool {
        matches!(
            self.phase,
            Phase::Parked {
                reason: ParkReason::UnprovenEnd,
                ..
            }
        )
    }

    fn over(&self) -> Note {
        Note::Ended {
            run: self.id,
            stage: self.stage.clone(),
            succeeded: self.last_succeeded(),
        }
    }

    /// The issue was seen again after an attempt, and it is still in the stage's state.
    fn settle(&mut self, ended: Now, stage: &Stage, issue: &Issue, now: Now) -> Note {
        if self.attempts >= stage.retry.max_attempts {
            let succeeded = self.last_succeeded();
            let reason = if succeeded {
                ParkReason::NoProgress
            } else {
                ParkReason::AttemptsUsedUp
            };
            return self.park(reason, issue, now);
        }
        if self.lost_in_a_row >= MOST_LOST_IN_A_ROW {
            return self.park(ParkReason::Lost, issue, now);
        }
        let wait = backoff::wait_after(self.attempts + self.lost_in_a_row, &stage.retry);
        self.phase = Phase::BackingOff {
            since: ended.wall,
            wait,
            until: ended.mono.plus(wait),
        };
        Note::BackingOff {
            run: self.id,
            stage: self.stage.clone(),
            attempts: self.attempts,
            wait,
        }
    }

    fn park(&mut self, reason: ParkReason, issue: &Issue, now: Now) -> Note {
        self.phase = Phase::Parked {
            since: now.wall,
            reason,
            fingerprint: issue.fingerprint(),
        };
        Note::Parked {
            run: self.id,
            stage: self.stage.clone(),
            reason,
        }
    }
}
