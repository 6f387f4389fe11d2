//! What the scheduler knows, for those who show it.

use std::collections::HashMap;

use super::Scheduler;
use crate::ids::IssueId;
use crate::issue::Wanted;
use crate::machine::{IssueMachine, LifetimeUsage, Run};
use crate::worker::Workers;

impl Scheduler {
    /// Returns all runs that are not over, in no particular order.
    pub fn runs(&self) -> impl Iterator<Item = (&IssueId, &Run)> {
        self.machines
            .iter()
            .flat_map(|(id, machine)| machine.runs().iter().map(move |run| (id, run)))
    }

    /// Returns every issue in use, in no particular order.
    pub fn issues(&self) -> impl Iterator<Item = &IssueId> {
        self.machines.keys()
    }

    /// Returns the machine of an issue.
    pub fn machine(&self, issue: &IssueId) -> Option<&IssueMachine> {
        self.machines.get(issue)
    }

    /// Returns the usage in the whole life of an issue in use.
    pub fn life(&self, issue: &IssueId) -> LifetimeUsage {
        let known = self.machines.get(issue).map(IssueMachine::life);
        known.copied().unwrap_or_default()
    }

    /// Returns whether a person paused everything.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns the issues that a person paused, sorted.
    pub fn paused_issues(&self) -> Vec<IssueId> {
        let paused = self.machines.values().filter(|machine| machine.is_paused());
        let mut ids: Vec<_> = paused.map(|machine| machine.issue().id.clone()).collect();
        ids.sort();
        ids
    }

    /// Returns the issues that people have taken over, sorted.
    pub fn taken_over_issues(&self) -> impl Iterator<Item = (&IssueId, &IssueMachine)> {
        let machines = self.machines.iter();
        let mut held: Vec<_> = machines
            .filter(|(_, machine)| machine.taken_over().is_some())
            .collect();
        held.sort_by_key(|(id, _)| *id);
        held.into_iter()
    }

    /// Returns whether the issue has a workspace, as far as is known.
    pub fn has_workspace(&self, issue: &IssueId) -> bool {
        self.workspaces.has(issue)
    }

    /// Returns the workers; `None` if attempts run on this machine.
    pub fn workers(&self) -> Option<&Workers> {
        self.workers.as_ref()
    }

    /// Returns whether nothing more starts.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Returns whether everything in the last pull is known, so that an identical pull can be sent
    /// as [`Input::PulledUnchanged`](super::Input::PulledUnchanged).
    pub fn can_skip_unchanged_pull(&self) -> bool {
        self.can_skip_unchanged_pull
    }

    /// Returns the filter for the issues of a pull. Issues that become known while a pull is parsed
    /// are seen by the next one.
    pub fn wanted(&self) -> Wanted {
        let stages = &self.workflow.issue.stages;
        let mut known: HashMap<_, _> = self
            .machines
            .iter()
            .map(|(id, machine)| (id.clone(), Some(machine.issue().clone())))
            .collect();
        for id in self.workspaces.tracked(&self.workflow) {
            known.entry(id.clone()).or_insert(None);
        }
        Wanted {
            states: stages
                .iter()
                .flat_map(|stage| stage.when.all_states())
                .map(Into::into)
                .collect(),
            known,
        }
    }

    /// Returns the number of issues of the last successful pull that match a stage.
    pub fn matching(&self) -> usize {
        self.order.len()
    }
}
