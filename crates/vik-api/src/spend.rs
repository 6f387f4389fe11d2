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

/// Returns a cost for display, with its estimated part: `$1.20 + ~$0.50 estimated`; a dash if it is
/// unknown.
///
/// # Examples
///
/// ```
/// use vik_api::cost_text;
///
/// assert_eq!(cost_text(Some(1.7), 0.5), "$1.20 + ~$0.50 estimated");
/// assert_eq!(cost_text(None, 0.0), "-");
/// ```
pub fn cost_text(usd: Option<f64>, estimated_usd: f64) -> String {
    let money = |usd: f64| {
        if usd > 0.0 && usd < 0.01 {
            format!("${usd:.4}")
        } else {
            format!("${usd:.2}")
        }
    };
    // Sums of fractions are not exact: less than a millionth counts as zero.
    const NOTHING: f64 = 5e-7;
    match usd {
        None => "-".to_owned(),
        Some(usd) if estimated_usd < NOTHING => money(usd),
        Some(usd) if usd - estimated_usd < NOTHING => format!("~{} estimated", money(estimated_usd)),
        Some(usd) => format!(
            "{} + ~{} estimated",
            money(usd - estimated_usd),
            money(estimated_usd)
        ),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_shows_its_estimated_part_apart() {
        for (usd, estimated, text) in [
            (None, 0.0, "-"),
            (Some(0.0), 0.0, "$0.00"),
            (Some(1.2), 0.0, "$1.20"),
            (Some(0.0031), 0.0, "$0.0031"),
            (Some(1.7), 0.5, "$1.20 + ~$0.50 estimated"),
            (Some(0.5), 0.5, "~$0.50 estimated"),
            (Some(0.1 + 0.2), 0.3, "~$0.30 estimated"),
        ] {
            assert_eq!(cost_text(usd, estimated), text);
        }
    }
}
