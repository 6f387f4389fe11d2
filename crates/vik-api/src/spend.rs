//! Amounts that were spent, and their limits.

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::limits::{Limit, Spend};

/// Tokens and money, with the parts of them that are estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpendView {
    /// Input and output tokens together.
    pub tokens: u64,
    /// Money.
    pub cost_usd: f64,
    /// The estimated part of `tokens`, for interrupted agents that reported no usage.
    #[serde(default)]
    pub estimated_tokens: u64,
    /// The part of `cost_usd` that is an estimate.
    #[serde(default)]
    pub estimated_usd: f64,
}

impl SpendView {
    /// Creates a sum with its estimated part.
    pub fn of(spend: Spend, estimated: Spend) -> Self {
        Self {
            tokens: spend.tokens,
            cost_usd: spend.usd.usd(),
            estimated_tokens: estimated.tokens,
            estimated_usd: estimated.usd.usd(),
        }
    }

    /// Returns both sums together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost_usd: self.cost_usd + other.cost_usd,
            estimated_tokens: self.estimated_tokens.saturating_add(other.estimated_tokens),
            estimated_usd: self.estimated_usd + other.estimated_usd,
        }
    }
}

impl From<Spend> for SpendView {
    fn from(spend: Spend) -> Self {
        Self::of(spend, Spend::default())
    }
}

/// A limit; `null` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitView {
    /// Input and output tokens together.
    pub tokens: Option<u64>,
    /// Money.
    pub usd: Option<f64>,
}

impl LimitView {
    /// Returns whether there is any limit.
    pub fn is_some(&self) -> bool {
        self.tokens.is_some() || self.usd.is_some()
    }
}

impl From<Limit> for LimitView {
    fn from(limit: Limit) -> Self {
        Self {
            tokens: limit.tokens,
            usd: limit.usd.map(|usd| usd.usd()),
        }
    }
}

/// One day (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DayView {
    /// The day.
    #[schemars(with = "String")]
    pub date: Date,
    /// The charges of the day, including running attempts.
    pub spent: SpendView,
    /// The limit.
    pub limit: LimitView,
}

/// The totals of an issue's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LifeView {
    /// Starts of an agent.
    pub attempts: u32,
    /// The maximum number of attempts, including those that `vik retry --attempts` allowed.
    pub max_attempts: Option<u32>,
    /// The charges, including running attempts.
    pub spent: SpendView,
    /// The limit.
    pub limit: LimitView,
}
