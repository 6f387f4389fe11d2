//! Lengths of time, as people write them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::SpanParser;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time above zero: `500ms`, `10s`, `5m`, `1h30m`, or plain
/// seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(Duration);

/// Why a text is not a length of time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration {0:?}: expected 10s, 5m, 1h or plain seconds, above zero")]
pub struct PeriodError(String);

impl Period {
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    pub fn get(self) -> Duration {
        self.0
    }
}

impl FromStr for Period {
    type Err = PeriodError;

    fn from_str(text: &str) -> Result<Self, PeriodError> {
        let wrong = || PeriodError(text.to_owned());
        let time = parse(text.trim()).ok_or_else(wrong)?;
        // Millisecond precision removes the rounding errors of the sum of floats.
        let time = Duration::from_millis(
            u64::try_from((time + Duration::from_micros(500)).as_millis()).map_err(|_| wrong())?,
        );
        if time.is_zero() {
            Err(wrong())
        } else {
            Ok(Self(time))
        }
    }
}

/// Parses plain seconds, or numbers with units, the largest first, as Vik's workflows do: `1h30m`,
/// `1.5h`, `5min`, `2 days`.
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

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, milliseconds) = (self.0.as_secs(), self.0.subsec_millis());
        match seconds {
            _ if milliseconds > 0 => write!(f, "{}ms", self.0.as_millis()),
            _ if seconds % 3600 == 0 => write!(f, "{}h", seconds / 3600),
            _ if seconds % 60 == 0 => write!(f, "{}m", seconds / 60),
            _ => write!(f, "{seconds}s"),
        }
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
            type Value = Period;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration (10s, 5m, 1h or plain seconds)")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Period, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Period, E> {
                self.visit_str(&seconds.to_string())
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Period, E> {
                self.visit_str(&seconds.to_string())
            }

            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Period, E> {
                self.visit_str(&seconds.to_string())
            }
        }
        deserializer.deserialize_any(Written)
    }
}

impl JsonSchema for Period {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "number"]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn period_accepts_each_notation() {
        let round_trip = |text: &str| text.parse::<Period>().map(|period| period.to_string());
        for (text, shown) in [
            ("10s", "10s"),
            ("90", "90s"),
            ("120", "2m"),
            ("1.5h", "90m"),
            ("1h30m", "90m"),
            ("5min", "5m"),
            ("1 d", "24h"),
            ("1.5d", "36h"),
            ("1w", "168h"),
            ("250ms", "250ms"),
        ] {
            assert_eq!(round_trip(text).unwrap(), shown);
        }
        for text in [
            "",
            "0",
            "0s",
            "-1",
            "5x",
            "s",
            "1e9999",
            "99999999999999999999h",
            "10 s 5",
        ] {
            assert!(round_trip(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn period_round_trips_through_display(millis in 1_u64..10_u64.pow(12)) {
            let period = Period(Duration::from_millis(millis));
            prop_assert_eq!(period.to_string().parse::<Period>(), Ok(period));
        }
    }
}
