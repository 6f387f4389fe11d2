//! When data that is too old is searched for and removed, and what came of it.
//!
//! A search runs beside the loop and only reads. Each of its findings is an input of the scheduler,
//! which decides whether the data is removed: the decision is committed first. A removal that a
//! crash interrupts is found again by the next search.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use vik_api::{KeptView, RemovedView, RetentionView};
use vik_base::report::one_line;
use vik_core::ids::IssueId;
use vik_core::scheduler::{Expired, RemovalCause};
use vik_core::time::Mono;
use vik_core::workflow::{KeepTime, Workflow};

use crate::effects::{ExpiredRemoval, ExpiryScan, Removal};

/// The time from the start to the first search: recovery and the first pulls come first.
const FIRST_SCAN: SignedDuration = SignedDuration::from_secs(60);

/// The interval between two searches. Ages are days, and a search reads one entry for each issue.
const SCAN_EVERY: SignedDuration = SignedDuration::from_hours(1);

/// The minimum time between the starts of two removals, of which one runs at a time. At most five a
/// second leave disk and ledger to the agents, and remove 400,000 issues a day.
const REMOVAL_GAP: Duration = Duration::from_millis(200);

/// How long data that could not be removed is left alone.
const RETRY_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// The maximum number of kept data in a status.
const SHOWN_KEPT: usize = 20;

/// The state of the retention.
pub(crate) struct Retention {
    /// When the next search is due, by the wall clock.
    scan_due: Timestamp,
    is_scanning: bool,
    /// The findings of the last search that were not decided yet.
    queue: VecDeque<Expired>,
    /// When the next finding is due.
    due: Mono,
    /// The number of removals that run.
    removals: usize,
    last_scan: Option<Timestamp>,
    problems: Vec<String>,
    unlisted: BTreeMap<IssueId, Timestamp>,
    removed: RemovedView,
    /// The data that could not be removed, with the reason.
    kept: BTreeMap<Expired, Kept>,
}

struct Kept {
    why: String,
    at: Timestamp,
}

impl Retention {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            scan_due: after(now, FIRST_SCAN),
            is_scanning: false,
            queue: VecDeque::new(),
            due: Mono::default(),
            removals: 0,
            last_scan: None,
            problems: Vec::new(),
            unlisted: BTreeMap::new(),
            removed: RemovedView::default(),
            kept: BTreeMap::new(),
        }
    }

    /// Returns when the next finding is due, if there is one.
    pub(crate) fn due(&self) -> Option<Mono> {
        (!self.queue.is_empty() && self.removals == 0).then_some(self.due)
    }

    /// Returns whether a search is due. It then counts as started.
    pub(crate) fn start_due_scan(&mut self, now: Timestamp) -> bool {
        let is_due = !self.is_scanning && self.scan_due <= now;
        self.is_scanning |= is_due;
        is_due
    }

    /// Takes the next finding, if it is due.
    pub(crate) fn take_due(&mut self, now: Mono) -> Option<Expired> {
        self.due().filter(|due| *due <= now)?;
        self.due = now.plus(REMOVAL_GAP);
        self.queue.pop_front()
    }

    /// Notes that a removal started. The workspaces of finished issues do not delay others.
    pub(crate) fn on_removal_started(&mut self, is_expired: bool) {
        self.removals += usize::from(is_expired);
    }

    /// Notes the end of a removal of a workspace.
    pub(crate) fn on_workspace(
        &mut self,
        issue: &IssueId,
        cause: RemovalCause,
        removal: &Removal,
        now: Timestamp,
    ) {
        if cause == RemovalCause::Unlisted {
            self.removals = self.removals.saturating_sub(1);
        }
        let expired = Expired::Workspace(issue.clone());
        match removal {
            Removal::Kept(why) => self.keep(expired, why, now),
            Removal::Removed { bytes } => {
                self.removed.workspaces += 1;
                self.removed.bytes += bytes;
                self.forget(&expired);
            }
            Removal::Absent => self.forget(&expired),
        }
    }

    fn forget(&mut self, expired: &Expired) {
        self.kept.remove(expired);
        if let Expired::Workspace(issue) = expired {
            self.unlisted.remove(issue);
        }
    }

    fn keep(&mut self, expired: Expired, why: &str, at: Timestamp) {
        let why = one_line(why, 500);
        self.kept.insert(expired, Kept { why, at });
    }

    /// Notes the end of a removal of old data.
    pub(crate) fn on_expired(
        &mut self,
        expired: &Expired,
        result: &Result<ExpiredRemoval, String>,
        now: Timestamp,
    ) {
        self.removals = self.removals.saturating_sub(1);
        let removal = match result {
            Ok(removal) => removal,
            Err(why) => return self.keep(expired.clone(), why, now),
        };
        let counter = match expired {
            Expired::Workspace(_) => &mut self.removed.workspaces,
            Expired::Scratch(_) => &mut self.removed.scratch,
            Expired::Sessions(_) => &mut self.removed.sessions,
            Expired::History => &mut self.removed.attempts,
            Expired::Trace => &mut self.removed.trace_records,
        };
        *counter += removal.count;
        self.removed.bytes += removal.bytes;
        self.kept.remove(expired);
        if removal.has_more {
            self.queue.push_back(expired.clone());
        }
    }

    /// Notes the findings of a search.
    pub(crate) fn on_scanned(&mut self, scan: ExpiryScan, now: Timestamp) {
        self.is_scanning = false;
        self.scan_due = after(now, SCAN_EVERY);
        self.last_scan = Some(now);
        for problem in scan
            .problems
            .iter()
            .filter(|problem| !self.problems.contains(problem))
        {
            tracing::warn!(problem, "cannot search for old data");
        }
        self.problems = scan.problems;
        self.unlisted = scan.unlisted;
        let expired: BTreeSet<_> = scan.expired.iter().collect();
        // What is no longer old was used again, or a person removed it.
        self.kept.retain(|data, _| match data {
            Expired::Workspace(issue) => scan.workspaces.contains(issue),
            other => expired.contains(other),
        });
        let is_due = |data: &Expired| {
            let kept = self.kept.get(data);
            kept.is_none_or(|kept| after(kept.at, RETRY_KEPT) <= now)
        };
        self.queue = scan.expired.iter().filter(|data| is_due(data)).cloned().collect();
    }

    /// Returns the state for `status`.
    pub(crate) fn view(&self, workflow: &Workflow) -> RetentionView {
        let kept = self.kept.iter().take(SHOWN_KEPT).map(|(expired, kept)| KeptView {
            issue_id: expired.issue().cloned(),
            data: data_name(expired).to_owned(),
            reason: kept.why.clone(),
            at: kept.at,
        });
        let keys = &workflow.retention;
        RetentionView {
            unlisted: workflow.keep_unlisted().to_string(),
            ledger: keys.ledger.to_string(),
            trace: keys.trace.to_string(),
            scratch: keys.scratch.to_string(),
            sessions: keys.sessions.to_string(),
            last_scan_at: self.last_scan,
            problems: self.problems.clone(),
            unlisted_issues: self.unlisted.len(),
            removed: self.removed,
            kept: kept.collect(),
            kept_more: self.kept.len().saturating_sub(SHOWN_KEPT),
        }
    }

    /// Returns why the workspace of an issue exists although the issue is finished or unlisted.
    pub(crate) fn why_kept(&self, issue: &IssueId, workflow: &Workflow) -> Option<String> {
        if let Some(kept) = self.kept.get(&Expired::Workspace(issue.clone())) {
            return Some(format!("kept, as found at {:.0}: {}", kept.at, kept.why));
        }
        let since = self.unlisted.get(issue)?;
        Some(match workflow.keep_unlisted() {
            KeepTime::Forever => format!(
                "kept: no pull has listed the issue since {since:.0}, and the workflow keeps workspaces of such issues"
            ),
            KeepTime::For(age) => format!(
                "no pull has listed the issue since {since:.0}; after {age}, the workspace is removed if it contains no unsaved work (`issue.unlisted`)"
            ),
        })
    }
}

