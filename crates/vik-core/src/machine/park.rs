//! Parked stages of an issue: the reasons, and how a stage is freed.

use serde::{Deserialize, Serialize};

use super::{IssueMachine, Run, RunEvent};
use crate::ids::StageName;
use crate::limits::LimitScope;
use crate::time::Now;
use crate::workflow::{IssuePolicy, Workflow};

/// Why a stage of an issue is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParkReason {
    /// All allowed attempts succeeded, but the issue kept its state.
    NoProgress,
    /// All attempts are used up, and the last one failed.
    AttemptsUsedUp,
    /// Several consecutive attempts were lost: the shim died, or another process tree held the
    /// workspace.
    Lost,
    /// The end of an agent's process tree could not be proven.
    UnprovenEnd,
    /// The provider refused the login or the key.
    Auth,
    /// The agent does not know its model, or refused its command line.
    Config,
    /// A hook or the prompt failed.
    Hook,
    /// An attempt crossed its stage's limit.
    OverBudget,
    /// The issue has reached a limit of its whole life.
    IssueLimit,
    /// A person cancelled it.
    Cancelled,
    /// A person, or the time limit of an approval, denied it.
    Denied,
}

impl ParkReason {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoProgress => "no_progress",
            Self::AttemptsUsedUp => "attempts_used_up",
            Self::Lost => "lost",
            Self::UnprovenEnd => "unproven_end",
            Self::Auth => "auth",
            Self::Config => "config",
            Self::Hook => "hook",
            Self::OverBudget => "over_budget",
            Self::IssueLimit => "issue_limit",
            Self::Cancelled => "cancelled",
            Self::Denied => "denied",
        }
    }

    /// Returns the actions that free the stage, as text.
    pub fn freed_by(self) -> &'static str {
        match self {
            Self::IssueLimit => "`vik retry`, or higher `issue.limits`",
            Self::UnprovenEnd => {
                "a check for remaining processes (`vik doctor --orphans`), then `vik retry`, or a change of the issue's title \
                 or description"
            }
            Self::Auth => {
                "a valid login or API key, then `vik retry`, or a change of the issue's title or description"
            }
            Self::Config => {
                "a corrected `agents` section, then `vik retry`, or a change of the issue's title or description"
            }
            Self::Hook => {
                "a corrected hook or prompt, then `vik retry`, or a change of the issue's title or description"
            }
            Self::OverBudget => {
                "higher `limits` of the stage, then `vik retry`, or a change of the issue's title or description"
            }
            Self::NoProgress | Self::AttemptsUsedUp | Self::Lost | Self::Cancelled | Self::Denied => {
                "a change of the issue's title or description, or `vik retry`"
            }
        }
    }

    /// Returns whether a change of the issue frees the stage.
    pub fn is_freed_by_a_change(self) -> bool {
        self != Self::IssueLimit
    }
}

impl IssueMachine {
    /// Frees the parked stages, or the given one of them. Allows at least this many more attempts;
    /// `None` for as many as a run of the stage has.
    pub fn unpark(
        &mut self,
        stage: Option<&StageName>,
        attempts: Option<u32>,
        workflow: &Workflow,
        now: Now,
    ) -> Vec<RunEvent> {
        let policy = &workflow.issue;
        let mut events = Vec::new();
        let is_asked = |run: &&mut Run| stage.is_none_or(|stage| run.stage == *stage);
        let parked = self.runs.iter_mut().filter(|run| run.park_reason().is_some());
        for run in parked.filter(is_asked) {
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

    /// Frees the stages that were parked by limits of the issue which have been raised.
    pub fn free_raised(&mut self, policy: &IssuePolicy, now: Now) -> Vec<RunEvent> {
        let by_limit = |run: &&mut Run| run.park_reason() == Some(ParkReason::IssueLimit);
        if self.life.used_up(policy).is_some() {
            return Vec::new();
        }
        let parked = self.runs.iter_mut().filter(by_limit);
        parked.map(|run| run.release(now)).collect()
    }
}
