//! How long Vik keeps what it stores.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::duration::{ParseSpanError, Span};

/// How long something is kept. It serializes as `keep` or as a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum KeepTime {
    #[default]
    Forever,
    /// Until it is this old.
    For(Span),
}

impl KeepTime {
    /// The name of [`KeepTime::Forever`] in the workflow file.
    pub const FOREVER: &str = "keep";

    /// Returns a number of days.
    pub const fn days(days: u64) -> Self {
        Self::For(Span::mins(days * 24 * 60))
    }

    /// Returns the time before which data is too old; `None` if no data is.
    pub fn limit(self, now: Timestamp) -> Option<Timestamp> {
        let Self::For(Span(age)) = self else {
            return None;
        };
        let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
        Some(now.checked_sub(age).unwrap_or(Timestamp::MIN))
    }
}

impl fmt::Display for KeepTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forever => f.pad(Self::FOREVER),
            Self::For(age) => age.fmt(f),
        }
    }
}

impl From<KeepTime> for String {
    fn from(keep: KeepTime) -> Self {
        keep.to_string()
    }
}

impl TryFrom<String> for KeepTime {
    type Error = ParseSpanError;

    fn try_from(text: String) -> Result<Self, ParseSpanError> {
        match text.as_str() {
            Self::FOREVER => Ok(Self::Forever),
            age => age.parse().map(Self::For),
        }
    }
}

/// How long each kind of data is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retention {
    /// Ended attempts in the ledger. Counters of issues and days are never removed.
    pub ledger: KeepTime,
    /// Records of the trace.
    pub trace: KeepTime,
    /// The scratch folder of an issue, after its last attempt.
    pub scratch: KeepTime,
    /// The session files of an issue, after its last attempt.
    pub sessions: KeepTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keep_time_is_text_in_json_and_has_a_limit() {
        let now: Timestamp = "2026-03-10T00:00:00Z".parse().unwrap();
        for (keep, text, limit) in [
            (KeepTime::Forever, "keep", None),
            (KeepTime::days(7), "7d", Some("2026-03-03T00:00:00Z")),
            (
                KeepTime::For(Span::mins(90)),
                "1h30m",
                Some("2026-03-09T22:30:00Z"),
            ),
            (
                KeepTime::days(10_000_000),
                "10000000d",
                Some("-009999-01-02T01:59:59Z"),
            ),
        ] {
            assert_eq!(serde_json::to_value(keep).unwrap(), text);
            assert_eq!(serde_json::from_value::<KeepTime>(text.into()).unwrap(), keep);
            assert_eq!(
                keep.limit(now),
                limit.map(|limit| limit.parse().unwrap()),
                "{text}"
            );
        }
        assert!(serde_json::from_value::<KeepTime>("for ever".into()).is_err());
    }
}
