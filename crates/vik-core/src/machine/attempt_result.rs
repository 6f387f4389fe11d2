//! The result of an attempt.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::limits::Spend;
use crate::outcome::{CostSource, FailureClass, Outcome, Usage};

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptResult {
    pub outcome: Outcome,
    pub failure_class: Option<FailureClass>,
    /// The reason as a sentence.
    pub reason: Option<String>,
    /// The feedback for the next attempt: the end of the output of `verify`.
    pub feedback: Option<String>,
    /// Whether a commit or file changed; `None` if that is unknown.
    pub changed: Option<bool>,
    /// Whether the agent's program was started.
    #[serde(default)]
    pub ran: bool,
    /// Whether the model answered in this attempt; `None` if that is unknown.
    #[serde(default)]
    pub answered: Option<bool>,
    /// The spending as reported by the agent; `None` if it reported nothing.
    #[serde(default)]
    pub spend: Option<Spend>,
    /// Where the money figure of `spend` comes from.
    #[serde(default)]
    pub cost_source: CostSource,
    /// The tokens by kind, as reported by the agent.
    #[serde(default)]
    pub usage: Usage,
    /// When the provider's quota window resets, where that was reported.
    #[serde(default)]
    pub resets_at: Option<Timestamp>,
    #[serde(default)]
    pub provider_session_id: Option<String>,
    /// Whether resuming the conversation failed, so that the next attempt starts a new one.
    #[serde(default)]
    pub resume_failed: bool,
    /// Whether creating the workspace failed (`after_create`), which is retried in a clean folder.
    #[serde(default)]
    pub preparing: bool,
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// How the end of the process tree was proven (`cgroup`, `subreaper`, `census`, …).
    #[serde(default)]
    pub proof: Option<String>,
}

impl AttemptResult {
    /// Returns whether the model answered. If that is unknown, an agent that ran counts as
    /// answered.
    pub fn has_answered(&self) -> bool {
        self.answered.unwrap_or(self.ran)
    }

    /// Creates a result with nothing but an outcome.
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            failure_class: None,
            reason: None,
            feedback: None,
            changed: None,
            ran: false,
            answered: None,
            spend: None,
            cost_source: CostSource::None,
            usage: Usage::default(),
            resets_at: None,
            provider_session_id: None,
            resume_failed: false,
            preparing: false,
            exit_code: None,
            proof: None,
        }
    }
}
