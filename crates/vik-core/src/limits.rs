//! Spending and its limits.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::money::MicroUsd;
use crate::outcome::CostSource;
use crate::plural::count;

/// An amount of tokens and money. Counters of it never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spend {
    /// Input and output tokens together.
    pub tokens: u64,
    pub usd: MicroUsd,
}

impl Spend {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            usd: self.usd.plus(other.usd),
        }
    }
}

/// A limit on tokens and money; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Input and output tokens together.
    pub tokens: Option<u64>,
    pub usd: Option<MicroUsd>,
}

/// The scope of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitScope {
    Attempt,
    /// `issue.limits`: an issue's whole life.
    Issue,
    /// `limits`: all issues of one day (UTC).
    Day,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitUnit {
    /// Starts of an agent.
    Attempts,
    /// Returns of an issue to a stage.
    Rounds,
    Tokens,
    /// Money, in millionths of a US dollar.
    Usd,
}

/// The usage of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitHit {
    pub scope: LimitScope,
    pub unit: LimitUnit,
    /// The amount spent, in the unit.
    pub spent: u64,
    /// The amount allowed, in the unit.
    pub limit: u64,
}

impl Spend {
    /// Returns the larger amount of both, for tokens and for money.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.max(other.tokens),
            usd: self.usd.max(other.usd),
        }
    }

    /// Returns the difference, at least zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            usd: MicroUsd(self.usd.0.saturating_sub(other.usd.0)),
        }
    }
}

impl Limit {
    /// Returns the limit raised by an amount that was spent before.
    #[must_use]
    pub fn above(self, before: Spend) -> Self {
        Self {
            tokens: self.tokens.map(|tokens| tokens.saturating_add(before.tokens)),
            usd: self.usd.map(|usd| usd.plus(before.usd)),
        }
    }

    /// Returns the amount that may still be spent.
    #[must_use]
    pub fn left(self, spent: Spend) -> Self {
        Self {
            tokens: self.tokens.map(|tokens| tokens.saturating_sub(spent.tokens)),
            usd: self.usd.map(|usd| MicroUsd(usd.0.saturating_sub(spent.usd.0))),
        }
    }

    /// Returns the stricter of both, for tokens and for money.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Self {
            tokens: least(self.tokens, other.tokens),
            usd: least(self.usd.map(|usd| usd.0), other.usd.map(|usd| usd.0)).map(MicroUsd),
        }
    }

    /// Returns a description, such as `100000 tokens and $1.50`; `None` if there is no limit.
    pub fn describe(self) -> Option<String> {
        match (self.tokens, self.usd) {
            (None, None) => None,
            (Some(tokens), None) => Some(count(tokens, "token")),
            (None, Some(usd)) => Some(usd.to_string()),
            (Some(tokens), Some(usd)) => Some(format!("{} and {usd}", count(tokens, "token"))),
        }
    }

    /// Returns the unit whose limit is reached: tokens first, then money.
    pub fn reached(self, scope: LimitScope, spent: Spend) -> Option<LimitHit> {
        self.hits(scope, spent).find(|hit| hit.is_reached())
    }

    /// Returns the usage of each unit that has a limit.
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
    /// Returns whether the limit is used up.
    pub fn is_reached(&self) -> bool {
        self.spent >= self.limit
    }

    /// Returns whether 80 % of the limit are used.
    pub fn is_near(&self) -> bool {
        u128::from(self.spent) * 5 >= u128::from(self.limit) * 4
    }

    /// Returns the used part in whole percent.
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
            LimitUnit::Rounds => write!(f, "{spent} of {limit} rounds")?,
            LimitUnit::Tokens => write!(f, "{spent} of {limit} tokens")?,
            LimitUnit::Usd => write!(f, "{} of {}", MicroUsd(*spent), MicroUsd(*limit))?,
        }
        f.write_str(match self.scope {
            LimitScope::Attempt => " for the attempt",
            LimitScope::Issue => " for the life of the issue",
            LimitScope::Day => " for the day",
        })
    }
}

/// Charges, and the part of them that is estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charges {
    pub total: Spend,
    pub estimated: Spend,
}

impl Charges {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            total: self.total.plus(other.total),
            estimated: self.estimated.plus(other.estimated),
        }
    }

    /// Returns the larger value of each counter.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            total: self.total.max(other.total),
            estimated: self.estimated.max(other.estimated),
        }
    }
}

