//! Looks up single issues: right before a start, when a pull no longer returns one, and blockers
//! that no pull returns.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::{Effect, LookupResult, Recalled, Scheduler};
use crate::decision_kind::DecisionKind;
use crate::ids::{IssueId, StageName};
use crate::issue::Issue;
use crate::machine::PullNo;
use crate::time::{Mono, Now};
use crate::worker::WorkerName;

/// A lookup counts as lost this long after the timeout of its command.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// After this many consecutive failed lookups `run --once` no longer waits for a successful one.
const MAX_FAILED_LOOKUPS: u32 = 3;

/// The first and the longest wait before an absent issue is looked up again; each wait doubles.
const RETRY_BACKOFF: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3600));

/// The number of absent issues that are looked up again after one pull.
const MAX_RETRIES_PER_PULL: usize = 8;

/// Pending lookups, and the results of earlier ones.
#[derive(Clone, Debug, Default)]
pub(super) struct IssueLookups {
    pending: BTreeMap<IssueId, PendingLookup>,
    failed: HashMap<IssueId, FailedLookup>,
    /// Issues that the tracker no longer has.
    missing: BTreeSet<IssueId>,
    /// Missing issues for which a decision was recorded: a pull may return such an issue in every
    /// cycle, and one decision is enough.
    recorded_missing: BTreeSet<IssueId>,
    /// Issues that are absent from pulls and still matter, each with the time of its next lookup.
    retries: BTreeMap<IssueId, RetrySchedule>,
}

#[derive(Clone, Copy, Debug)]
struct RetrySchedule {
    at: Mono,
    wait: Duration,
}

#[derive(Clone, Debug)]
struct PendingLookup {
    /// The stage to start after the lookup; its slots are reserved.
    start: Option<PlannedStart>,
    /// When the response counts as lost.
    until: Mono,
}

/// The start that follows a lookup.
#[derive(Clone, Debug)]
pub(super) struct PlannedStart {
    pub stage: StageName,
    /// The worker with a reserved place. The attempt may run on another one in the end.
    pub worker: Option<WorkerName>,
}

#[derive(Clone, Copy, Debug)]
struct FailedLookup {
    in_a_row: u32,
    /// Whether it holds the issue until the next pull.
    holds: bool,
}

impl IssueLookups {
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the starts that are about to follow.
    pub(super) fn starting(&self) -> impl Iterator<Item = (&IssueId, &PlannedStart)> {
        self.pending
            .iter()
            .filter_map(|(id, pending)| Some((id, pending.start.as_ref()?)))
    }

    pub(super) fn is_starting(&self, issue: &IssueId) -> bool {
        self.pending
            .get(issue)
            .is_some_and(|pending| pending.start.is_some())
    }

    /// Cancels the start after a pending lookup, whatever its result.
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

    /// Drops the results of an issue that is no longer in use.
    pub(super) fn forget(&mut self, issue: &IssueId) {
        self.failed.remove(issue);
        self.missing.remove(issue);
        self.recorded_missing.remove(issue);
        self.retries.remove(issue);
    }

    /// Records that a pull returned the issue.
    pub(super) fn on_present(&mut self, issue: &IssueId) {
        if !self.missing.is_empty() {
            self.missing.remove(issue);
        }
    }

    /// Handles a successful pull: failed lookups may be retried.
    pub(super) fn on_good_pull(&mut self, now: Now) {
        for failed in self.failed.values_mut() {
            failed.holds = false;
        }
        self.pending.retain(|_, pending| pending.until > now.mono);
    }

    /// Records a failed lookup. Returns whether it is the first one in a row.
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
    /// Requests a lookup of an issue, and the start of a stage if the stage is still due then.
    /// Returns false if the workflow has no `show` command.
    pub(super) fn request_lookup(&mut self, issue: &IssueId, start: Option<PlannedStart>, now: Now) -> bool {
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

    /// Looks up again the absent issues that still have a parked run or a workspace. They may have
    /// been closed since, or their lookup may have failed.
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

    /// Returns whether the last pull did not return the issue and nothing shows that it is closed.
    fn is_absent_and_open(&self, id: &IssueId) -> bool {
        let is_open = self.machines.get(id).is_none_or(|machine| {
            !machine.is_present()
                && !machine.is_active()
                && !self.workflow.is_terminal(&machine.issue().state)
        });
        is_open && !self.lookups.is_missing(id)
    }

    /// Handles the result of a lookup.
    pub(super) fn on_lookup_result(
        &mut self,
        issue: &IssueId,
        seen: LookupResult,
        recalled: Recalled,
        now: Now,
    ) {
        let start = self
            .lookups
            .pending
            .remove(issue)
            .and_then(|pending| pending.start);
        let seen = match seen {
            // The response is about another issue.
            LookupResult::Snapshot(snapshot) if snapshot.id != *issue => LookupResult::Unknown,
            seen => seen,
        };
        self.on_blocker_lookup(issue, &seen, now);
        match seen {
            LookupResult::Snapshot(snapshot) => {
                self.lookups.missing.remove(issue);
                self.lookups.recorded_missing.remove(issue);
                self.lookups.failed.remove(issue);
                self.apply_lookup(issue, *snapshot, recalled, now);
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
                        "the check of the issue before the start failed; Vik retries after each pull"
                            .to_owned();
                    self.decide(now, DecisionKind::LookupFailed, issue, detail);
                }
            }
        }
    }

    fn apply_lookup(&mut self, issue: &IssueId, snapshot: Issue, mut recalled: Recalled, now: Now) {
        if self.is_unknown(issue)
            && let Some(mut machine) = recalled.take(&snapshot, now)
        {
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

    /// Handles an issue that the tracker no longer has: its waiting runs end.
    fn on_missing(&mut self, issue: &IssueId, now: Now) {
        self.lookups.missing.insert(issue.clone());
        if self.lookups.recorded_missing.insert(issue.clone()) {
            let detail = "the tracker no longer has the issue".to_owned();
            self.decide(now, DecisionKind::Missing, issue, detail);
        }
        if let Some(machine) = self.machines.get_mut(issue) {
            let observed = machine.on_missing();
            self.record(issue, observed, now);
        }
        self.reconcile(issue, now);
    }
}
