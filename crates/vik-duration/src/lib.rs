//! Durations in the format of users: `10s`, `5m`, `1h`, `250ms`, `1h30m`, `1.5h`, or plain seconds.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::SpanParser;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A span of time from the workflow file, exact to the millisecond. It serializes in the format of
/// users: `5m`.
///
/// # Examples
///
/// ```
/// use vik_duration::Span;
///
/// let span: Span = "90m".parse()?;
/// assert_eq!(span, Span::mins(90));
/// assert_eq!(span.to_string(), "1h30m");
/// assert!("90 parsecs".parse::<Span>().is_err());
/// # Ok::<(), vik_duration::ParseSpanError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

impl Span {
    /// Returns a span of whole seconds.
    pub const fn secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns a span of whole minutes.
    pub const fn mins(minutes: u64) -> Self {
        Self::secs(minutes * 60)
    }
}

/// The error for a text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration `{text}`")]
pub struct ParseSpanError {
    text: String,
}

impl std::str::FromStr for Span {
    type Err = ParseSpanError;

    fn from_str(text: &str) -> Result<Self, ParseSpanError> {
        parse(text.trim()).map(Self).ok_or_else(|| ParseSpanError {
            text: text.to_owned(),
        })
    }
}

/// Parses plain seconds, or numbers with units, the largest first: `1h30m`, `1.5h`, `5min`, `2 days`.
fn parse(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    // jiff parses no fraction of a day.
    if let Some(days) = text
        .strip_suffix('d')
        .and_then(|days| days.trim_end().parse::<f64>().ok())
    {
        return Duration::try_from_secs_f64(days * 86_400.0).ok();
    }
    let span = SpanParser::new().parse_span(text).ok()?;
    let time = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    time.try_into().ok()
}

impl fmt::Display for Span {
    /// Short, exact to the second from ten seconds on: `850ms`, `3.2s`, `42s`, `5m`, `1h30m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        if millis == 0 {
            return f.pad("0s");
        }
        if millis < 1_000 {
            return f.pad(&format!("{millis}ms"));
        }
        if millis < 10_000 && millis % 1_000 >= 100 {
            return f.pad(&format!("{}.{}s", millis / 1_000, millis % 1_000 / 100));
        }
        let seconds = self.0.as_secs();
        let (days, hours, mins, secs) = (
            seconds / 86_400,
            seconds / 3_600 % 24,
            seconds / 60 % 60,
            seconds % 60,
        );
        let mut text = String::new();
        for (number, unit) in [(days, 'd'), (hours, 'h'), (mins, 'm'), (secs, 's')] {
            if number > 0 {
                text.push_str(&format!("{number}{unit}"));
            }
        }
        f.pad(&text)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.subsec_nanos() == 0 {
            serializer.collect_str(self)
        } else {
            serializer.collect_str(&format_args!("{}ms", self.0.as_millis()))
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as `10s`, `5m`, `1h`, or a number of seconds")
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Span, E> {
                Ok(Span::secs(seconds))
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Span, E> {
                u64::try_from(seconds)
                    .map(Span::secs)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(seconds), &self))
            }

            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Span, E> {
                Duration::try_from_secs_f64(seconds)
                    .map(Span)
                    .map_err(|_| E::invalid_value(de::Unexpected::Float(seconds), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse()
                    .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration: `250ms`, `10s`, `5m`, `1h`, `1h30m`, or a plain number of seconds.",
            "oneOf": [
                { "type": "string", "pattern": r"^\s*((\d+\s*(ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?)[\s,]*)*\d+(\.\d+)?\s*(ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?)|\d+(\.\d+)?)\s*$" },
                { "type": "number", "minimum": 0 },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn span_parses_the_formats_of_users() {
        for (text, millis) in [
            ("10s", 10_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("90", 90_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("5min", 300_000),
            ("90 minutes", 5_400_000),
            ("1 d", 86_400_000),
            ("1.5d", 129_600_000),
            ("1w", 604_800_000),
            ("2d12h", 216_000_000),
            ("250ms", 250),
            ("0", 0),
            ("1.5", 1_500),
        ] {
            assert_eq!(
                text.parse::<Span>().map(|s| s.0.as_millis()),
                Ok(millis),
                "{text}"
            );
        }
        for text in [
            "",
            "s",
            "5 parsecs",
            "-1",
            "-5m",
            "5m ago",
            "1h-3",
            "5m5",
            "1mo",
            "99999999999999999999h",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn display_is_read_back(seconds in 10u64..1_000_000) {
            let span = Span::secs(seconds);
            prop_assert_eq!(span.to_string().parse::<Span>(), Ok(span));
        }
    }
}
