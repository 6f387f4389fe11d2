//! The oracle checks what must hold. It observes all inputs of the scheduler, keeps its own records
//! in its own way, and compares.

mod books;
mod decided;
mod durable;
mod explained;
mod hand_over;
mod live;
mod messages;
mod owned;
mod parked;
mod questions;
mod resume;
mod rounds;
mod start;
mod turns;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use vik_core::attempt::{AttemptResult, Start};
use vik_core::ids::{AttemptId, IssueId, RunId, StageName};
use vik_core::limits::Spend;
use vik_core::scheduler::Command;
use vik_core::time::Mono;
use vik_core::worker::Workers;
use vik_core::workflow::Workflow;

use crate::tracker::{Item, Snapshot};

use books::Books;
use messages::Messages;
use questions::Questions;

/// The invariant of issues that people have taken over.
const NOT_TAKEN_OVER: &str = "nothing starts while a person has taken the issue over";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub invariant: &'static str,
    pub how: String,
}

type Held = Result<(), Broken>;

impl Broken {
    pub fn new(invariant: &'static str, how: impl Into<String>) -> Self {
        Self {
            invariant,
            how: how.into(),
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}", self.invariant, self.how)
    }
}

/// Returns an error if the condition is false.
pub(crate) fn ensure(
    holds: bool,
    invariant: &'static str,
    how: impl FnOnce() -> String,
) -> Result<(), Broken> {
    if holds {
        Ok(())
    } else {
        Err(Broken::new(invariant, how()))
    }
}

/// Returns the number of an issue.
pub(crate) fn number(id: &IssueId) -> usize {
    id.as_str().parse().unwrap_or_default()
}

/// The facts about an attempt.
struct Facts {
    start: Start,
    estimate: Spend,
    /// The result, once it is in the log.
    report: Option<AttemptResult>,
    /// The last turn that was granted to its process, or the one that it was started for.
    granted: u32,
}

/// The last observation of an issue in this daemon's life.
#[derive(Clone, Default)]
struct Known {
    item: Option<Arc<Item>>,
    /// The time of the observation: the start of the pull, or the lookup.
    at: u64,
    /// When the issue was last looked up.
    looked_up_at: Option<u64>,
    /// Whether a lookup since the last successful pull found it missing.
    missing: bool,
    /// Whether the last lookup found it missing, and nothing showed the issue since.
    absent: bool,
    /// How often its state changed, as observed.
    flaps: u32,
    last_state: &'static str,
}

pub(crate) struct Oracle {
    policy: Arc<Workflow>,
    ids: Vec<IssueId>,
    seq: u64,
    books: Books,
    messages: Messages,
    questions: Questions,
    facts: BTreeMap<AttemptId, Facts>,
    known: Vec<Known>,
    /// The issues of the last successful pull.
    pulled: Vec<Option<Arc<Item>>>,
    pull_started: u64,
    /// Whether a pull succeeded after the last edit of the workflow, so that the relevant issues
    /// are known.
    is_current: bool,
    /// When the last attempt of an issue's stage ended.
    ended: BTreeMap<(usize, StageName), (u64, Mono)>,
    /// The last turn of each attempt that has ended in its process, and when.
    turns_ended: BTreeMap<AttemptId, (u32, u64)>,
    /// The last run of each stage, and whether something since allows another one.
    last_run: BTreeMap<(usize, StageName), (RunId, bool)>,
    /// The last approved request, which names a run and a text.
    approved: BTreeMap<(usize, StageName), String>,
    /// The last ended attempt of each run.
    last_of_run: BTreeMap<RunId, AttemptId>,
    /// The earliest start of the next attempt of each run.
    due: BTreeMap<RunId, Mono>,
    busy: bool,
    /// The number of sessions that the limit on open files allows; `None` if it is not limited.
    max_sessions: Option<u32>,
    /// The last list of workers; `None` if there was none.
    workers: Option<Workers>,
    draining: bool,
    /// The parked runs, as the events of this daemon report them.
    parked_runs: BTreeSet<RunId>,
    /// The runs that waited for a person before an attempt.
    waited_for_people: BTreeSet<RunId>,
    /// The attempts that this daemon stopped.
    stopped: BTreeSet<AttemptId>,
    /// Those that were stopped before their end was in their log.
    stopped_in_time: BTreeSet<AttemptId>,
    /// Issues with a pending lookup.
    lookups: BTreeSet<usize>,
    asks: BTreeMap<u64, Command>,
    last_pause_ask: u64,
}

