//! Looks at single issues: right before a start, when one is missed, and at blockers that no pull brings.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::{DecisionSubject, Effect, LookupResult, Scheduler};
use crate::ids::{IssueId, StageName};
use crate::issue::Issue;
use crate::machine::{IssueMachine, PullNo};
use crate::time::{Mono, Now};

/// A look whose answer is this much later than the command may take is not waited for any more.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// After so many failed looks in a row, `run --once` does not wait for a better one.
const MAX_FAILED_LOOKUPS: u32 = 3;

/// How soon an issue that no pull brings is looked at again: the first wait, which doubles up to the longest one.
const RETRY_BACKOFF: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3600));

/// So many of them are looked at again after one pull.
const MAX_RETRIES_PER_PULL: usize = 8;

/// Looks that are under way, and what came of earlier ones.
#[derive(Clone, Debug, Default)]
pub(super) struct IssueLookups {
    pending: BTreeMap<IssueId, PendingLookup>,
    failed: HashMap<IssueId, FailedLookup>,
    /// Issues that the tracker does not have any more.
    missing: BTreeSet<IssueId>,
    /// Those of which that is noted: a pull that still brings one is contradicted in each cycle, and told of it once.
    recorded_missing: BTreeSet<IssueId>,
    /// Issues that no pull brings and that still matter: when each is looked at again.
    retries: BTreeMap<IssueId, RetrySchedule>,
}

#[derive(Clone, Copy, Debug)]
struct RetrySchedule {
    at: Mono,
    wait: Duration,
}

#[derive(Clone, Debug)]
struct PendingLookup {
    /// The stage that starts if it still may; its slots are held.
    start: Option<StageName>,
    /// When the answer counts as lost.
    until: Mono,
}

#[derive(Clone, Copy, Debug)]
struct FailedLookup {
    in_a_row: u32,
    /// Until the next pull.
    holds: bool,
}

impl IssueLookups {
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The stages that are about to start.
    pub(super) fn starting(&self) -> impl Iterator<Item = (&IssueId, &StageName)> {
        self.pending
            .iter()
            .filter_map(|(id, pending)| Some((id, pending.start.as_ref()?)))
    }

    pub(super) fn is_starting(&self, issue: &IssueId) -> bool {
        self.pending
            .get(issue)
            .is_some_and(|pending| pending.start.is_some())
    }

    /// What is about to start does not, whatever the answer.
    pub(super) fn cancel_start(&mut self, issue: &IssueId) {
        if let Some(pending) = self.pending.get_mut(issue) {
            pending.start = None;
        }
    }

    pub(super) fn has_failed(&self, issue: &IssueId) -> bool {
        self.failed.get(issue).is_some_and(|failed| failed.holds)
    }

    pub(super) fn has_retryable_failure(&self) -> bool {
        self.failed
            .values()
            .any(|failed| failed.holds && failed.in_a_row < MAX_FAILED_LOOKUPS)
    }

    pub(super) fn is_missing(&self, issue: &IssueId) -> bool {
        self.missing.contains(issue)
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = Mono> {
        self.pending.values().map(|pending| pending.until)
    }

    /// A pull brought it: it is there, and may be looked at again.
    pub(super) fn on_present(&mut self, issue: &IssueId) {
        if !self.missing.is_empty() {
            self.missing.remove(issue);
        }
    }

    /// A good pull ended: what failed is tried again.
    pub(super) fn on_good_pull(&mut self, now: Now) {
        for failed in self.failed.values_mut() {
            failed.holds = false;
        }
        self.pending.retain(|_, pending| pending.until > now.mono);
    }

    /// Whether it is the first failure in a row.
    fn record_failure(&mut self, issue: &IssueId) -> bool {
        let failed = self.failed.entry(issue.clone()).or_insert(FailedLookup {
            in_a_row: 0,
            holds: true,
        });
        failed.in_a_row += 1;
        failed.holds = true;
        failed.in_a_row == 1
    }
}

impl Scheduler {
    /// Asks for a look at an issue, and for the start of a stage should it still be due then. False where the workflow
    /// has no way to look.
    pub(super) fn request_lookup(&mut self, issue: &IssueId, start: Option<StageName>, now: Now) -> bool {
        let Some(show) = &self.workflow.show else {
            return false;
        };
        let until = now.mono.plus(show.timeout.0).plus(LOST_AFTER);
        if let Some(pending) = self.lookups.pending.get_mut(issue)
            && pending.until > now.mono
        {
            pending.start = start.or(pending.start.take());
            return true;
        }
        self.lookups
            .pending
            .insert(issue.clone(), PendingLookup { start, until });
        self.effects.push(Effect::LookUp(issue.clone()));
        true
    }

