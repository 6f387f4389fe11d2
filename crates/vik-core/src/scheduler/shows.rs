//! Looks at single issues: right before a start, when one is missed, and at blockers that no pull brings.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::{About, Effect, Scheduler, Seen};
use crate::ids::{IssueId, StageName};
use crate::issue::Issue;
use crate::machine::{Machine, PullNo};
use crate::time::{Mono, Now};

/// A look whose answer is this much later than the command may take is not waited for any more.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// After so many failed looks in a row, `run --once` does not wait for a better one.
const TRIES: u32 = 3;

/// How soon an issue that no pull brings is looked at again: the first wait, which doubles up to the longest one.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3600));

/// So many of them are looked at again after one pull.
const AGAIN_AT_ONCE: usize = 8;

/// Looks that are under way, and what came of earlier ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Shows {
    asked: BTreeMap<IssueId, Asked>,
    failed: HashMap<IssueId, Failed>,
    /// Issues that the tracker does not have any more.
    gone: BTreeSet<IssueId>,
    /// Those of which that is noted: a pull that still brings one is contradicted in each cycle, and told of it once.
    noted_gone: BTreeSet<IssueId>,
    /// Issues that no pull brings and that still matter: when each is looked at again.
    again: BTreeMap<IssueId, Again>,
}

#[derive(Clone, Copy, Debug)]
struct Again {
    at: Mono,
    wait: Duration,
}

#[derive(Clone, Debug)]
struct Asked {
    /// The stage that starts if it still may; its slots are held.
    start: Option<StageName>,
    /// When the answer counts as lost.
    until: Mono,
}

#[derive(Clone, Copy, Debug)]
struct Failed {
    in_a_row: u32,
    /// Until the next pull.
    holds: bool,
}

impl Shows {
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// The stages that are about to start.
    pub(super) fn starting(&self) -> impl Iterator<Item = (&IssueId, &StageName)> {
        self.asked
            .iter()
            .filter_map(|(id, asked)| Some((id, asked.start.as_ref()?)))
    }

    pub(super) fn is_starting(&self, issue: &IssueId) -> bool {
        self.asked.get(issue).is_some_and(|asked| asked.start.is_some())
    }

    /// What is about to start does not, whatever the answer.
    pub(super) fn do_not_start(&mut self, issue: &IssueId) {
        if let Some(asked) = self.asked.get_mut(issue) {
            asked.start = None;
        }
    }

    pub(super) fn has_failed(&self, issue: &IssueId) -> bool {
        self.failed.get(issue).is_some_and(|failed| failed.holds)
    }

    pub(super) fn tries_again(&self) -> bool {
        self.failed
            .values()
            .any(|failed| failed.holds && failed.in_a_row < TRIES)
    }