impl Oracle {
    /// Creates the oracle of a world with this many issues.
    pub(crate) fn new(issues: usize, policy: Arc<Workflow>) -> Self {
        Self {
            policy,
            ids: (0..issues).map(|issue| IssueId::new(issue.to_string())).collect(),
            seq: 0,
            books: Books::new(issues),
            messages: Messages::default(),
            questions: Questions::default(),
            facts: BTreeMap::new(),
            known: vec![Known::default(); issues],
            pulled: vec![None; issues],
            pull_started: 0,
            is_current: false,
            ended: BTreeMap::new(),
            turns_ended: BTreeMap::new(),
            last_run: BTreeMap::new(),
            approved: BTreeMap::new(),
            last_of_run: BTreeMap::new(),
            due: BTreeMap::new(),
            busy: false,
            max_sessions: None,
            workers: None,
            draining: false,
            parked_runs: BTreeSet::new(),
            waited_for_people: BTreeSet::new(),
            stopped: BTreeSet::new(),
            stopped_in_time: BTreeSet::new(),
            lookups: BTreeSet::new(),
            asks: BTreeMap::new(),
            last_pause_ask: 0,
        }
    }

    /// Records that the end of an attempt is in its log.
    pub(crate) fn knows_end(&mut self, attempt_id: AttemptId, report: &AttemptResult) {
        if let Some(facts) = self.facts.get_mut(&attempt_id) {
            facts.report = Some(report.clone());
        }
    }

    pub(crate) fn start_pull(&mut self) {
        self.pull_started = self.seq + 1;
    }

    /// Handles the issues of a successful pull.
    pub(crate) fn sees(&mut self, snapshot: Snapshot) {
        self.is_current = true;
        for issue in 0..self.pulled.len() {
            self.pulled[issue] = None;
        }
        for item in snapshot {
            let issue = item.issue;
            self.pulled[issue] = Some(item);
        }
        for issue in 0..self.pulled.len() {
            let item = self.pulled[issue].clone();
            let started = self.pull_started;
            self.known[issue].missing = false;
            if item.is_none() && self.known[issue].absent {
                // Stages that were parked after the lookup end as well.
                self.books.on_missing(issue);
            }
            self.on_snapshot(issue, item, started);
        }
    }

    /// Handles the end of a lookup, whatever its result.
    pub(crate) fn lookup_ended(&mut self, issue: usize) {
        self.lookups.remove(&issue);
    }

    /// Handles the result of a lookup; `None` for a missing issue.
    pub(crate) fn on_lookup(&mut self, issue: usize, item: Option<Arc<Item>>) {
        let at = self.seq + 1;
        let Some(known) = self.known.get_mut(issue) else {
            return;
        };
        known.looked_up_at = Some(at);
        known.missing |= item.is_none();
        known.absent |= item.is_none();
        if item.is_none() {
            self.books.on_missing(issue);
        }
        self.on_snapshot(issue, item, at);
    }

    fn on_snapshot(&mut self, issue: usize, item: Option<Arc<Item>>, at: u64) {
        self.books.observe(issue, item.as_deref(), &self.policy);
        if let Some(item) = &item {
            self.activity_observed(issue, item);
        }
        for ((of, stage), (_, may_change)) in &mut self.last_run {
            if *of == issue && !*may_change {
                let stays = self.policy.stage(stage).zip(item.as_ref());
                *may_change = stays.is_none_or(|(stage, item)| !stage.when.has_state(item.state));
            }
        }
        let known = &mut self.known[issue];
        if let Some(item) = &item
            && item.state != known.last_state
        {
            known.flaps += 1;
            known.last_state = item.state;
        }
        known.absent &= item.is_none();
        known.item = item;
        known.at = at;
    }

    /// Returns how often the state of an issue changed, as observed.
    pub(crate) fn flaps(&self, item: &Item) -> u32 {
        self.known[item.issue].flaps
    }

    /// Handles an edit of the workflow.
    pub(crate) fn reloads(&mut self, policy: &Arc<Workflow>) {
        self.policy = Arc::clone(policy);
        self.is_current = false;
        for ((issue, stage), (_, may_change)) in &mut self.last_run {
            let item = self.known[*issue].item.as_ref();
            let stays = self.policy.stage(stage).zip(item);
            *may_change |= stays.is_none_or(|(stage, item)| !stage.when.has_state(item.state));
        }
    }

    /// Returns an active attempt of an issue.
    pub(crate) fn active_attempt(&self, issue: usize) -> Option<AttemptId> {
        let active = self.books.active.iter();
        active
            .filter(|(_, active)| active.issue == issue)
            .map(|(attempt_id, _)| *attempt_id)
            .next()
    }
}
