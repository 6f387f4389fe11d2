//! How an attempt ended, and what it used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// The agent said it was done, its process ended well, and `verify` (where given) passed.
    Succeeded,
    /// The agent, a hook or `verify` failed.
    Failed,
    /// The stage's `timeout` or `tool_timeout` passed.
    TimedOut,
    /// The agent printed nothing for `stall_timeout` while no tool call was open.
    Stalled,
    /// Vik or a person stopped it.
    Cancelled,
    /// A limit on tokens or money was crossed.
    OverBudget,
    /// The process vanished without an exit record (host or shim died).
    Lost,
    /// The agent asked a question and ended its turn. It uses up no attempt.
    Asked,
}

/// Why a failed attempt failed; decides how it is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum FailureClass {
    /// The provider's rate limit or quota.
    RateLimit,
    /// The provider is overloaded or has an internal error (5xx).
    Overloaded,
    /// Login, key or permission refused by the provider.
    Auth,
    /// The model is unknown, or it refused.
    Model,
    /// The conversation no longer fits the model's context window.
    Context,
    /// The provider could not be reached, or the connection broke.
    Network,
    /// The agent's command line was refused by the agent itself.
    Usage,
    /// A hook or the prompt failed before the agent started.
    Hook,
    /// The stage's `verify` command said no, or a person asked for changes.
    Verify,
    /// A person, or the time limit of an approval, said no to the result.
    Denied,
    /// The agent failed in a way that fits no other class.
    Agent,
    /// Vik itself failed, so the attempt says nothing about the agent or the issue.
    Internal,
    /// The end of the process tree could not be proven.
    UnprovenEnd,
}

impl Outcome {
    /// All outcomes, in the order of their declaration.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the value with this name in JSON.
    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl FailureClass {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl CostSource {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Tokens used. Input tokens include cached ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// All input tokens: fresh, read from the cache and written to it.
    pub input_tokens: u64,
    /// The part of `input_tokens` that was read from the provider's cache.
    pub cached_input_tokens: u64,
    /// The part of `input_tokens` that was written to the provider's cache.
    pub cache_write_input_tokens: u64,
    /// All output tokens, reasoning included.
    pub output_tokens: u64,
}

impl Usage {
    /// Returns the sum of two usages.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// Returns what this total adds over an earlier total of the same thread; never negative.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            input_tokens: of(self.input_tokens, other.input_tokens),
            cached_input_tokens: of(self.cached_input_tokens, other.cached_input_tokens),
            cache_write_input_tokens: of(self.cache_write_input_tokens, other.cache_write_input_tokens),
            output_tokens: of(self.output_tokens, other.output_tokens),
        }
    }

    /// Input and output tokens together.
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// Where a cost figure comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum CostSource {
    /// No cost is known.
    #[default]
    None,
    /// The agent reported it.
    Reported,
    /// Computed from the tokens and the profile's `price`.
    Price,
    /// Estimated, since the run ended without figures.
    Estimate,
}
