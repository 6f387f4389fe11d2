//! Conversions between values and columns.

use jiff::Timestamp;
use jiff::civil::Date;
use rusqlite::Row;
use rusqlite::types::Type;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;
use vik_core::ids::{AttemptId, RunId};
use vik_core::limits::Spend;
use vik_core::money::MicroUsd;

/// Formats a time so that it sorts correctly as text.
pub(super) fn time(at: Timestamp) -> String {
    format!("{at:.9}")
}

/// Converts a counter; a value that does not fit becomes the largest number, as sums do elsewhere.
pub(super) fn count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Serializes a value as JSON.
pub(super) fn json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn text<T, E>(row: &Row<'_>, at: usize, read: impl Fn(&str) -> Result<T, E>) -> rusqlite::Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let value = row.get_ref(at)?.as_str()?;
    read(value).map_err(|error| rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(error)))
}

fn optional<T>(
    row: &Row<'_>,
    at: usize,
    read: impl Fn(&Row<'_>, usize) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    match row.get_ref(at)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => read(row, at).map(Some),
    }
}

pub(super) fn read_time(row: &Row<'_>, at: usize) -> rusqlite::Result<Timestamp> {
    text(row, at, str::parse)
}

pub(super) fn read_optional_time(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Timestamp>> {
    optional(row, at, read_time)
}

pub(super) fn read_day(row: &Row<'_>, at: usize) -> rusqlite::Result<Date> {
    text(row, at, str::parse)
}

pub(super) fn read_attempt_id(row: &Row<'_>, at: usize) -> rusqlite::Result<AttemptId> {
    text(row, at, Uuid::try_parse).map(AttemptId)
}

pub(super) fn read_optional_attempt_id(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<AttemptId>> {
    optional(row, at, read_attempt_id)
}

pub(super) fn read_run(row: &Row<'_>, at: usize) -> rusqlite::Result<RunId> {
    text(row, at, Uuid::try_parse).map(RunId)
}

pub(super) fn read_optional_run(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<RunId>> {
    optional(row, at, read_run)
}

/// Reads a name that is text in JSON too, such as an id or a variant of an enum.
pub(super) fn read_name<T: for<'a> From<&'a str>>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    Ok(row.get_ref(at)?.as_str()?.into())
}

pub(super) fn read_optional_name<T: for<'a> From<&'a str>>(
    row: &Row<'_>,
    at: usize,
) -> rusqlite::Result<Option<T>> {
    optional(row, at, read_name)
}

pub(super) fn read_json<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    text(row, at, |text| serde_json::from_str(text))
}

/// Reads a variant that is stored by its name in JSON, without the quotes.
pub(super) fn read_variant<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    text(row, at, |name| serde_json::from_value(name.into()))
}

pub(super) fn read_optional_variant<T: DeserializeOwned>(
    row: &Row<'_>,
    at: usize,
) -> rusqlite::Result<Option<T>> {
    optional(row, at, read_variant)
}

/// Reads tokens, and money from the next column.
pub(super) fn read_spend(row: &Row<'_>, at: usize) -> rusqlite::Result<Spend> {
    let number = |at| row.get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(Spend {
        tokens: number(at)?,
        usd: MicroUsd(number(at + 1)?),
    })
}
