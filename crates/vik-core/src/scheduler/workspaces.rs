//! Workspaces of finished issues, which are removed once nothing runs in them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Effect, RemovalCause, Scheduler};
use crate::attempt::StopReason;
use crate::decision_kind::DecisionKind;
use crate::ids::IssueId;
use crate::issue::{Fingerprint, Issue};
use crate::machine::{IssueMachine, Phase};
use crate::time::Now;
use crate::workflow::{OnStateChange, RemoveWorkspace, Workflow};

/// The issues that have a workspace.
#[derive(Clone, Debug, Default)]
pub(super) struct Workspaces {
    all: BTreeSet<IssueId>,
    /// The issues of which something is being removed: nothing starts for them. The cause is that of
    /// the removal of the workspace; `None` if other files are removed.
    removing: BTreeMap<IssueId, Option<RemovalCause>>,
    /// Workspaces that could not be removed; they are tried again after the issue has changed.
    kept: HashMap<IssueId, Fingerprint>,
    /// Workspaces known from the start that no pull has missed yet.
    unseen: BTreeSet<IssueId>,
}

impl Workspaces {
    pub(super) fn extend(&mut self, issues: Vec<IssueId>) {
        self.unseen.extend(issues.iter().cloned());
        self.all.extend(issues);
    }

    pub(super) fn has(&self, issue: &IssueId) -> bool {
        self.all.contains(issue)
    }

    /// Returns the issues that pulls must keep whatever their state.
    pub(super) fn tracked(&self, workflow: &Workflow) -> impl Iterator<Item = &IssueId> {
        let tracked = workflow.issue.remove_workspace != RemoveWorkspace::Never;
        self.all.iter().filter(move |_| tracked)
    }

    pub(super) fn is_tracked(&self, issue: &IssueId, workflow: &Workflow) -> bool {
        self.has(issue) && workflow.issue.remove_workspace != RemoveWorkspace::Never
    }

    pub(super) fn mark_used(&mut self, issue: &IssueId) {
        self.all.insert(issue.clone());
        self.kept.remove(issue);
    }

    /// Forgets which workspaces could not be removed, as another rule may remove them.
    pub(super) fn forget_kept(&mut self) {
        self.kept.clear();
    }

    pub(super) fn is_removing_of(&self, issue: &IssueId) -> bool {
        self.removing.contains_key(issue)
    }

    /// Marks that files beside the workspace are being removed.
    pub(super) fn hold_for_removal(&mut self, issue: &IssueId) {
        self.removing.insert(issue.clone(), None);
    }

    /// Ends the hold of [`hold_for_removal`](Self::hold_for_removal).
    pub(super) fn end_removal(&mut self, issue: &IssueId) {
        if self.removing.get(issue) == Some(&None) {
            self.removing.remove(issue);
        }
    }

    pub(super) fn is_removing(&self) -> bool {
        !self.removing.is_empty()
    }

    /// Returns the workspaces known from the start that were not looked up yet.
    pub(super) fn take_unseen(&mut self) -> BTreeSet<IssueId> {
        std::mem::take(&mut self.unseen)
    }
}

impl Scheduler {
    /// Compares the running attempts and the workspace of an issue with its state.
    pub(super) fn reconcile(&mut self, issue: &IssueId, now: Now) {
        let is_missing = self.lookups.is_missing(issue);
        let Some(machine) = self.machines.get(issue) else {
            if is_missing {
                let bare = Issue::bare(issue.clone());
                self.remove_finished(bare, now);
            }
            return;
        };
        let state = &machine.issue().state;
        if is_missing || self.workflow.is_terminal(state) {
            if machine.is_active() {
                self.done_since.entry(issue.clone()).or_insert(now.mono);
            } else {
                self.done_since.remove(issue);
                if may_be_removed(machine) {
                    let issue = machine.issue().clone();
                    self.remove_finished(issue, now);
                }
            }
            return;
        }
        self.done_since.remove(issue);
        let cancelled: Vec<_> = machine
            .runs()
            .iter()
            .filter_map(|run| run.active())
            .filter(|start| {
                !machine.issue().is_taken_by(&start.stage.when)
                    && start.stage.on_state_change == OnStateChange::Cancel
                    && !self.ended_turns.is_over(start.attempt_id)
            })
            .map(|start| start.attempt_id)
            .collect();
        for attempt_id in cancelled {
            self.stop(issue, attempt_id, StopReason::StateChanged, now);
        }
    }

