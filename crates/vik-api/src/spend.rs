//! What was spent, and how much may be.

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::limits::{Limit, Spend};

/// Tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpendView {
    /// Input and output tokens together.
    pub tokens: u64,
    /// Money.
    pub cost_usd: f64,
}

impl From<Spend> for SpendView {
    fn from(spend: Spend) -> Self {
        Self {
            tokens: spend.tokens,
            cost_usd: spend.usd.usd(),
        }
    }
}

/// A limit; `null` is without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitView {
    /// Input and output tokens together.
    pub tokens: Option<u64>,
    /// Money.
    pub usd: Option<f64>,
}

impl LimitView {
    /// Whether anything is limited.
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
    /// What was spent on it, with what runs now.
    pub spent: SpendView,
    /// What may be.
    pub limit: LimitView,
}

/// An issue's whole life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LifeView {
    /// Starts of an agent.
    pub attempts: u32,
    /// How many there may be, with those that `unpark --attempts` allowed.
    pub max_attempts: Option<u32>,
    /// What was spent, with what runs now.
    pub spent: SpendView,
    /// What may be.
    pub limit: LimitView,
}
