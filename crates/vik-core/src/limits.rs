//! What attempts spend, and how much they may.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::money::MicroUsd;
use crate::outcome::{CostSource, Outcome};

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

impl Spend {
    /// The greater of both, tokens and money each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.max(other.tokens),
            usd: self.usd.max(other.usd),
        }
    }

    /// What is left of it after the other; never negative.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            usd: MicroUsd(self.usd.0.saturating_sub(other.usd.0)),
        }
    }
}

impl Limit {
    /// The limit that counts from what was spent before.
    #[must_use]
    pub fn above(self, before: Spend) -> Self {
        Self {
            tokens: self.tokens.map(|tokens| tokens.saturating_add(before.tokens)),
            usd: self.usd.map(|usd| usd.plus(before.usd)),
        }
    }

    /// What may still be spent.
    #[must_use]
    pub fn left(self, spent: Spend) -> Self {
        Self {
            tokens: self.tokens.map(|tokens| tokens.saturating_sub(spent.tokens)),
            usd: self.usd.map(|usd| MicroUsd(usd.0.saturating_sub(spent.usd.0))),
        }
    }

    /// The stricter of both, tokens and money each.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Self {
            tokens: least(self.tokens, other.tokens),
            usd: least(self.usd.map(|usd| usd.0), other.usd.map(|usd| usd.0)).map(MicroUsd),
        }
    }

    /// In words: `100000 tokens and $1.50`; `None` where it is without limit.
    pub fn words(self) -> Option<String> {
        match (self.tokens, self.usd) {
            (None, None) => None,
            (Some(tokens), None) => Some(format!("{tokens} tokens")),
            (None, Some(usd)) => Some(usd.to_string()),
            (Some(tokens), Some(usd)) => Some(format!("{tokens} tokens and {usd}")),
        }
    }

    /// What of it is reached: tokens first, then money.
    pub fn reached(self, scope: LimitScope, spent: Spend) -> Option<LimitHit> {
        self.hits(scope, spent).find(|hit| hit.is_reached())
    }

    /// How far along both units are, where they have a limit.
    pub fn hits(self, scope: LimitScope, spent: Spend) -> impl Iterator<Item = LimitHit> {
        let hit = move |unit, spent, limit| LimitHit {
            scope,
            unit,
            spent,
            limit,
        };
        let tokens = self
            .tokens
            .map(|limit| hit(LimitUnit::Tokens, spent.tokens, limit));
        let usd = self.usd.map(|limit| hit(LimitUnit::Usd, spent.usd.0, limit.0));
        tokens.into_iter().chain(usd)
    }
}

impl LimitHit {
    /// Whether it is used up.
    pub fn is_reached(&self) -> bool {
        self.spent >= self.limit
    }

    /// Whether 80 % of it are used.
    pub fn is_near(&self) -> bool {
        u128::from(self.spent) * 5 >= u128::from(self.limit) * 4
    }

    /// How much of it is used, in whole percent.
    pub fn percent(&self) -> u64 {
        let percent = u128::from(self.spent) * 100 / u128::from(self.limit).max(1);
        u64::try_from(percent).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for LimitHit {
    /// `120000 of 100000 tokens of the attempt`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spent, limit, .. } = self;
        match self.unit {
            LimitUnit::Attempts => write!(f, "{spent} of {limit} attempts")?,
            LimitUnit::Tokens => write!(f, "{spent} of {limit} tokens")?,
            LimitUnit::Usd => write!(f, "{} of {}", MicroUsd(*spent), MicroUsd(*limit))?,
        }
        f.write_str(match self.scope {
            LimitScope::Attempt => " for the attempt",
            LimitScope::Issue => " for the issue's life",
            LimitScope::Day => " for the day",
        })
    }
}

/// What an attempt that ended is charged, and where the figure comes from.
///
/// What the agent told counts. An agent that ran, did not succeed and told no tokens or no cost is charged the profile's
/// estimate in place of what it did not tell: work that was cut off is never free.
pub fn charge(
    ran: bool,
    outcome: Outcome,
    spend: Option<Spend>,
    source: CostSource,
    estimate: Spend,
) -> (Spend, CostSource) {
    let told = spend.unwrap_or_default();
    if !ran || outcome == Outcome::Succeeded {
        return (told, source);
    }
    let mut charged = told;
    let mut charged_source = source;
    if told.tokens == 0 {
        charged.tokens = estimate.tokens;
    }
    if source == CostSource::None && told.usd == MicroUsd::default() {
        charged.usd = estimate.usd;
    }
    if charged != told {
        charged_source = CostSource::Estimate;
    }
    (charged, charged_source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(tokens: u64, usd: u64) -> Spend {
        Spend {
            tokens,
            usd: MicroUsd(usd),
        }
    }

    #[test]
    fn what_was_cut_off_is_never_free() {
        let estimate = spend(100, 5);
        let charge = |ran, outcome, told, source| charge(ran, outcome, told, source, estimate);
        let (failed, lost) = (Outcome::Failed, Outcome::Lost);
        assert_eq!(
            charge(true, lost, None, CostSource::None),
            (estimate, CostSource::Estimate)
        );
        assert_eq!(
            charge(true, failed, Some(spend(7, 0)), CostSource::None),
            (spend(7, 5), CostSource::Estimate),
            "the tokens are known, the money is not"
        );
        assert_eq!(
            charge(true, failed, Some(spend(7, 3)), CostSource::Price),
            (spend(7, 3), CostSource::Price)
        );
        assert_eq!(
            charge(false, failed, None, CostSource::None),
            (Spend::default(), CostSource::None),
            "no agent was started"
        );
        assert_eq!(
            charge(true, Outcome::Succeeded, None, CostSource::None),
            (Spend::default(), CostSource::None)
        );
    }

    #[test]
    fn a_limit_is_near_at_80_percent_and_reached_at_100() {
        let limit = Limit {
            tokens: Some(10),
            usd: None,
        };
        let at = |tokens| {
            let hit = limit.hits(LimitScope::Attempt, spend(tokens, 99)).next().unwrap();
            (hit.is_near(), hit.is_reached(), hit.percent())
        };
        assert_eq!(at(7), (false, false, 70));
        assert_eq!(at(8), (true, false, 80));
        assert_eq!(at(10), (true, true, 100));
        assert_eq!(
            limit.left(spend(4, 0)).and(Limit {
                tokens: None,
                usd: Some(MicroUsd(2))
            }),
            Limit {
                tokens: Some(6),
                usd: Some(MicroUsd(2))
            }
        );
    }
}
