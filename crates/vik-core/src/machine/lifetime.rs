//! The usage of an issue in its whole life.

use serde::{Deserialize, Serialize};

use crate::limits::{Limit, LimitHit, LimitScope, LimitUnit, Spend};
use crate::workflow::IssuePolicy;

/// Counters of an issue's whole life. They never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LifetimeUsage {
    /// Starts of an agent.
    pub attempts: u32,
    /// Attempts a person allowed beyond `issue.limits.attempts`.
    pub extra_attempts: u32,
    pub spend: Spend,
    /// The amount charged when a person last unparked the issue from its spending limit: the limit
    /// counts from there.
    pub forgiven: Spend,
    /// The estimated part of `spend`.
    pub estimated: Spend,
    /// How often an agent was started because the issue came back to its stage.
    #[serde(skip_serializing_if = "super::run::is_zero")]
    pub rounds: u32,
    /// Rounds a person allowed beyond `issue.limits.rounds`.
    #[serde(skip_serializing_if = "super::run::is_zero")]
    pub extra_rounds: u32,
}

impl LifetimeUsage {
    /// Returns the number of attempts allowed in all.
    pub fn allowed(&self, policy: &IssuePolicy) -> u32 {
        policy.max_attempts.saturating_add(self.extra_attempts)
    }

    /// Returns the current spending limit.
    pub fn limit(&self, policy: &IssuePolicy) -> Limit {
        policy.limit.above(self.forgiven)
    }

    /// Returns the number of rounds allowed in all.
    pub fn allowed_rounds(&self, policy: &IssuePolicy) -> u32 {
        policy.max_rounds.saturating_add(self.extra_rounds)
    }

    /// Returns the limit on rounds, if another one would be too many.
    pub fn rounds_used_up(&self, policy: &IssuePolicy) -> Option<LimitHit> {
        let allowed = self.allowed_rounds(policy);
        (self.rounds >= allowed).then(|| LimitHit {
            scope: LimitScope::Issue,
            unit: LimitUnit::Rounds,
            spent: self.rounds.into(),
            limit: allowed.into(),
        })
    }

    /// Returns the limit that is reached, if any.
    pub fn used_up(&self, policy: &IssuePolicy) -> Option<LimitHit> {
        let allowed = self.allowed(policy);
        if self.attempts >= allowed {
            return Some(LimitHit {
                scope: LimitScope::Issue,
                unit: LimitUnit::Attempts,
                spent: self.attempts.into(),
                limit: allowed.into(),
            });
        }
        self.limit(policy).reached(LimitScope::Issue, self.spend)
    }
}
