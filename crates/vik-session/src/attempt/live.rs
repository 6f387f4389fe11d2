//! The current activity of an attempt, for `status` and the progress lines.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use vik_api::{ContextView, RateLimitView};
use vik_core::outcome::Usage;
use vik_core::turn::TurnOfMax;

/// The phase of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LivePhase {
    /// The workspace, the hooks and the prompt are prepared.
    #[default]
    Preparing,
    Running,
    Verifying,
    /// The attempt waits for a person.
    #[serde(rename = "awaiting_approval")]
    Awaiting,
    /// Outputs are applied, or `after_run` runs.
    Finishing,
}

impl LivePhase {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Running => "running",
            Self::Verifying => "verifying",
            Self::Awaiting => "awaiting_approval",
            Self::Finishing => "finishing",
        }
    }
}

/// Whether people can send messages to the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    Ready,
    /// The agent has not started, or has not reported its conversation yet.
    #[default]
    NotYet,
    No {
        /// The reason, for people.
        why: String,
    },
}

/// The facts that change while an attempt runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    pub phase: LivePhase,
    /// The time of the agent's last output.
    pub last_event_at: Option<Timestamp>,
    /// A short description of what the agent does.
    pub activity: Option<String>,
    /// The number of events in the session log.
    pub events: u64,
    pub usage: Usage,
    pub cost_usd: Option<f64>,
    /// Whether people can send messages to the agent; `None` before the attempt is recorded.
    pub steering: Option<Steering>,
    /// What the agent waits for, while it runs.
    pub waits_for: Option<WaitsFor>,
    /// The speed of the answer that arrives, estimated from its characters.
    pub tokens_per_second: Option<f64>,
    pub context: Option<ContextView>,
    pub rate_limit: Option<RateLimitView>,
    /// The turn of the conversation; `None` in a stage without `turns`.
    pub turn: Option<TurnOfMax>,
    /// Set while the agent is being stopped.
    pub stopping: Option<Stopping>,
}

impl Facts {
    /// Removes what is true only while the agent runs.
    pub(super) fn on_agent_ended(&mut self) {
        self.waits_for = None;
        self.tokens_per_second = None;
        self.stopping = None;
    }
}

/// Whom or what an agent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    Model,
    Tool,
    Person,
}

impl Waiting {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Person => "person",
        }
    }
}

/// What an agent waits for, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsFor {
    pub kind: Waiting,
    /// The name of the tool, or what of the model's answer arrives.
    pub detail: Option<String>,
    pub since: Timestamp,
}

impl WaitsFor {
    pub(super) fn since(since: Timestamp, kind: Waiting, detail: Option<String>) -> Self {
        Self { kind, detail, since }
    }
}

/// A stop of an agent that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    pub why: String,
    pub since: Timestamp,
    /// How long the agent has to react to the interrupt, and then to the termination.
    pub graces: (Duration, Duration),
    /// Whether the first steps were skipped.
    pub is_killed: bool,
}

/// A step of the stop ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopStep {
    Interrupt,
    Terminate,
    Kill,
}

impl StopStep {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Terminate => "terminate",
            Self::Kill => "kill",
        }
    }
}

impl Stopping {
    /// Returns the step that the shim has reached by its timetable, and when the next one comes.
    pub fn step(&self, now: Timestamp) -> (StopStep, Option<Timestamp>) {
        let terminate_at = self.since.checked_add(self.graces.0).unwrap_or(Timestamp::MAX);
        let kill_at = terminate_at.checked_add(self.graces.1).unwrap_or(Timestamp::MAX);
        if self.is_killed || now >= kill_at {
            (StopStep::Kill, None)
        } else if now >= terminate_at {
            (StopStep::Terminate, Some(kill_at))
        } else {
            (StopStep::Interrupt, Some(terminate_at))
        }
    }
}

/// A reader of the facts of an attempt; cheap to clone. After the end it shows the last ones.
#[derive(Clone, Debug)]
pub struct Live(watch::Receiver<Facts>);

impl Live {
    pub(super) fn new(facts: watch::Receiver<Facts>) -> Self {
        Self(facts)
    }

    /// Returns a copy of the current facts.
    pub fn get(&self) -> Facts {
        self.0.borrow().clone()
    }
}
