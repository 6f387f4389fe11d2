//! The machine: process trees under their shims, and the files of attempts. All of it outlives a daemon.

use std::collections::{BTreeMap, BTreeSet};

use vik_core::ids::AttemptId;
use vik_core::limits::Spend;
use vik_core::machine::AttemptResult;
use vik_core::money::MicroUsd;
use vik_core::outcome::{CostSource, FailureClass, Outcome};
use vik_core::scheduler::Start;

use crate::rng::Rng;

/// What is on disk and what lives.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Live process trees.
    pub trees: BTreeMap<AttemptId, Tree>,
    /// What attempts wrote down.
    pub files: BTreeMap<AttemptId, Files>,
    /// Issues that have a workspace.
    pub workspaces: BTreeSet<usize>,
}

/// A shim, its agent and all that it started.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The issue.
    pub issue: usize,
    /// What it was started for.
    pub start: Start,
    /// What it has spent, told or not.
    pub spent: Spend,
    /// Whether its agent tells what it spends.
    pub reports_spend: bool,
    /// Its end could not be proven: Vik gave it up, and it lives on.
    pub given_up: bool,
    /// So many steps of work to its own end.
    left: u32,
    per_step: Spend,
    end: AgentEnd,
    /// So many steps from the word `stop` to its end.
    heed: u32,
    stopping: bool,
}

/// How an agent ends when it is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentEnd {
    /// It says that it is done, and moves the issue or not.
    Done { moves: bool },
    /// It fails.
    Fails(FailureClass),
    /// Vik's own clocks end it.
    Clock(Outcome),
    /// Its end cannot be proven.
    Unproven,
}

/// What a seed's agents are like.
#[derive(Clone, Copy, Debug)]
pub struct Temper {
    /// So many of a hundred move the issue when they succeed.
    pub moves: u64,
    /// So many of a hundred succeed.
    pub succeeds: u64,
    /// So many of a hundred tell what they spend.
    pub reports_spend: u64,
    /// What a step of work costs at most.
    pub cost: u64,
}

/// An exit record: what the shim wrote when its whole tree was gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    end: Option<AgentEnd>,
    /// What was spent in all, where the agent told.
    reported: Option<Spend>,
}

/// What one attempt wrote down.
#[derive(Clone, Debug)]
pub struct Files {
    /// How far it came.
    pub step: Step,
    /// Starts and ends of `before_run` and `after_run`.
    pub hooks: [(u32, u32); 2],
    /// The shim's exit record.
    pub exit: Option<Exit>,
    /// What is known of its spending.
    pub reported: Option<Spend>,
    /// The end in its log.
    pub report: Option<AttemptResult>,
}

/// How far an attempt came. Each is on disk before the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Its record is there.
    Started,
    /// The workspace is there.
    Prepared,
    /// `before_run` was started.
    HookStarted,
    /// `before_run` is over.
    HookEnded,
    /// The shim was started.
    Spawned,
    /// Its end is in its log.
    Logged,
    /// `after_run` was started.
    AfterStarted,
    /// Nothing is left to do but to tell.
    Over,
}

impl Tree {
    /// An agent of this temper.
    pub fn new(issue: usize, start: Start, temper: &Temper, rng: &mut Rng) -> Self {
        let end = if rng.percent(temper.succeeds) {
            AgentEnd::Done {
                moves: rng.percent(temper.moves),
            }
        } else {
            match rng.weighted(&[20, 3, 3, 1]) {
                0 => AgentEnd::Fails(rng.pick(&CLASSES)),
                1 => AgentEnd::Clock(Outcome::TimedOut),
                2 => AgentEnd::Clock(Outcome::Stalled),
                _ => AgentEnd::Unproven,
            }
        };
        Self {
            issue,
            start,
            spent: Spend::default(),
            reports_spend: rng.percent(temper.reports_spend),
            given_up: false,
            left: rng.between(1, 12) as u32,
            per_step: Spend {
                tokens: rng.between(0, temper.cost),
                usd: MicroUsd(rng.between(0, temper.cost * 1_000)),
            },
            end,
            heed: rng.pick(&[0, 0, 1, 5, 20]),
            stopping: false,
        }
    }

