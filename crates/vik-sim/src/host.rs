//! The machine: process trees under their shims, and the files of attempts. Both outlive a daemon.

use std::collections::{BTreeMap, BTreeSet};

use vik_core::attempt::{AttemptResult, Start};
use vik_core::ids::{AttemptId, MessageId};
use vik_core::limits::Spend;
use vik_core::money::MicroUsd;
use vik_core::outcome::{CostSource, FailureClass, Outcome};
use vik_core::question::Question;

use crate::rng::Rng;

/// The files and processes of the machine.
#[derive(Clone, Debug, Default)]
pub struct Host {
    pub trees: BTreeMap<AttemptId, Tree>,
    /// The files of attempts.
    pub files: BTreeMap<AttemptId, Files>,
    /// Issues that have a workspace.
    pub workspaces: BTreeSet<usize>,
}

/// A shim with its agent and all descendants.
#[derive(Clone, Debug)]
pub struct Tree {
    pub issue: usize,
    /// The start of the attempt.
    pub start: Start,
    /// The actual spending, reported or not.
    pub spent: Spend,
    /// Whether the agent reports its spending.
    pub reports_spend: bool,
    /// Whether its end is unproven: Vik gave it up, and it is still alive.
    pub given_up: bool,
    /// The steps until the agent ends by itself.
    left: u32,
    per_step: Spend,
    end: AgentEnd,
    /// The steps from a stop request to the end.
    heed: u32,
    stopping: bool,
    /// Whether its input stays open at the end of a turn.
    is_open: bool,
    /// Whether it has ended a turn and waits for input.
    is_idle: bool,
}

/// How an agent ends if it is not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentEnd {
    /// It reports success, and may move the issue.
    Done {
        moves: bool,
    },
    Fails(FailureClass),
    /// It asks a question.
    Asks,
    /// A timeout of Vik ends it.
    Clock(Outcome),
    /// Its end cannot be proven.
    Unproven,
}

/// The behaviour of a seed's agents.
#[derive(Clone, Copy, Debug, Default)]
pub struct Temper {
    /// The percentage of successful agents that move the issue.
    pub moves: u64,
    /// The percentage of agents that succeed.
    pub succeeds: u64,
    /// The percentage of agents that report their spending.
    pub reports_spend: u64,
    /// The maximum cost of a step.
    pub cost: u64,
}

/// The exit record that the shim writes after its whole tree has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    end: Option<AgentEnd>,
    /// The total spending, if the agent reported it.
    reported: Option<Spend>,
}

/// The files of one attempt.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The progress of the attempt.
    pub step: Step,
    /// The starts and ends of `before_run` and `after_run`.
    pub hooks: [(u32, u32); 2],
    /// The shim's exit record.
    pub exit: Option<Exit>,
    pub reported: Option<Spend>,
    /// The result in the log.
    pub report: Option<AttemptResult>,
    /// The messages that the agent has taken.
    pub taken: BTreeSet<MessageId>,
    /// The number of the last turn that began in the process, beyond the first one.
    pub turn: u32,
}

/// The progress of an attempt. Each step is on disk before the next one starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    #[default]
    Started,
    Prepared,
    HookStarted,
    HookEnded,
    /// The shim was started.
    Spawned,
    /// The end is in the log.
    Logged,
    AfterStarted,
    /// Only the report is left.
    Over,
}