fn after(then: Timestamp, wait: SignedDuration) -> Timestamp {
    then.checked_add(wait).unwrap_or(Timestamp::MAX)
}

pub(crate) fn data_name(expired: &Expired) -> &'static str {
    match expired {
        Expired::Workspace(_) => "workspace",
        Expired::Scratch(_) => "scratch",
        Expired::Sessions(_) => "sessions",
        Expired::History => "ledger",
        Expired::Trace => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3600).unwrap()
    }

    fn scan(expired: &[Expired]) -> ExpiryScan {
        ExpiryScan {
            expired: expired.to_vec(),
            workspaces: ["1".into()].into(),
            ..ExpiryScan::default()
        }
    }

    #[test]
    fn kept_data_is_left_alone_for_a_day() {
        let data = Expired::Workspace("1".into());
        let mut retention = Retention::new(at(0));
        retention.on_removal_started(true);
        retention.on_workspace(
            &"1".into(),
            RemovalCause::Unlisted,
            &Removal::Kept("it is dirty".to_owned()),
            at(0),
        );
        for (hours, is_queued) in [(1, false), (23, false), (24, true)] {
            retention.on_scanned(scan(std::slice::from_ref(&data)), at(hours));
            assert_eq!(retention.queue.contains(&data), is_queued, "{hours}");
        }
        retention.on_workspace(
            &"1".into(),
            RemovalCause::Unlisted,
            &Removal::Removed { bytes: 7 },
            at(24),
        );
        assert!(retention.kept.is_empty() && retention.removed.bytes == 7);
    }

    #[test]
    fn one_removal_runs_at_a_time() {
        let mut retention = Retention::new(at(0));
        assert_eq!(retention.due(), None);
        retention.on_scanned(scan(&[Expired::History, Expired::Trace]), at(1));
        assert!(retention.due().is_some());
        retention.on_removal_started(true);
        assert_eq!(retention.due(), None);
        let more = ExpiredRemoval {
            count: 2_000,
            bytes: 0,
            has_more: true,
        };
        retention.queue.pop_front();
        retention.on_expired(&Expired::History, &Ok(more), at(1));
        assert_eq!(
            retention.queue,
            [Expired::Trace, Expired::History],
            "the rest comes last"
        );
        assert_eq!(retention.removed.attempts, 2_000);
    }
}