    /// Asks it to end, in time or by force.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Its end cannot be proven: it lives on for a while, and nobody can tell.
    pub fn give_up(&mut self) {
        self.given_up = true;
        self.stopping = false;
        self.left = 10;
    }

    /// One step of work. `Some` when its last process is gone: what the shim writes down.
    pub fn work(&mut self) -> Option<Exit> {
        self.left = self.left.saturating_sub(1);
        self.spent = self.spent.plus(self.per_step);
        if self.stopping {
            if self.heed > 0 && self.left > 0 {
                self.heed -= 1;
                return None;
            }
            // It may end on its own just before it is made to.
            return Some(self.exit((self.left == 0).then_some(self.end)));
        }
        (self.left == 0).then(|| self.exit(Some(self.end)))
    }

    /// The agent alone was killed: its shim still writes the record.
    pub fn killed(&self) -> Exit {
        self.exit(Some(AgentEnd::Fails(FailureClass::Agent)))
    }

    fn exit(&self, end: Option<AgentEnd>) -> Exit {
        Exit {
            end,
            reported: self.reports_spend.then_some(self.spent),
        }
    }
}

impl Exit {
    /// Whether the agent succeeded and moved the issue.
    pub fn moves(&self) -> bool {
        self.end == Some(AgentEnd::Done { moves: true })
    }

    /// Whether the end could not be proven.
    pub fn is_unproven(&self) -> bool {
        self.end == Some(AgentEnd::Unproven)
    }

    /// What is told of it. `stopped` is the outcome where Vik stopped it.
    pub fn report(&self, stopped: Option<Outcome>, rng: &mut Rng) -> AttemptResult {
        let (outcome, class) = match (self.end, stopped) {
            (Some(AgentEnd::Unproven), _) => (Outcome::Failed, Some(FailureClass::UnprovenEnd)),
            (_, Some(stopped)) => (stopped, None),
            (Some(AgentEnd::Done { .. }), None) => (Outcome::Succeeded, None),
            (Some(AgentEnd::Fails(class)), None) => (Outcome::Failed, Some(class)),
            (Some(AgentEnd::Clock(outcome)), None) => (outcome, None),
            (None, None) => (Outcome::Cancelled, None),
        };
        let mut report = ran(outcome, self.reported);
        report.failure_class = class;
        report.changed = Some(rng.percent(50));
        report.provider_session_id = rng.percent(80).then(|| format!("p{}", rng.below(1_000)));
        report.resume_failed = rng.percent(10);
        report.proof = Some("cgroup".to_owned());
        report.answered = rng
            .percent(80)
            .then(|| self.reported.is_some() || rng.percent(60));
        report
    }
}

/// The report of an attempt whose agent was started.
pub fn ran(outcome: Outcome, reported: Option<Spend>) -> AttemptResult {
    AttemptResult {
        ran: true,
        spend: reported,
        cost_source: reported.map_or(CostSource::None, |_| CostSource::Reported),
        ..AttemptResult::new(outcome)
    }
}

impl Files {
    /// Of an attempt that begins.
    pub fn new() -> Self {
        Self {
            step: Step::Started,
            hooks: [(0, 0); 2],
            exit: None,
            reported: None,
            report: None,
        }
    }
}

/// The classes that an agent's own end can have.
const CLASSES: [FailureClass; 8] = [
    FailureClass::RateLimit,
    FailureClass::Overloaded,
    FailureClass::Auth,
    FailureClass::Model,
    FailureClass::Context,
    FailureClass::Network,
    FailureClass::Usage,
    FailureClass::Agent,
];
