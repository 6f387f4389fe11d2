//! The oracle's own records: claims, counters and parked stages, kept from observed inputs or read
//! from the disk.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use vik_core::attempt::{Resume, Start, StopReason};
use vik_core::ids::{AgentName, AttemptId, IssueId, RunId, StageName};
use vik_core::issue::{ActivityKey, Fingerprint};
use vik_core::limits::{Charges, Spend, estimated};
use vik_core::machine::{IssueMachine, LifetimeUsage, ParkReason, Phase};
use vik_core::scope::Scope;
use vik_core::worker::WorkerName;
use vik_core::workflow::Workflow;

use super::{Broken, ensure, number};
use crate::disk::Disk;
use crate::tracker::Item;

/// A claim: an attempt that was started and has no end.
#[derive(Clone, Debug)]
pub(super) struct Active {
    pub issue: usize,
    pub stage: StageName,
    pub agent: AgentName,
    pub parallel: bool,
    pub run: RunId,
    pub scope: Option<Scope>,
    pub worker: Option<WorkerName>,
    /// The spending that was reported to this daemon.
    pub live: Spend,
    /// Why it is being stopped.
    pub stopped: Option<StopReason>,
}

/// A parked stage of an issue.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    pub run: RunId,
    pub reason: ParkReason,
    fingerprint: Fingerprint,
    state: String,
    text: String,
    /// Whether a person changed the issue since.
    pub freed: bool,
}

/// Work that is not handed over.
#[derive(Clone, Debug)]
pub(super) struct Unfinished {
    pub issue: usize,
    /// The attempt that did the work.
    pub attempt_id: AttemptId,
    pub parallel: bool,
    /// The tries since a person last granted all of them.
    pub tries: u32,
    /// The stage of the run.
    pub stage: StageName,
    /// Whether the next try waits for its time, as far as the last change of the machine shows.
    pub waits: bool,
    /// Whether a try was decided and has not ended.
    pub is_running: bool,
    /// Whether a try was carried out and has not ended.
    pub has_started: bool,
}

impl From<&LifetimeUsage> for Lived {
    fn from(life: &LifetimeUsage) -> Self {
        Self {
            attempts: life.attempts,
            extra: life.extra_attempts,
            spend: life.spend,
            forgiven: life.forgiven,
            rounds: life.rounds,
            extra_rounds: life.extra_rounds,
        }
    }
}

impl Unfinished {
    /// The work of an attempt whose first try failed.
    pub(super) fn of(start: &Start) -> Self {
        Self {
            issue: number(&start.issue.id),
            attempt_id: start.attempt_id,
            parallel: start.stage.parallel,
            tries: 1,
            stage: start.stage.name.clone(),
            waits: false,
            is_running: false,
            has_started: false,
        }
    }
}

/// Returns whether a removed parked stage may have been freed.
pub(super) type MayBeFreed<'a> = &'a dyn Fn(&Parked, &StageName) -> bool;

/// The counters of an issue's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lived {
    pub attempts: u32,
    pub extra: u32,
    pub spend: Spend,
    pub forgiven: Spend,
    pub rounds: u32,
    pub extra_rounds: u32,
}

/// The number of consecutive internal failures that parks a stage.
pub(super) const MOST_INTERNAL: u32 = 3;

#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    pub active: BTreeMap<AttemptId, Active>,
    pub over: BTreeSet<AttemptId>,
    /// The attempts that count for each run, and those that a person allowed beyond.
    pub runs: BTreeMap<RunId, (u32, u32)>,
    /// The consecutive internal failures of each stage of an issue, until they park it.
    pub internal: BTreeMap<(usize, StageName), u32>,
    /// The consecutive attempts of each issue that lost their worker, until they park a stage.
    pub workers_lost: BTreeMap<usize, u32>,
    /// The worker that has the workspace of an issue.
    pub workers: BTreeMap<usize, WorkerName>,
    /// The last conversation of each stage with `resume: issue`, and its agent.
    pub conversations: BTreeMap<(usize, StageName), (AgentName, Resume)>,
    /// The comments and checks that agents of each stage have read.
    pub seen: BTreeMap<(usize, StageName), BTreeSet<ActivityKey>>,
    pub lives: Vec<Lived>,
    pub days: BTreeMap<Date, Spend>,
    pub parked: BTreeMap<(usize, StageName), Parked>,
    /// The runs whose work is not handed over.
    pub hand_overs: BTreeMap<RunId, Unfinished>,
    pub paused: bool,
    pub paused_issues: BTreeSet<usize>,
    /// The issues that people have taken over.
    pub taken_over: BTreeSet<usize>,
    /// The text of issues when their runs were parked, because the disk has only the present one.
    parked_as: BTreeMap<RunId, Parked>,
}

