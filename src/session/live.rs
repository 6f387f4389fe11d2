//! What an attempt does now, for `status` and the progress lines.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use vik_core::outcome::Usage;

/// Where an attempt is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LivePhase {
    /// Workspace, hooks, prompt.
    #[default]
    Preparing,
    /// The agent runs.
    Running,
    /// `verify` runs.
    Verifying,
    /// It waits for a person.
    Awaiting,
    /// Outputs are carried out, or `after_run` runs.
    Finishing,
}

impl LivePhase {
    /// The name used in JSON.
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

/// The facts that change while an attempt runs.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Where it is.
    pub phase: LivePhase,
    /// When the agent was last heard.
    pub last_event_at: Option<Timestamp>,
    /// What it does, in a few words.
    pub activity: Option<String>,
    /// Events in its log.
    pub events: u64,
    /// Tokens so far.
    pub usage: Usage,
    /// Cost so far.
    pub cost_usd: Option<f64>,
    /// Why `after_run` failed, where it did.
    pub after_run_error: Option<String>,
}

/// A handle on the facts, shared between the attempt and who asks.
#[derive(Clone, Debug, Default)]
pub struct Live(Arc<Mutex<Facts>>);

impl Live {
    /// A copy of the facts now.
    pub fn get(&self) -> Facts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the facts.
    pub fn set(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
