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