/// Returns the day (UTC) of an instant.
pub(super) fn day(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

impl Books {
    pub fn new(issues: usize) -> Self {
        Self {
            lives: vec![Lived::default(); issues],
            ..Self::default()
        }
    }

    /// Reads the records from the durable state.
    ///
    /// # Errors
    /// Returns an error if the parts of the ledger contradict each other.
    pub fn read(disk: &Disk, policy: &Workflow, before: &Self) -> Result<Self, Broken> {
        let issues = before.lives.len();
        let mut books = Self::new(issues);
        books.parked_as = before.parked_as.clone();
        let mut charged = vec![Charges::default(); issues];
        let mut days: BTreeMap<Date, Charges> = BTreeMap::new();
        for ended in disk.ended.values() {
            books.over.insert(ended.attempt_id);
            let issue = disk.issue_of.get(&ended.attempt_id).map_or(0, number);
            let charges = Charges {
                total: ended.charged,
                estimated: estimated(ended.report.spend, ended.charged, ended.source),
            };
            charged[issue] = charged[issue].plus(charges);
            let sum = days.entry(day(ended.at)).or_default();
            *sum = sum.plus(charges);
        }
        books.days = days.iter().map(|(day, charges)| (*day, charges.total)).collect();
        for (attempt_id, claim) in &disk.claims {
            let machine = disk.machines.get(&claim.issue);
            let Some((start, _, stopping)) = machine.and_then(|machine| machine.active(*attempt_id)) else {
                return Err(Broken::new(
                    "3: durable records are consistent",
                    format!("the ledger has a claim for {attempt_id}, but its machine has none"),
                ));
            };
            books.active.insert(
                *attempt_id,
                Active {
                    issue: number(&claim.issue),
                    stage: claim.stage.clone(),
                    agent: claim.agent.clone(),
                    parallel: start.stage.parallel,
                    run: claim.run,
                    scope: start.intent.scope.clone(),
                    worker: start.worker.clone(),
                    live: Spend::default(),
                    stopped: stopping.cloned(),
                },
            );
        }
        for (id, machine) in &disk.machines {
            let issue = number(id);
            let life = machine.life();
            books.lives[issue] = life.into();
            let lived = Charges {
                total: life.spend,
                estimated: life.estimated,
            };
            ensure(
                lived == charged[issue],
                "5: the counters of the ledger are the sums of its charges",
                || {
                    format!(
                        "issue {issue} has {lived:?}, but was charged {:?}",
                        charged[issue]
                    )
                },
            )?;
            for run in machine.runs() {
                books.runs.insert(run.id, (run.attempts, run.extra_attempts));
                if let Some(hand_over) = &run.hand_over {
                    let unfinished = Unfinished {
                        tries: hand_over.tries,
                        waits: run.is_handing_over(),
                        ..Unfinished::of(&hand_over.start)
                    };
                    books.hand_overs.insert(run.id, unfinished);
                }
                if let Some(attempt_id) = run.active().map(|start| start.attempt_id) {
                    ensure(
                        disk.claims.contains_key(&attempt_id),
                        "3: durable records are consistent",
                        || {
                            format!(
                                "the machine of issue {issue} has a claim for {attempt_id}, but the ledger has none"
                            )
                        },
                    )?;
                }
            }
            for (stage, kept) in machine.conversations() {
                books.conversations.insert((issue, stage.clone()), kept.clone());
            }
            for (stage, seen) in machine.seen() {
                books.seen.insert((issue, stage.clone()), seen.clone());
            }
            if machine.workers_lost_in_a_row() > 0 {
                books.workers_lost.insert(issue, machine.workers_lost_in_a_row());
            }
            books
                .workers
                .extend(machine.worker().map(|worker| (issue, worker.clone())));
            // Also those of stages that the present workflow does not have.
            for (stage, in_a_row) in machine.internal_in_a_row() {
                books.internal.insert((issue, stage.clone()), *in_a_row);
            }
            books.park(machine, policy, None)?;
            if machine.is_paused() {
                books.paused_issues.insert(issue);
            }
            if machine.taken_over().is_some() {
                books.taken_over.insert(issue);
            }
        }
        for (date, spend) in &disk.days {
            ensure(
                days.get(date).copied().unwrap_or_default() == *spend,
                "5: the counters of the ledger are the sums of its charges",
                || format!("{date} has {spend:?}, but was charged {:?}", days.get(date)),
            )?;
        }
        books.paused = disk.paused;
        Ok(books)
    }

    /// Applies a snapshot of the issue: a change by a person frees parked stages.
    pub fn observe(&mut self, issue: usize, item: Option<&Item>, policy: &Workflow) {
        let Some(item) = item else { return };
        for ((of, stage), parked) in &mut self.parked {
            if *of != issue || parked.freed {
                continue;
            }
            let moved = policy.stage(stage).is_some_and(|stage| {
                stage.when.has_state(item.state) && !stage.when.has_state(&parked.state)
            });
            let closed = policy.is_terminal(item.state) && parked.reason != ParkReason::UnprovenEnd;
            let edited = parked.text != text(item.title, item.description);
            // The next pull after the end of an attempt may find its issue elsewhere.
            parked.freed = moved || closed || (edited && parked.reason != ParkReason::HandOver);
        }
    }

    /// Handles a lookup that found the issue missing: its parked stages end, unless an agent may
    /// still be alive.
    pub fn on_missing(&mut self, issue: usize) {
        for ((of, _), parked) in &mut self.parked {
            parked.freed |= *of == issue && parked.reason != ParkReason::UnprovenEnd;
        }
    }

    /// Applies the parked stages of a machine, and returns the removed ones. `check_freed` returns
    /// whether a removed one may have been freed.
    pub fn park(
        &mut self,
        machine: &IssueMachine,
        policy: &Workflow,
        check_freed: Option<MayBeFreed<'_>>,
    ) -> Result<Vec<(usize, StageName)>, Broken> {
        let issue = number(&machine.issue().id);
        let mut freed = Vec::new();
        if let Some(may_be_freed) = check_freed {
            let removed = |((of, stage), parked): &(&(usize, StageName), &Parked)| {
                *of == issue
                    && !machine
                        .run(stage)
                        .is_some_and(|run| run.id == parked.run && matches!(run.phase, Phase::Parked { .. }))
            };
            let list: Vec<_> = self
                .parked
                .iter()
                .filter(removed)
                .map(|(key, _)| key.clone())
                .collect();
            for key in list {
                let Some(parked) = self.parked.remove(&key) else {
                    continue;
                };
                ensure(
                    parked.freed || may_be_freed(&parked, &key.1),
                    "parked stages stay parked",
                    || {
                        format!(
                            "issue {issue}, stage {}: no longer parked ({:?}), but no person freed it",
                            key.1, parked.reason
                        )
                    },
                )?;
                freed.push(key);
            }
        }
        for run in machine.runs() {
            let Phase::Parked {
                reason, fingerprint, ..
            } = &run.phase
            else {
                continue;
            };
            let key = (issue, run.stage.clone());
            let known = self.parked.get(&key).is_some_and(|parked| {
                parked.run == run.id && parked.fingerprint == *fingerprint && parked.reason == *reason
            });
            if !known {
                let remembered = self
                    .parked_as
                    .get(&run.id)
                    .filter(|parked| parked.fingerprint == *fingerprint);
                let parked = remembered.cloned().unwrap_or_else(|| {
                    let item = machine.issue();
                    let title = item.title.split('~').next().unwrap_or_default();
                    let stage = policy.stage(&run.stage);
                    Parked {
                        run: run.id,
                        reason: *reason,
                        fingerprint: *fingerprint,
                        state: stage.map_or_else(
                            || item.state.to_string(),
                            |stage| stage.when.first_state().to_owned(),
                        ),
                        text: format!("{title} {}", item.description()),
                        freed: false,
                    }
                });
                let parked = Parked {
                    reason: *reason,
                    ..parked
                };
                self.parked_as.insert(run.id, parked.clone());
                self.parked.insert(key, parked);
            }
        }
        Ok(freed)
    }

    /// Checks that records read from the disk are equal.
    pub fn same_as(&self, read: &Self) -> Result<(), Broken> {
        const WHOLE: &str = "3: decisions are durable";
        let active = |books: &Self| books.active.keys().copied().collect::<Vec<_>>();
        let parked = |books: &Self| {
            let parked = books.parked.iter();
            parked
                .map(|(key, parked)| (key.clone(), parked.run, parked.reason))
                .collect::<Vec<_>>()
        };
        ensure(active(self) == active(read), WHOLE, || {
            format!("claims {:?}, on disk {:?}", active(self), active(read))
        })?;
        ensure(self.internal == read.internal, WHOLE, || {
            format!(
                "internal failures {:?}, on disk {:?}",
                self.internal, read.internal
            )
        })?;
        ensure(self.workers_lost == read.workers_lost, WHOLE, || {
            format!(
                "lost workers {:?}, on disk {:?}",
                self.workers_lost, read.workers_lost
            )
        })?;
        ensure(self.conversations == read.conversations, WHOLE, || {
            format!(
                "conversations {:?}, on disk {:?}",
                self.conversations, read.conversations
            )
        })?;
        ensure(self.seen == read.seen, WHOLE, || {
            format!("read activity {:?}, on disk {:?}", self.seen, read.seen)
        })?;
        ensure(self.workers == read.workers, WHOLE, || {
            format!("workers {:?}, on disk {:?}", self.workers, read.workers)
        })?;
        let unfinished = |books: &Self| {
            let unfinished = books.hand_overs.iter();
            unfinished
                .map(|(run, unfinished)| (*run, unfinished.attempt_id, unfinished.tries))
                .collect::<Vec<_>>()
        };
        ensure(unfinished(self) == unfinished(read), WHOLE, || {
            format!(
                "hand-overs {:?}, on disk {:?}",
                unfinished(self),
                unfinished(read)
            )
        })?;
        ensure(self.lives == read.lives, WHOLE, || {
            format!("lives {:?}, on disk {:?}", self.lives, read.lives)
        })?;
        ensure(parked(self) == parked(read), WHOLE, || {
            format!("parked {:?}, on disk {:?}", parked(self), parked(read))
        })?;
        let paused = |books: &Self| (books.paused, books.paused_issues.clone());
        ensure(paused(self) == paused(read), WHOLE, || {
            format!("paused {:?}, on disk {:?}", paused(self), paused(read))
        })?;
        ensure(self.taken_over == read.taken_over, WHOLE, || {
            format!("taken over {:?}, on disk {:?}", self.taken_over, read.taken_over)
        })?;
        for (date, spend) in self.days.iter().filter(|(_, spend)| **spend != Spend::default()) {
            ensure(read.on(*date) == *spend, WHOLE, || {
                format!("{date} has {spend:?}, on disk {:?}", read.on(*date))
            })?;
        }
        Ok(())
    }

    /// Returns the reported spending of active attempts, of one issue or of all.
    pub fn live(&self, issue: Option<usize>) -> Spend {
        let of = |active: &&Active| issue.is_none_or(|issue| active.issue == issue);
        let live = self.active.values().filter(of).map(|active| active.live);
        live.fold(Spend::default(), Spend::plus)
    }

    /// Returns the charges of a day.
    pub fn on(&self, date: Date) -> Spend {
        self.days.get(&date).copied().unwrap_or_default()
    }

    /// Returns the counters of an issue.
    pub fn life(&self, issue: &IssueId) -> Lived {
        self.lives.get(number(issue)).copied().unwrap_or_default()
    }
}

/// Returns the text of an issue that only people change.
fn text(title: u32, description: u32) -> String {
    format!("t{title} d{description}")
}