    /// Looks again at issues that no pull brings while something of them is left: a parked run, or a workspace. They may
    /// have been closed since, or the look at them may have failed.
    pub(super) fn retry_lookups(&mut self, now: Now) {
        if self.workflow.show.is_none() {
            return;
        }
        let left: BTreeSet<IssueId> = self
            .machines
            .values()
            .filter(|machine| machine.runs().iter().any(|run| run.park_reason().is_some()))
            .map(|machine| machine.issue().id.clone())
            .chain(self.workspaces.tracked(&self.workflow).cloned())
            .filter(|id| self.is_absent_and_open(id))
            .collect();
        self.lookups.retries.retain(|id, _| left.contains(id));
        let mut due = Vec::new();
        for id in left {
            let retry = self.lookups.retries.entry(id).or_insert(RetrySchedule {
                at: now.mono.plus(RETRY_BACKOFF.0),
                wait: RETRY_BACKOFF.0,
            });
            if retry.at <= now.mono {
                due.push(retry.at);
            }
        }
        due.sort_unstable();
        let Some(last) = due
            .get(due.len().min(MAX_RETRIES_PER_PULL).saturating_sub(1))
            .copied()
        else {
            return;
        };
        let chosen = self
            .lookups
            .retries
            .iter_mut()
            .filter(|(_, retry)| retry.at <= last);
        let chosen: Vec<_> = chosen
            .take(MAX_RETRIES_PER_PULL)
            .map(|(id, retry)| {
                retry.wait = (retry.wait * 2).min(RETRY_BACKOFF.1);
                retry.at = now.mono.plus(retry.wait);
                id.clone()
            })
            .collect();
        for id in chosen {
            self.request_lookup(&id, None, now);
        }
    }

    /// Whether the last pull did not bring the issue, and nothing shows that it is closed.
    fn is_absent_and_open(&self, id: &IssueId) -> bool {
        let is_open = self.machines.get(id).is_none_or(|machine| {
            !machine.is_present()
                && !machine.is_active()
                && !self.workflow.is_terminal(&machine.issue().state)
        });
        is_open && !self.lookups.is_missing(id)
    }

    /// An issue was looked at.
    pub(super) fn on_lookup_result(&mut self, issue: &IssueId, seen: LookupResult, now: Now) {
        let start = self
            .lookups
            .pending
            .remove(issue)
            .and_then(|pending| pending.start);
        let seen = match seen {
            // It answers another question than was asked.
            LookupResult::Snapshot(snapshot) if snapshot.id != *issue => LookupResult::Unknown,
            seen => seen,
        };
        self.on_blocker_lookup(issue, &seen, now);
        match seen {
            LookupResult::Snapshot(snapshot) => {
                self.lookups.missing.remove(issue);
                self.lookups.recorded_missing.remove(issue);
                self.lookups.failed.remove(issue);
                self.apply_lookup(issue, *snapshot, now);
                self.reconcile(issue, now);
                if start.is_some() {
                    self.start_after_lookup(issue, now);
                }
            }
            LookupResult::Missing => {
                self.lookups.failed.remove(issue);
                if self.machines.contains_key(issue) || self.workspaces.has(issue) {
                    self.on_missing(issue, now);
                }
            }
            LookupResult::Unknown => {
                if start.is_some() && self.lookups.record_failure(issue) {
                    let detail =
                        "the look at it right before the start failed; each pull tries again".to_owned();
                    self.decide(now, "show_failed", DecisionSubject::issue(issue), detail);
                }
            }
        }
    }

    fn apply_lookup(&mut self, issue: &IssueId, snapshot: Issue, now: Now) {
        if self.workspaces.has(issue) && !self.machines.contains_key(issue) {
            let mut machine =
                IssueMachine::new(snapshot.clone(), self.lives.remove(issue).unwrap_or_default());
            machine.on_absent(PullNo::default(), now, &self.workflow);
            self.machines.insert(issue.clone(), machine);
        }
        let Some(machine) = self.machines.get_mut(issue) else {
            return;
        };
        let blockers_changed = machine.issue().blocked_by != snapshot.blocked_by;
        let observed = machine.apply_lookup(snapshot, now, &self.workflow);
        self.record(issue, observed, now);
        if blockers_changed {
            self.refresh_blockers(now);
        }
    }

    /// The tracker does not have it any more: nothing of it waits.
    fn on_missing(&mut self, issue: &IssueId, now: Now) {
        self.lookups.missing.insert(issue.clone());
        if self.lookups.recorded_missing.insert(issue.clone()) {
            let detail = "the tracker does not have it any more".to_owned();
            self.decide(now, "gone", DecisionSubject::issue(issue), detail);
        }
        if let Some(machine) = self.machines.get_mut(issue) {
            let observed = machine.on_missing();
            self.record(issue, observed, now);
        }
        self.reconcile(issue, now);
    }
}
