//! Data that is older than the workflow keeps it, which is removed once nothing uses it.

use super::workspaces::may_be_removed;
use super::{DecisionSubject, Effect, Expired, RemovalCause, Scheduler};
use crate::decision_kind::DecisionKind;
use crate::ids::IssueId;
use crate::issue::Issue;
use crate::machine::{IssueMachine, Phase};
use crate::time::Now;
use crate::workflow::KeepTime;

impl Scheduler {
    /// Decides whether expired data is removed. The caller found that it is old; this checks that
    /// nothing uses it, and that the workflow still says so.
    pub(super) fn on_expired(&mut self, expired: Expired, now: Now) {
        let (keep, key) = match expired {
            Expired::Workspace(_) => (self.workflow.keep_unlisted(), "issue.unlisted"),
            Expired::Scratch(_) => (self.workflow.retention.scratch, "retention.scratch"),
            Expired::Sessions(_) => (self.workflow.retention.sessions, "retention.sessions"),
            Expired::History => (self.workflow.retention.ledger, "retention.ledger"),
            Expired::Trace => (self.workflow.retention.trace, "retention.trace"),
        };
        let Some(before) = keep.limit(now.wall) else {
            return;
        };
        if !self.is_unused(&expired) {
            return;
        }
        let subject = match &expired {
            Expired::Workspace(id) => return self.remove_unlisted(&id.clone(), keep, now),
            Expired::Scratch(_) => "the scratch folder of the issue was last used",
            Expired::Sessions(_) => "the sessions of the issue ended",
            Expired::History => "attempts in the ledger ended",
            Expired::Trace => "records of the trace were written",
        };
        let detail = format!("{subject} more than {keep} ago (`{key}`)");
        let issue = expired.issue();
        if let Some(issue) = issue {
            self.workspaces.hold_for_removal(issue);
        }
        let of = issue.map(DecisionSubject::from).unwrap_or_default();
        self.decide(now, DecisionKind::RemovingExpired, of, detail);
        self.effects.push(Effect::RemoveExpired(expired, before));
    }

    pub(super) fn on_expired_removed(&mut self, expired: &Expired, now: Now) {
        if let Some(issue) = expired.issue() {
            self.workspaces.end_removal(issue);
            // Its workspace may have had to wait.
            self.reconcile(issue, now);
        }
    }

    fn remove_unlisted(&mut self, id: &IssueId, keep: KeepTime, now: Now) {
        let machine = self.machines.get(id);
        let issue = machine.map_or_else(|| Issue::bare(id.clone()), |machine| machine.issue().clone());
        let detail = format!("no pull has listed the issue for {keep} (`issue.unlisted`)");
        self.remove_workspace(issue, RemovalCause::Unlisted, detail, now);
    }

    /// Returns whether nothing uses the data, as far as is known.
    fn is_unused(&self, expired: &Expired) -> bool {
        let Some(id) = expired.issue() else {
            return true;
        };
        if self.workspaces.is_removing_of(id) || self.lookups.is_starting(id) {
            return false;
        }
        let machine = self.machines.get(id);
        let waits = |phase: &Phase| matches!(phase, Phase::Awaiting { .. } | Phase::Asking { .. });
        let is_free = machine.is_none_or(|machine| {
            may_be_removed(machine) && !machine.runs().iter().any(|run| waits(&run.phase))
        });
        is_free
            && match expired {
                Expired::Workspace(_) => {
                    // Before a pull, and while no workspace may be removed, it is not known which of
                    // these issues pulls list.
                    self.knows_listed
                        && self.workspaces.has(id)
                        && !machine.is_some_and(IssueMachine::is_present)
                }
                // A person who retries a parked stage continues its conversation.
                Expired::Sessions(_) => {
                    !self.workspaces.has(id) && machine.is_none_or(|machine| machine.runs().is_empty())
                }
                Expired::Scratch(_) | Expired::History | Expired::Trace => true,
            }
    }
}

impl Expired {
    /// Returns the issue that the data belongs to; `None` if it belongs to many.
    pub fn issue(&self) -> Option<&IssueId> {
        match self {
            Self::Workspace(issue) | Self::Scratch(issue) | Self::Sessions(issue) => Some(issue),
            Self::History | Self::Trace => None,
        }
    }
}