    pub(super) fn is_gone(&self, issue: &IssueId) -> bool {
        self.gone.contains(issue)
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = Mono> {
        self.asked.values().map(|asked| asked.until)
    }

    /// A pull brought it: it is there, and may be looked at again.
    pub(super) fn seen(&mut self, issue: &IssueId) {
        if !self.gone.is_empty() {
            self.gone.remove(issue);
        }
    }

    /// A good pull ended: what failed is tried again.
    pub(super) fn pulled(&mut self, now: Now) {
        for failed in self.failed.values_mut() {
            failed.holds = false;
        }
        self.asked.retain(|_, asked| asked.until > now.mono);
    }

    /// Whether it is the first failure in a row.
    fn fail(&mut self, issue: &IssueId) -> bool {
        let failed = self.failed.entry(issue.clone()).or_insert(Failed {
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
    pub(super) fn show(&mut self, issue: &IssueId, start: Option<StageName>, now: Now) -> bool {
        let Some(show) = &self.workflow.show else {
            return false;
        };
        let until = now.mono.plus(show.timeout.0).plus(LOST_AFTER);
        if let Some(asked) = self.shows.asked.get_mut(issue)
            && asked.until > now.mono
        {
            asked.start = start.or(asked.start.take());
            return true;
        }
        self.shows.asked.insert(issue.clone(), Asked { start, until });
        self.effects.push(Effect::Show(issue.clone()));
        true
    }

    /// Looks again at issues that no pull brings while something of them is left: a parked run, or a workspace. They may
    /// have been closed since, or the look at them may have failed.
    pub(super) fn look_again(&mut self, now: Now) {
        if self.workflow.show.is_none() {
            return;
        }
        let left: BTreeSet<IssueId> = self
            .machines
            .values()
            .filter(|machine| machine.runs().iter().any(|run| run.parked_for().is_some()))
            .map(|machine| machine.issue().id.clone())
            .chain(self.workspaces.tracked(&self.workflow).cloned())
            .filter(|id| self.is_absent_and_open(id))
            .collect();
        self.shows.again.retain(|id, _| left.contains(id));
        let mut due = Vec::new();
        for id in left {
            let again = self.shows.again.entry(id).or_insert(Again {
                at: now.mono.plus(AGAIN_AFTER.0),
                wait: AGAIN_AFTER.0,
            });
            if again.at <= now.mono {
                due.push(again.at);
            }
        }
        due.sort_unstable();
        let Some(last) = due.get(due.len().min(AGAIN_AT_ONCE).saturating_sub(1)).copied() else {
            return;
        };
        let chosen = self.shows.again.iter_mut().filter(|(_, again)| again.at <= last);
        let chosen: Vec<_> = chosen
            .take(AGAIN_AT_ONCE)
            .map(|(id, again)| {
                again.wait = (again.wait * 2).min(AGAIN_AFTER.1);
                again.at = now.mono.plus(again.wait);
                id.clone()
            })
            .collect();
        for id in chosen {
            self.show(&id, None, now);
        }
    }

    /// Whether the last pull did not bring the issue, and nothing shows that it is closed.
    fn is_absent_and_open(&self, id: &IssueId) -> bool {
        let is_open = self.machines.get(id).is_none_or(|machine| {
            !machine.is_present()
                && !machine.is_active()
                && !self.workflow.is_terminal(&machine.issue().state)
        });
        is_open && !self.shows.is_gone(id)
    }

    /// An issue was looked at.
    pub(super) fn shown(&mut self, issue: &IssueId, seen: Seen, now: Now) {
        let start = self.shows.asked.remove(issue).and_then(|asked| asked.start);
        let seen = match seen {
            // It answers another question than was asked.
            Seen::Snapshot(snapshot) if snapshot.id != *issue => Seen::Unknown,
            seen => seen,
        };
        self.blocker_shown(issue, &seen, now);
        match seen {
            Seen::Snapshot(snapshot) => {
                self.shows.gone.remove(issue);
                self.shows.noted_gone.remove(issue);
                self.shows.failed.remove(issue);
                self.look(issue, *snapshot, now);
                self.reconcile(issue, now);
                if start.is_some() {
                    self.start_looked_at(issue, now);
                }
            }
            Seen::Gone => {
                self.shows.failed.remove(issue);
                if self.machines.contains_key(issue) || self.workspaces.has(issue) {
                    self.gone(issue, now);
                }
            }
            Seen::Unknown => {
                if start.is_some() && self.shows.fail(issue) {
                    let detail =
                        "the look at it right before the start failed; each pull tries again".to_owned();
                    self.decide(now, "show_failed", About::issue(issue), detail);
                }
            }
        }
    }

    fn look(&mut self, issue: &IssueId, snapshot: Issue, now: Now) {
        if self.workspaces.has(issue) && !self.machines.contains_key(issue) {
            let mut machine = Machine::new(snapshot.clone(), self.lives.remove(issue).unwrap_or_default());
            machine.vanish(PullNo::default(), now, &self.workflow);
            self.machines.insert(issue.clone(), machine);
        }
        let Some(machine) = self.machines.get_mut(issue) else {
            return;
        };
        let waits_anew = machine.issue().blocked_by != snapshot.blocked_by;
        let observed = machine.look(snapshot, now, &self.workflow);
        self.record(issue, observed, now);
        if waits_anew {
            self.find_blocked_anew(now);
        }
    }

    /// The tracker does not have it any more: nothing of it waits.
    fn gone(&mut self, issue: &IssueId, now: Now) {
        self.shows.gone.insert(issue.clone());
        if self.shows.noted_gone.insert(issue.clone()) {
            let detail = "the tracker does not have it any more".to_owned();
            self.decide(now, "gone", About::issue(issue), detail);
        }
        if let Some(machine) = self.machines.get_mut(issue) {
            let observed = machine.gone();
            self.record(issue, observed, now);
        }
        self.reconcile(issue, now);
    }
}
