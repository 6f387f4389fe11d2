//! What is told about the end of an attempt.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::limits::Spend;
use crate::outcome::{CostSource, FailureClass, Outcome, Usage};

/// What is told about the end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed.
    pub failure_class: Option<FailureClass>,
    /// In a person's words.
    pub reason: Option<String>,
    /// What the next attempt should know: the tail of `verify`'s output.
    pub feedback: Option<String>,
    /// Whether a commit or file changed, where it could be told.
    pub changed: Option<bool>,
    /// Whether the agent's own program was started.
    #[serde(default)]
    pub ran: bool,
    /// Whether the agent's model answered in this attempt; `None` where that is not known.
    #[serde(default)]
    pub answered: Option<bool>,
    /// What it used, as far as the agent told; `None` where it told nothing.
    #[serde(default)]
    pub spend: Option<Spend>,
    /// Where the money figure of `spend` comes from.
    #[serde(default)]
    pub cost_source: CostSource,
    /// Tokens by kind, as far as the agent told.
    #[serde(default)]
    pub usage: Usage,
    /// When the provider's quota window opens again, where it told.
    #[serde(default)]
    pub resets_at: Option<Timestamp>,
    /// The provider's id of the conversation.
    #[serde(default)]
    pub provider_session_id: Option<String>,
    /// The conversation that was to be resumed could not be: the next attempt starts anew.
    #[serde(default)]
    pub resume_failed: bool,
    /// It failed while the workspace was being made (`after_create`): that is tried again in a clean folder.
    #[serde(default)]
    pub preparing: bool,
    /// The agent's exit code.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// How the end of the process tree is known (`cgroup`, `subreaper`, `census`, …).
    #[serde(default)]
    pub proof: Option<String>,
}

impl AttemptResult {
    /// Whether the model answered, as far as is known: an agent that ran may have had an answer.
    pub fn has_answered(&self) -> bool {
        self.answered.unwrap_or(self.ran)
    }

    /// A report that says nothing but how it ended.
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
