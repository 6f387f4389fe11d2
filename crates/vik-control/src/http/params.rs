//! The types of query parameters. Each accepts what its pattern in the OpenAPI document allows.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use vik_core::event::EventKind;
use vik_core::outcome::Outcome;

use crate::PointInTime;
use crate::daemon_log::LogCursor;

/// Implements [`JsonSchema`] with this schema, which is part of the schema of the parameters.
macro_rules! inline_schema {
    ($type:ident, $schema:expr) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

/// Returns the schema of names that are separated by commas.
fn listed(name: &str) -> Schema {
    json_schema!({"type": "string", "pattern": format!("^({name})(,({name}))*$")})
}

/// The maximum number of items per page: 1 to 1000.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u32")]
pub struct Limit(u32);

impl TryFrom<u32> for Limit {
    type Error = &'static str;

    fn try_from(limit: u32) -> Result<Self, Self::Error> {
        match limit {
            1..=1000 => Ok(Self(limit)),
            _ => Err("`limit` must be a number from 1 to 1000"),
        }
    }
}

impl Limit {
    pub fn or(limit: Option<Self>, default: u32) -> u32 {
        limit.map_or(default, |limit| limit.0)
    }
}

inline_schema!(
    Limit,
    json_schema!({"type": "integer", "format": "uint32", "minimum": 1, "maximum": 1000})
);

/// A point in time: a duration before now (`24h`, `1w`), a day, or a time (RFC 3339).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub struct TimeParam(pub PointInTime);

static TIME_FORM: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(TIME).ok());

/// The days of each month, and the last of February in leap years.
const TIME: &str = "^([1-9][0-9]{0,3}[smhdw]|today|yesterday\
    |(20[0-9]{2}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)\
    |20([02468][048]|[13579][26])-02-29)(T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z)?)$";

impl TryFrom<Cow<'_, str>> for TimeParam {
    type Error = &'static str;

    fn try_from(text: Cow<'_, str>) -> Result<Self, Self::Error> {
        let is_valid = TIME_FORM.as_ref().is_some_and(|form| form.is_match(&text));
        is_valid.then(|| text.parse().ok()).flatten().map(Self).ok_or(
            "a time must be a duration (`24h`, `1w`), `today`, `yesterday`, a date (`2026-03-01`), or a time \
             (`2026-03-01T12:00:00Z`)",
        )
    }
}

inline_schema!(TimeParam, json_schema!({"type": "string", "pattern": TIME}));

/// The `next` of a page of the log.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub struct CursorParam(pub LogCursor);

impl TryFrom<Cow<'_, str>> for CursorParam {
    type Error = &'static str;

    fn try_from(text: Cow<'_, str>) -> Result<Self, Self::Error> {
        let cursor = LogCursor::parse(&text).map(Self);
        cursor.ok_or("`before` must be the `next` of another page")
    }
}

inline_schema!(
    CursorParam,
    json_schema!({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}:[0-9]{1,19}$"})
);

/// One or more outcomes, separated by commas.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub struct OutcomesParam(pub Vec<Outcome>);

impl TryFrom<Cow<'_, str>> for OutcomesParam {
    type Error = String;

    fn try_from(text: Cow<'_, str>) -> Result<Self, Self::Error> {
        let outcomes = text.split(',').map(|name| {
            Outcome::from_name(name).ok_or_else(|| format!("`{name}` is not an outcome; use {}", names(", ")))
        });
        outcomes.collect::<Result<_, _>>().map(Self)
    }
}

inline_schema!(OutcomesParam, listed(&names("|")));

fn names(separator: &str) -> String {
    let names: Vec<_> = Outcome::ALL.iter().map(|outcome| outcome.as_str()).collect();
    names.join(separator)
}

/// One or more kinds of events, separated by commas.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "Cow<'_, str>")]
pub struct KindsParam(pub Vec<EventKind>);

impl TryFrom<Cow<'_, str>> for KindsParam {
    type Error = String;

    fn try_from(text: Cow<'_, str>) -> Result<Self, Self::Error> {
        let kinds = text.split(',').map(|name| {
            let unknown = || format!("`{name}` is no kind of event; use {}", kind_names(", "));
            EventKind::from_name(name).ok_or_else(unknown)
        });
        kinds.collect::<Result<_, _>>().map(Self)
    }
}

inline_schema!(KindsParam, listed(&kind_names("|")));

fn kind_names(separator: &str) -> String {
    let names: Vec<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    names.join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_accepts_each_day_of_the_calendar_and_no_other() {
        let is_valid = |text: &str| TimeParam::try_from(Cow::Borrowed(text)).is_ok();
        let first: jiff::civil::Date = "2027-01-01".parse().unwrap();
        for day in first.series(jiff::ToSpan::days(1)).take(2 * 366) {
            assert!(is_valid(&day.to_string()), "{day}");
        }
        for other in [
            "2027-02-29",
            "2028-02-30",
            "2027-04-31",
            "2027-13-01",
            "2027-01-00",
        ] {
            assert!(!is_valid(other), "{other}");
        }
        assert!(is_valid("2026-12-31T23:59:59Z"));
    }
}
