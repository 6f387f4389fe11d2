//! The current activity of an attempt, for `status` and the progress lines.

use jiff::Timestamp;
use tokio::sync::watch;
use vik_core::outcome::Usage;

/// The phase of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LivePhase {
    /// The workspace, the hooks and the prompt are prepared.
    #[default]
    Preparing,
    Running,
    Verifying,
    /// The attempt waits for a person.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default)]
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
