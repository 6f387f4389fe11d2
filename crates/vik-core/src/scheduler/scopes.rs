//! Which issues may not start: since others work on the same paths, since their intent cannot be followed, or since nobody
//! trusts them.

use super::dispatch::Slots;
use super::{Hold, Scheduler};
use crate::ids::IssueId;
use crate::intent::Intent;
use crate::machine::IssueMachine;
use crate::scope::Scope;
use crate::time::Now;
use crate::trust::Trust;
use crate::workflow::{ScopeConflicts, Stage};

/// The scopes that others may not touch: of what runs or is about to start, and of what waits for one of these. The latter
/// keeps a wide scope from waiting for ever, while narrow ones that came later go on.
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

    /// What runs, or is about to.
    pub(super) fn start(&mut self, issue: &IssueId, scope: Option<&Scope>) {
        self.own(issue, scope, false);
    }

    /// The first other issue that owns some of it.
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
    /// The scope that an attempt would claim. Without one nothing is claimed.
    pub(super) fn scope(&self, machine: &IssueMachine, stage: &Stage) -> Option<Scope> {
        match self.workflow.issue.scope_conflicts {
            ScopeConflicts::Serialize => Intent::scope(stage, machine.issue()).ok().flatten(),
            ScopeConflicts::Allow => None,
        }
    }

    /// Who works on the same paths, or waits for them and comes first.
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

    /// A stage that is due is held: where it would start but for others, its scope is kept for it.
    pub(super) fn reserve_scope(
        &self,
        machine: &IssueMachine,
        stage: &Stage,
        hold: &Hold,
        slots: &mut Slots,
    ) {
        let waits = matches!(
            hold,
            Hold::ScopeConflict { .. } | Hold::AgentSlot { .. } | Hold::StageSlot
        );
        if waits {
            let scope = self.scope(machine, stage);
            slots.owned.own(&machine.issue().id, scope.as_ref(), true);
        }
    }

    /// The slots as they are when it is this issue's turn.
    pub(super) fn slots_before(&self, issue: &IssueId, now: Now) -> Slots {
        let mut slots = self.slots();
        // Where nothing of it can be held by a scope, or everything is by a slot that it does not have, nobody ahead makes
        // a difference.
        let claims = |machine: &IssueMachine| {
            let stages = self.workflow.issue.stages.iter();
            stages
                .filter(|stage| stage.when_state == *machine.issue().state)
                .any(|stage| self.scope(machine, stage).is_some())
        };
        if self.has_no_slot_for(issue, &slots) || !self.machines.get(issue).is_some_and(claims) {
            return slots;
        }
        let ahead = self.order.iter().take_while(|id| *id != issue);
        for machine in ahead.filter_map(|id| self.machines.get(id)) {
            let Some(stage) = self.due(machine, now) else {
                continue;
            };
            if let Some(hold) = self.stage_start_hold(machine, stage, &slots) {
                self.reserve_scope(machine, stage, &hold, &mut slots);
            }
        }
        slots
    }

    /// What the issue says of its intent cannot be followed in this stage.
    pub(super) fn bad_intent(&self, machine: &IssueMachine, stage: &Stage) -> Option<Hold> {
        let error = Intent::scope(stage, machine.issue()).err()?;
        let why = crate::visible::visible(&error.to_string()).into();
        Some(Hold::BadIntent { why })
    }

    /// What its text may do, by the rules that hold now.
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
