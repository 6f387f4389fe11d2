//! Handles successful pulls.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use super::{Effect, Recalled, Scheduler};
use crate::ids::IssueId;
use crate::issue::Issue;
use crate::machine::IssueMachine;
use crate::time::Now;
use crate::workflow::{RemoveWorkspace, Workflow};

impl Scheduler {
    pub(super) fn on_pulled(&mut self, issues: Vec<Issue>, mut recalled: Recalled, now: Now) {
        let workflow = std::sync::Arc::clone(&self.workflow);
        let pull = self.pulls_started;
        let states = states(&workflow);
        self.on_good_pull(now);
        self.order.clear();
        let mut seen = HashSet::with_capacity(self.machines.len());
        let mut others = Vec::new();
        // Only changed issues need further work: most of thousands are unchanged.
        let mut touched = Vec::new();
        let (mut is_blocked, mut is_incomplete) = (false, false);
        for issue in issues {
            let id = issue.id.clone();
            let matches = states.contains(&*issue.state);
            if !self.machines.contains_key(&id) && (matches || self.workspaces.has(&id)) {
                let Some(machine) = recalled.take(&issue, now) else {
                    is_incomplete = true;
                    continue;
                };
                self.machines.insert(id.clone(), machine);
            }
            if matches {
                self.order.push(id.clone());
                is_blocked |= !issue.blocked_by.is_empty();
            }
            self.lookups.on_present(&id);
            match self.machines.get_mut(&id) {
                Some(machine) => {
                    let observed = machine.observe(issue, pull, now, &workflow);
                    if observed.changed || machine.is_active() || !matches {
                        touched.push(id.clone());
                    }
                    if observed.changed {
                        self.record(&id, observed, now);
                    }
                    seen.insert(id);
                }
                None => others.push(issue),
            }
        }
        self.handle_absent(|id, _| seen.contains(id), now);
        for id in touched {
            self.reconcile(&id, now);
        }
        self.sort();
        let forgotten = self.forget(&states);
        let others: HashMap<_, _> = if is_blocked {
            others
                .into_iter()
                .chain(forgotten)
                .map(|issue| (issue.id.clone(), issue))
                .collect()
        } else {
            HashMap::new()
        };
        self.update_blockers(others, now);
        self.forget(&states);
        self.knows_listed = self.keeps_listed() && !is_incomplete;
        // The blocked issues depend on issues that are not kept.
        self.can_skip_unchanged_pull = !is_blocked && !is_incomplete;
        if is_incomplete {
            self.effects.push(Effect::Pull);
        }
    }

    /// Handles a pull that is identical to the last one: only changes inside Vik can make a
    /// difference.
    pub(super) fn on_pulled_unchanged(&mut self, now: Now) {
        let workflow = std::sync::Arc::clone(&self.workflow);
        let pull = self.pulls_started;
        let states = states(&workflow);
        self.on_good_pull(now);
        let mut touched = Vec::new();
        for (id, machine) in &mut self.machines {
            if !machine.is_present() {
                continue;
            }
            let observed = machine.apply_pull(true, pull, now, &workflow);
            if observed.changed || machine.is_active() || !states.contains(&*machine.issue().state) {
                touched.push((id.clone(), observed));
            }
        }
        touched.sort_by(|a, b| a.0.cmp(&b.0));
        let mut ids = Vec::with_capacity(touched.len());
        for (id, observed) in touched {
            self.record(&id, observed, now);
            ids.push(id);
        }
        self.handle_absent(|_, machine| machine.is_present(), now);
        for id in ids {
            self.reconcile(&id, now);
        }
        self.forget(&states);
        self.knows_listed &= self.keeps_listed();
    }

    /// Returns whether listed issues stay in memory because they have a workspace.
    fn keeps_listed(&self) -> bool {
        self.workflow.issue.remove_workspace != RemoveWorkspace::Never
    }

    fn on_good_pull(&mut self, now: Now) {
        self.has_pulled = true;
        let pull = self.pulls_started;
        self.moving_on.retain(|_, after| *after > pull);
        self.ended_turns.on_good_pull(pull);
        self.lookups.on_good_pull(now);
    }

    /// Handles the issues that the pull did not return.
    fn handle_absent(&mut self, is_seen: impl Fn(&IssueId, &IssueMachine) -> bool, now: Now) {
        let mut missed: Vec<_> = self
            .machines
            .iter()
            .filter(|(id, machine)| {
                (machine.is_present() || !machine.runs().is_empty()) && !is_seen(id, machine)
            })
            .map(|(id, _)| id.clone())
            .collect();
        missed.sort();
        for id in missed {
            let Some(machine) = self.machines.get_mut(&id) else {
                continue;
            };
            let is_new = machine.is_present() || machine.is_active();
            let mut observed = machine.on_absent(self.pulls_started, now, &self.workflow);
            // The effect of a run on the issue is known only after the run has ended.
            let is_new = is_new || observed.changed;
            let is_missing = self.lookups.is_missing(&id);
            if is_missing {
                let over = machine.on_missing();
                observed.changed |= over.changed;
                observed.events.extend(over.events);
            }
            self.record(&id, observed, now);
            if is_new {
                self.request_lookup(&id, None, now);
            }
            self.reconcile(&id, now);
        }
        for id in self.workspaces.take_unseen() {
            if !self.machines.contains_key(&id) {
                self.request_lookup(&id, None, now);
            }
        }
        self.retry_lookups(now);
    }

    /// Sorts issues under way before new ones, then by priority, then by age, then in pull order.
    fn sort(&mut self) {
        let machines = &self.machines;
        let key = |id: &IssueId| {
            let machine = machines.get(id);
            let is_new = !machine.is_some_and(IssueMachine::is_under_way);
            let issue = machine.map(IssueMachine::issue);
            let priority = issue.and_then(|issue| issue.priority_milli);
            let created: Option<Timestamp> = issue.and_then(|issue| issue.created_at);
            (
                is_new,
                (priority.is_none(), priority),
                (created.is_none(), created),
            )
        };
        self.order.sort_by_cached_key(key);
    }

    /// Drops the issues of which only the counters matter, which the ledger has, and returns those
    /// that were present.
    fn forget(&mut self, states: &HashSet<&str>) -> Vec<Issue> {
        let mut forgotten = Vec::new();
        let mut idle = Vec::new();
        for (id, machine) in &self.machines {
            let matches = machine.is_present() && states.contains(&*machine.issue().state);
            let is_of_use = matches || !machine.is_idle() || self.workspaces.is_tracked(id, &self.workflow);
            if !is_of_use {
                idle.push(id.clone());
            }
        }
        idle.sort();
        for id in idle {
            let Some(machine) = self.machines.remove(&id) else {
                continue;
            };
            if machine.is_present() {
                forgotten.push(machine.issue().clone());
            }
            self.evictions += 1;
            if !self.workspaces.has(&id) {
                self.lookups.forget(&id);
            }
            if self.changed.remove(&id) {
                self.changes.machines.push(machine);
            }
        }
        forgotten
    }
}

/// Returns the states in which an issue matches a stage.
fn states(workflow: &Workflow) -> HashSet<&str> {
    let stages = workflow.issue.stages.iter();
    stages.flat_map(|stage| stage.when.all_states()).collect()
}
