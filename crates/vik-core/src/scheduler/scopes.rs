//! Holds that follow from an issue's own text: scope conflicts, invalid intents and missing trust.

use super::dispatch::Slots;
use super::{Hold, Scheduler};
use crate::ids::IssueId;
use crate::intent::Intent;
use crate::machine::IssueMachine;
use crate::scope::Scope;
use crate::time::Now;
use crate::trust::Trust;
use crate::workflow::{ScopeConflicts, Stage};

/// The scopes in use, by attempts that run or are about to start and by stages that wait for one of
/// these. The waiting ones keep a wide scope from starving while narrow ones that arrived later
/// run.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnedScopes(Vec<Owned>);

#[derive(Clone, Debug)]
struct Owned {
    issue: IssueId,
    scope: Scope,
    waits: bool,
}

impl OwnedScopes {
    fn own(&mut self, issue: &IssueId, scope: Option<&Scope>, waits: bool) {
        let owned = scope.map(|scope| Owned {
            issue: issue.clone(),
            scope: scope.clone(),
            waits,
        });
        self.0.extend(owned);
    }

    /// Claims the scope of an attempt that runs or is about to start.
    pub(super) fn start(&mut self, issue: &IssueId, scope: Option<&Scope>) {
        self.own(issue, scope, false);
    }

    /// Returns the hold by the first other issue whose scope overlaps.
    fn conflict(&self, issue: &IssueId, scope: &Scope) -> Option<Hold> {
        let mut others = self.0.iter().filter(|owned| owned.issue != *issue);
        let other = others.find(|owned| owned.scope.overlaps(scope))?;
        Some(Hold::ScopeConflict {
            with: other.issue.clone(),
            waits: other.waits,
        })
    }
}

impl Scheduler {
    /// Returns the scope that an attempt would claim; `None` claims nothing.
    pub(super) fn scope(&self, machine: &IssueMachine, stage: &Stage) -> Option<Scope> {
        match self.workflow.issue.scope_conflicts {
            ScopeConflicts::Serialize => Intent::scope(stage, machine.issue()).ok().flatten(),
            ScopeConflicts::Allow => None,
        }
    }

    /// Returns the hold by an issue that works on overlapping paths, or waits for them ahead of
    /// this one.
    pub(super) fn scope_conflict(
        &self,
        machine: &IssueMachine,
        stage: &Stage,
        slots: &Slots,
    ) -> Option<Hold> {
        if slots.owned.0.is_empty() {
            return None;
        }
        let scope = self.scope(machine, stage)?;
        slots.owned.conflict(&machine.issue().id, &scope)
    }

    /// Reserves the scope of a due stage that waits only for others. A stage that needs an approval
    /// waits for a person first, and others must not wait for that.
    pub(super) fn reserve_scope(
        &self,
        machine: &IssueMachine,
        stage: &Stage,
        hold: &Hold,
        slots: &mut Slots,
    ) {
        let waits = match hold {
            Hold::ScopeConflict { .. } | Hold::AgentSlot { .. } | Hold::StageSlot => true,
            Hold::NoWorker { reason } => reason.ends_with_others(),
            _ => false,
        };
        if waits && !machine.needs_approval(stage) {
            let scope = self.scope(machine, stage);
            slots.owned.own(&machine.issue().id, scope.as_ref(), true);
        }
    }

    /// Returns the slots in use when it is the turn of this issue.
    pub(super) fn slots_before(&self, issue: &IssueId, now: Now) -> Slots {
        let mut slots = self.slots();
        // The issues ahead make no difference if no scope can hold this issue, or if it has no slot
        // anyway.
        let claims = |machine: &IssueMachine| {
            let stages = self.workflow.issue.stages.iter();
            stages
                .filter(|stage| machine.issue().is_taken_by(&stage.when))
                .any(|stage| self.scope(machine, stage).is_some())
        };
        if self.slot_hold(issue, &slots).is_some() || !self.machines.get(issue).is_some_and(claims) {
            return slots;
        }
        let ahead = self.order.iter().take_while(|id| *id != issue);
        for machine in ahead.filter_map(|id| self.machines.get(id)) {
            let Some(stage) = self.due(machine, now) else {
                continue;
            };
            if let Err(hold) = self.worker_to_start(machine, stage, &slots) {
                self.reserve_scope(machine, stage, &hold, &mut slots);
            }
        }
        slots
    }

    /// Returns the hold by an intent that is invalid in this stage.
    pub(super) fn bad_intent(&self, machine: &IssueMachine, stage: &Stage) -> Option<Hold> {
        let error = Intent::scope(stage, machine.issue()).err()?;
        let why = crate::visible::visible(&error.to_string()).into();
        Some(Hold::BadIntent { why })
    }

    /// Returns how far the text of the issue is trusted by the current rules.
    pub(super) fn trust(&self, machine: &IssueMachine) -> Trust {
        let policy = self.workflow.trust.as_ref();
        policy
            .map(|policy| policy.judge(machine.issue()))
            .unwrap_or_default()
    }

    pub(super) fn untrusted(&self, machine: &IssueMachine) -> Option<Hold> {
        (self.trust(machine) == Trust::Held).then(|| Hold::Untrusted {
            author: machine.issue().origin().author.clone(),
        })
    }
}
