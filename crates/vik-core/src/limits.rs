//! What attempts spend, and how much they may.

use serde::{Deserialize, Serialize};

use crate::money::MicroUsd;

/// Tokens and money. Counters of it only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spend {
    /// Input and output tokens together.
    pub tokens: u64,
    /// Money.
    pub usd: MicroUsd,
}

impl Spend {
    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            usd: self.usd.plus(other.usd),
        }
    }
}

/// A limit on tokens and money; `None` is without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Input and output tokens together.
    pub tokens: Option<u64>,
    /// Money.
    pub usd: Option<MicroUsd>,
}

/// Which limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitScope {
    /// `issue.stages.S.limits`: one attempt.
    Attempt,
    /// `issue.limits`: an issue's whole life.
    Issue,
    /// `limits`: all issues of one day (UTC).
    Day,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitUnit {
    /// Starts of an agent.
    Attempts,
    /// Tokens.
    Tokens,
    /// Money, in millionths of a US dollar.
    Usd,
}

/// A limit that is near or reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitHit {
    /// Which.
    pub scope: LimitScope,
    /// Of what.
    pub unit: LimitUnit,
    /// How much was spent, in the unit.
    pub spent: u64,
    /// How much may be, in the unit.
    pub limit: u64,
}
