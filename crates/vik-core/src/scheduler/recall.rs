//! Issues that only the ledger has: they are recalled when a pull or a lookup returns them.
//!
//! Memory holds the issues in use. An issue of which only the counters matter is dropped, and its
//! limits must hold when it comes back. So no issue is added without what the ledger has of it.

use std::collections::HashMap;

use super::Scheduler;
use crate::ids::IssueId;
use crate::issue::Issue;
use crate::machine::{IssueMachine, LifetimeUsage};
use crate::time::Now;

/// What the ledger has of some issues.
#[derive(Clone, Debug, Default)]
pub struct Recalled(HashMap<IssueId, Option<IssueMachine>>);

impl Recalled {
    /// Returns the answer of the ledger for `issues`: it has these `machines`, and none of the
    /// other ones.
    pub fn new(issues: impl IntoIterator<Item = IssueId>, machines: Vec<IssueMachine>) -> Self {
        let mut known: HashMap<_, _> = issues.into_iter().map(|id| (id, None)).collect();
        for machine in machines {
            known.insert(machine.issue().id.clone(), Some(machine));
        }
        Self(known)
    }

    /// Returns whether the ledger was asked for an issue.
    pub fn contains(&self, issue: &IssueId) -> bool {
        self.0.contains_key(issue)
    }

    /// Returns the machine of an issue as the ledger has it, or a new one. `None` if the ledger was
    /// not asked.
    pub(super) fn take(&mut self, issue: &Issue, now: Now) -> Option<IssueMachine> {
        let known = self.0.remove(&issue.id)?;
        Some(match known {
            Some(machine) => machine.recalled(now),
            None => IssueMachine::new(issue.clone(), LifetimeUsage::default()),
        })
    }
}

impl Scheduler {
    /// Returns the issues of a pull that would be added, and of which the ledger must be asked
    /// before.
    pub fn unknown(&self, issues: &[Issue]) -> Vec<IssueId> {
        let stages = &self.workflow.issue.stages;
        let matches = |issue: &Issue| stages.iter().any(|stage| stage.when.has_state(&issue.state));
        issues
            .iter()
            .filter(|issue| !self.machines.contains_key(&issue.id))
            .filter(|issue| matches(issue) || self.workspaces.has(&issue.id))
            .map(|issue| issue.id.clone())
            .collect()
    }

    /// Returns whether a lookup of this issue would add it, so that the ledger must be asked of it
    /// before.
    pub fn is_unknown(&self, issue: &IssueId) -> bool {
        !self.machines.contains_key(issue) && self.workspaces.has(issue)
    }

    /// Returns a number that changes whenever issues are dropped from memory: what the ledger was
    /// asked before may be outdated.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }
}
