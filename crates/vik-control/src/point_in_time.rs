//! Parses the start of a time span: `7d`, `2026-03-01`, `2026-03-01T12:00:00Z`.

use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use vik_core::duration::Span;

/// The start of a time span that ends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// A duration before now.
    Ago(Span),
    /// A point in time.
    At(Timestamp),
}

/// The error for a text that is not a start of a time span.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "use a duration such as `24h` or `7d`, a date such as `2026-03-01`, or a time such as `2026-03-01T12:00:00Z`"
)]
pub struct ParseSinceError;

impl FromStr for Since {
    type Err = ParseSinceError;

    fn from_str(text: &str) -> Result<Self, ParseSinceError> {
        let text = text.trim();
        if let Ok(span) = text.parse() {
            return Ok(Self::Ago(span));
        }
        if let Ok(at) = text.parse() {
            return Ok(Self::At(at));
        }
        // A time of day without an offset is ambiguous. A date alone is a day of the ledger, in
        // UTC.
        let date: Date = text
            .parse()
            .ok()
            .filter(|_| text.len() <= "2026-03-01".len())
            .ok_or(ParseSinceError)?;
        let at = date.to_zoned(TimeZone::UTC).map_err(|_| ParseSinceError)?;
        Ok(Self::At(at.timestamp()))
    }
}

impl Since {
    /// Returns the point in time, relative to `now`.
    pub fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at.max(Timestamp::UNIX_EPOCH),
            Self::Ago(Span(ago)) => SignedDuration::try_from(ago)
                .ok()
                .and_then(|ago| now.checked_sub(ago).ok())
                .unwrap_or(Timestamp::UNIX_EPOCH)
                .max(Timestamp::UNIX_EPOCH),
        }
    }
}
