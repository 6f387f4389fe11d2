//! What an issue uses in its whole life.

use serde::{Deserialize, Serialize};

use crate::limits::{Limit, LimitHit, LimitScope, LimitUnit, Spend};
use crate::workflow::IssuePolicy;

/// Counters of an issue's whole life. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LifetimeUsage {
    /// Starts of an agent.
    pub attempts: u32,
    /// Attempts a person allowed beyond `issue.limits.attempts`.
    pub extra_attempts: u32,
    /// What was charged.
    pub spend: Spend,
    /// What had been charged when a person last unparked the issue from its limit on spending: the limit counts from
    /// there.
    pub forgiven: Spend,
}

impl LifetimeUsage {
    /// Attempts it may have in all.
    pub fn allowed(&self, policy: &IssuePolicy) -> u32 {
        policy.max_attempts.saturating_add(self.extra_attempts)
    }

    /// What its limit on spending is now.
    pub fn limit(&self, policy: &IssuePolicy) -> Limit {
        policy.limit.above(self.forgiven)
    }

    /// The limit that it has reached.
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