    /// Compares the absent issues with a workspace with the edited workflow: it may call their state
    /// terminal, or remove what it kept until now, and no pull or lookup concerns them any more.
    pub(super) fn reconcile_absent(&mut self, now: Now) {
        let is_present = |issue: &&IssueId| {
            let machine = self.machines.get(*issue);
            machine.is_some_and(IssueMachine::is_present)
        };
        let tracked = self.workspaces.tracked(&self.workflow);
        let absent: Vec<_> = tracked.filter(|issue| !is_present(issue)).cloned().collect();
        for issue in absent {
            self.reconcile(&issue, now);
        }
    }

    /// Stops the attempts of finished issues when the grace period is over.
    pub(super) fn stop_finished_issues(&mut self, now: Now) {
        let grace = self.workflow.issue.terminal_grace.0;
        let over: Vec<_> = self
            .done_since
            .iter()
            .filter(|(_, since)| since.plus(grace) <= now.mono)
            .map(|(issue, _)| issue.clone())
            .filter(|issue| {
                let attempts = self.active_attempts(issue);
                !attempts
                    .iter()
                    .any(|attempt_id| self.ended_turns.is_over(*attempt_id))
            })
            .collect();
        for issue in over {
            self.done_since.remove(&issue);
            let why = if self.lookups.is_missing(&issue) {
                StopReason::Missing
            } else {
                StopReason::Terminal
            };
            for attempt_id in self.active_attempts(&issue) {
                self.stop(&issue, attempt_id, why.clone(), now);
            }
        }
    }

    pub(super) fn active_attempts(&self, issue: &IssueId) -> Vec<crate::ids::AttemptId> {
        let runs = self
            .machines
            .get(issue)
            .map(IssueMachine::runs)
            .unwrap_or_default();
        runs.iter()
            .filter_map(|run| run.active())
            .map(|start| start.attempt_id)
            .collect()
    }

    fn remove_finished(&mut self, issue: Issue, now: Now) {
        let places = &self.workspaces;
        let is_asked = places.removing.contains_key(&issue.id)
            || places.kept.get(&issue.id) == Some(&issue.fingerprint())
            || !places.all.contains(&issue.id)
            || self.workflow.issue.remove_workspace == RemoveWorkspace::Never;
        if is_asked {
            return;
        }
        let detail = format!("the issue is in the terminal state `{}`", issue.state);
        self.remove_workspace(issue, RemovalCause::Finished, detail, now);
    }

    pub(super) fn remove_workspace(&mut self, issue: Issue, cause: RemovalCause, detail: String, now: Now) {
        self.workspaces.removing.insert(issue.id.clone(), Some(cause));
        self.decide(now, DecisionKind::RemovingWorkspace, &issue.id, detail);
        self.effects.push(Effect::RemoveWorkspace(Box::new(issue), cause));
    }

    pub(super) fn on_workspace_removed(&mut self, issue: &IssueId, removed: bool, now: Now) {
        let Some(Some(cause)) = self.workspaces.removing.get(issue).copied() else {
            return;
        };
        self.workspaces.removing.remove(issue);
        let (kind, detail) = if removed {
            self.workspaces.all.remove(issue);
            self.workspaces.kept.remove(issue);
            match self.machines.get_mut(issue) {
                Some(machine) => {
                    if machine.forget_workspace() {
                        self.changed.insert(issue.clone());
                    }
                }
                None => self.lookups.forget(issue),
            }
            let why = match cause {
                RemovalCause::Finished => "the issue is finished",
                RemovalCause::Unlisted => "no pull lists the issue any more",
            };
            (DecisionKind::WorkspaceRemoved, why)
        } else if cause == RemovalCause::Unlisted {
            // It is tried again after a while, because the work in it may be saved in the meantime.
            (
                DecisionKind::WorkspaceKept,
                "it contains unsaved work, or could not be removed",
            )
        } else {
            let known = self
                .machines
                .get(issue)
                .map(|machine| machine.issue().fingerprint());
            let known = known.unwrap_or_else(|| Issue::bare(issue.clone()).fingerprint());
            self.workspaces.kept.insert(issue.clone(), known);
            (
                DecisionKind::WorkspaceKept,
                "the workspace could not be removed, or contains unsaved work",
            )
        };
        self.decide(now, kind, issue, detail.to_owned());
        if !removed && cause == RemovalCause::Unlisted {
            // The issue may have been finished meanwhile, and then another rule applies.
            self.reconcile(issue, now);
        }
    }
}

/// Returns whether nothing uses the workspace, as far as is known.
pub(super) fn may_be_removed(machine: &IssueMachine) -> bool {
    let settles = |phase: &Phase| matches!(phase, Phase::Settling { .. });
    machine.taken_over().is_none()
        && !machine.is_busy()
        && !machine.is_unproven()
        && !machine.runs().iter().any(|run| settles(&run.phase))
}