/// Returns the estimated part of a charge: the figures that the agent did not report.
pub fn estimated(reported: Option<Spend>, charged: Spend, source: CostSource) -> Spend {
    let reported = reported.unwrap_or_default();
    let is_estimate = source == CostSource::Estimate;
    Spend {
        tokens: if is_estimate && reported.tokens == 0 {
            charged.tokens
        } else {
            0
        },
        usd: if is_estimate && reported.usd == MicroUsd::default() {
            charged.usd
        } else {
            MicroUsd::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use super::*;
    use crate::attempt::AttemptResult;
    use crate::outcome::{FailureClass, Outcome};

    fn spend(tokens: u64, usd: u64) -> Spend {
        Spend {
            tokens,
            usd: MicroUsd(usd),
        }
    }

    fn classes() -> impl Iterator<Item = Option<FailureClass>> {
        let all = FailureClass::VARIANTS.iter().copied();
        all.map(Some).chain([None])
    }

    fn report(outcome: Outcome, class: Option<FailureClass>, answered: bool) -> AttemptResult {
        AttemptResult {
            ran: true,
            answered: Some(answered),
            failure_class: class,
            ..AttemptResult::new(outcome)
        }
    }

    /// Every outcome with every class, for an agent that reported nothing.
    #[test]
    fn estimate_is_charged_only_for_cut_off_answers() {
        let estimate = spend(100, 5);
        for &outcome in Outcome::ALL {
            for class in classes() {
                for answered in [false, true] {
                    let is_free = matches!(
                        class,
                        Some(FailureClass::Auth | FailureClass::Usage | FailureClass::Hook)
                    );
                    let is_complete = matches!(outcome, Outcome::Succeeded | Outcome::Asked);
                    let expected = if answered && !is_complete && !is_free {
                        (estimate, CostSource::Estimate)
                    } else {
                        (Spend::default(), CostSource::None)
                    };
                    let charged = report(outcome, class, answered).charge(None, estimate);
                    assert_eq!(charged, expected, "{outcome} {class:?} answered: {answered}");
                }
            }
        }
    }

    #[test]
    fn attempt_without_an_agent_is_charged_nothing() {
        for &outcome in Outcome::ALL {
            for class in classes() {
                let result = AttemptResult {
                    failure_class: class,
                    ..AttemptResult::new(outcome)
                };
                let charged = result.charge(None, spend(100, 5));
                assert_eq!(
                    charged,
                    (Spend::default(), CostSource::None),
                    "{outcome} {class:?}"
                );
            }
        }
    }

    #[test]
    fn estimate_replaces_only_missing_figures() {
        let estimate = spend(100, 5);
        let failed = report(Outcome::Failed, None, true);
        let tokens = Some(spend(7, 0));
        assert_eq!(
            failed.charge(tokens, estimate),
            (spend(7, 5), CostSource::Estimate)
        );
        assert_eq!(estimated(tokens, spend(7, 5), CostSource::Estimate), spend(0, 5));
        let priced = AttemptResult {
            cost_source: CostSource::Price,
            ..failed
        };
        assert_eq!(
            priced.charge(Some(spend(7, 3)), estimate),
            (spend(7, 3), CostSource::Price)
        );
        // An agent of the runtime `command` whose profile has no `estimate`.
        let script = report(Outcome::TimedOut, None, true);
        assert_eq!(
            script.charge(None, Spend::default()),
            (Spend::default(), CostSource::None)
        );
    }

    /// A record of an older version lacks whether the model answered: then an agent that ran
    /// counts.
    #[test]
    fn unknown_answer_counts_as_one_where_the_agent_ran() {
        for ran in [false, true] {
            let lost = AttemptResult {
                ran,
                ..AttemptResult::new(Outcome::Lost)
            };
            let (charged, _) = lost.charge(None, spend(100, 5));
            assert_eq!(charged == spend(100, 5), ran);
        }
    }

    proptest::proptest! {
        /// In all cases every reported amount is charged, nothing beyond report and estimate is
        /// charged, and the estimated part is exactly the missing one.
        #[test]
        fn charge_is_report_plus_estimated_part(
            outcome in proptest::sample::select(Outcome::ALL),
            class in proptest::option::of(proptest::sample::select(FailureClass::VARIANTS)), answered in proptest::option::of(proptest::bool::ANY),
            ran: bool, reported in proptest::option::of((0u64..3, 0u64..3)), estimate in (0u64..3, 0u64..3),
            is_priced: bool,
        ) {
            let reported = reported.map(|(tokens, usd)| spend(tokens, usd));
            let cost_source = if is_priced { CostSource::Reported } else { CostSource::None };
            let report = AttemptResult {
                ran, answered, cost_source, failure_class: class, ..AttemptResult::new(outcome)
            };
            let (charged, source) = report.charge(reported, spend(estimate.0, estimate.1));
            let known = reported.unwrap_or_default();
            let part = estimated(reported, charged, source);
            proptest::prop_assert_eq!(known.plus(part), charged);
            proptest::prop_assert!(part == Spend::default() || report.has_answered());
            proptest::prop_assert_eq!(source == CostSource::Estimate, charged != known);
        }
    }

    #[test]
    fn limit_is_near_at_80_percent_and_reached_at_100() {
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
