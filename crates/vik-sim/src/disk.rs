//! The ledger: the durable state.

use std::collections::BTreeMap;

use jiff::civil::Date;
use vik_core::changes::{Changes, EndedAttempt, StartedAttempt, Stored};
use vik_core::ids::{AttemptId, IssueId};
use vik_core::limits::Charges;
use vik_core::machine::IssueMachine;

#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// The machines as last committed.
    pub machines: BTreeMap<IssueId, IssueMachine>,
    /// Attempts without an end.
    pub claims: BTreeMap<AttemptId, StartedAttempt>,
    /// The ended attempts with their charges.
    pub ended: BTreeMap<AttemptId, EndedAttempt>,
    /// The issue of every attempt.
    pub issue_of: BTreeMap<AttemptId, IssueId>,
    /// The sums of each day.
    pub days: BTreeMap<Date, Charges>,
    /// Whether everything is paused.
    pub paused: bool,
}

impl Disk {
    /// Commits changes. A repeated end changes nothing.
    pub fn commit(&mut self, changes: &Changes) {
        for machine in &changes.machines {
            self.machines.insert(machine.issue().id.clone(), machine.clone());
        }
        for started in &changes.started {
            self.issue_of.insert(started.attempt_id, started.issue.clone());
            if !self.ended.contains_key(&started.attempt_id) {
                self.claims.insert(started.attempt_id, started.clone());
            }
        }
        for ended in &changes.ended {
            self.claims.remove(&ended.attempt_id);
            self.ended
                .entry(ended.attempt_id)
                .or_insert_with(|| ended.clone());
        }
        self.days.extend(changes.days.iter().copied());
        self.paused = changes.paused.unwrap_or(self.paused);
    }

    /// Returns the state that a new daemon reads: the issues in use and those with a workspace.
    pub fn stored(&self, has_workspace: impl Fn(&IssueId) -> bool) -> Stored {
        let machines = self.machines.values();
        let used = machines.filter(|machine| !machine.is_idle() || has_workspace(&machine.issue().id));
        Stored {
            machines: used.filter_map(read).collect(),
            days: self
                .days
                .iter()
                .map(|(date, charges)| (*date, *charges))
                .collect(),
            paused: self.paused,
        }
    }
}

/// Returns a machine as the ledger returns it, which stores it as JSON.
pub fn read(machine: &IssueMachine) -> Option<IssueMachine> {
    serde_json::from_str(&serde_json::to_string(machine).ok()?).ok()
}
