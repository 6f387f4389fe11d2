//! Lengths of time in settings and options.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_duration::Span;

/// A length of time above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Span", into = "Span")]
pub struct Period(Span);

/// Why a text is not a length of time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration {0:?}: expected 10s, 5m, 1h or plain seconds, above zero")]
pub struct PeriodError(String);

impl Period {
    pub const fn seconds(seconds: u64) -> Self {
        Self(Span::secs(seconds))
    }

    pub fn get(self) -> Duration {
        self.0.0
    }
}

impl TryFrom<Span> for Period {
    type Error = PeriodError;

    fn try_from(span: Span) -> Result<Self, PeriodError> {
        if span.0.is_zero() {
            return Err(PeriodError(span.to_string()));
        }
        Ok(Self(span))
    }
}

impl From<Period> for Span {
    fn from(period: Period) -> Self {
        period.0
    }
}

impl FromStr for Period {
    type Err = PeriodError;

    fn from_str(text: &str) -> Result<Self, PeriodError> {
        let span: Span = text.parse().map_err(|_| PeriodError(text.to_owned()))?;
        span.try_into()
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn period_is_a_duration_above_zero() {
        let shown = |text: &str| text.parse::<Period>().map(|period| period.to_string());
        assert_eq!(shown("90m").unwrap(), "1h30m");
        for text in ["", "0", "0s", "-1", "5x", "1e9999"] {
            assert!(shown(text).is_err(), "{text}");
        }
        let zero = serde_json::from_str::<Period>("0").unwrap_err();
        assert!(zero.to_string().contains("above zero"), "{zero}");
    }
}