impl Tree {
    /// Creates the tree of an agent with this behaviour.
    pub fn new(issue: usize, start: Start, temper: &Temper, rng: &mut Rng) -> Self {
        let end = if rng.percent(temper.succeeds) {
            AgentEnd::Done {
                moves: rng.percent(temper.moves),
            }
        } else {
            match rng.weighted(&[20, 3, 3, 1, 30]) {
                4 => AgentEnd::Asks,
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
            is_open: rng.percent(60),
            is_idle: false,
        }
    }

    /// Returns whether it has ended a turn and waits for input.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Returns whether it does nothing until it gets input or is stopped.
    pub fn waits(&self) -> bool {
        self.is_idle && !self.stopping
    }

    /// Begins another turn, with the behaviour of a new agent.
    pub fn start_turn(&mut self, temper: &Temper, rng: &mut Rng) {
        let next = Self::new(self.issue, self.start.clone(), temper, rng);
        *self = Self {
            spent: self.spent,
            reports_spend: self.reports_spend,
            heed: self.heed,
            is_open: true,
            ..next
        };
    }

    /// Ends the input, so that the agent exits.
    pub fn end_input(&mut self) {
        self.is_open = false;
        self.is_idle = false;
    }

    /// Returns whether its turn has come to its end now, and it waits for input.
    fn becomes_idle(&mut self) -> bool {
        let has_turns = self.start.turn > 0 && self.start.stage.resume.resumes();
        let is_done = matches!(self.end, AgentEnd::Done { .. });
        self.is_idle = self.is_open && has_turns && is_done && !self.given_up;
        self.is_idle
    }

    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Marks its end as unproven: it lives on for a while unobserved.
    pub fn give_up(&mut self) {
        self.given_up = true;
        self.stopping = false;
        self.left = 10;
    }

    /// Performs one step of work. Returns the exit record after the last process has exited.
    pub fn work(&mut self) -> Option<Exit> {
        if self.waits() {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        self.spent = self.spent.plus(self.per_step);
        if self.stopping {
            if self.heed > 0 && self.left > 0 {
                self.heed -= 1;
                return None;
            }
            // It may end by itself just before it is stopped.
            return Some(self.exit((self.left == 0).then_some(self.end)));
        }
        if self.left > 0 || self.becomes_idle() {
            return None;
        }
        Some(self.exit(Some(self.end)))
    }

    /// Returns whether the turn that has ended moved the issue.
    pub fn turn_moves(&self) -> bool {
        self.end == AgentEnd::Done { moves: true }
    }

    /// Returns the exit record for an agent that was killed alone, without its shim.
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
    /// Returns whether the agent succeeded and moved the issue.
    pub fn moves(&self) -> bool {
        self.end == Some(AgentEnd::Done { moves: true })
    }

    /// Returns whether the end could not be proven.
    pub fn is_unproven(&self) -> bool {
        self.end == Some(AgentEnd::Unproven)
    }

    /// Returns the result of the attempt. `stopped` is the outcome if Vik stopped it.
    pub fn report(&self, stopped: Option<Outcome>, rng: &mut Rng) -> AttemptResult {
        let (outcome, class) = match (self.end, stopped) {
            (Some(AgentEnd::Unproven), _) => (Outcome::Failed, Some(FailureClass::UnprovenEnd)),
            (_, Some(stopped)) => (stopped, None),
            (Some(AgentEnd::Done { .. }), None) => (Outcome::Succeeded, None),
            (Some(AgentEnd::Asks), None) => (Outcome::Asked, None),
            (Some(AgentEnd::Fails(class)), None) => (Outcome::Failed, Some(class)),
            (Some(AgentEnd::Clock(outcome)), None) => (outcome, None),
            (None, None) => (Outcome::Cancelled, None),
        };
        let mut report = ran(outcome, self.reported);
        report.failure_class = class;
        report.question = (outcome == Outcome::Asked).then(|| {
            Box::new(Question {
                text: "which?".to_owned(),
                choices: vec!["this".to_owned(), "that".to_owned()],
                default: rng.percent(30).then(|| "that".to_owned()),
            })
        });
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

/// Returns the result of an attempt whose agent was started.
pub fn ran(outcome: Outcome, reported: Option<Spend>) -> AttemptResult {
    AttemptResult {
        ran: true,
        spend: reported,
        cost_source: reported.map_or(CostSource::None, |_| CostSource::Reported),
        ..AttemptResult::new(outcome)
    }
}

/// The failure classes of an agent that ends by itself.
const CLASSES: [FailureClass; 9] = [
    FailureClass::RateLimit,
    FailureClass::Overloaded,
    FailureClass::Auth,
    FailureClass::Model,
    FailureClass::Context,
    FailureClass::Network,
    FailureClass::Usage,
    FailureClass::Agent,
    // Vik could not store its output.
    FailureClass::Internal,
];
