//! Conversions between values and columns.

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::Offset;
use rusqlite::Row;
use rusqlite::types::Type;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, StrDeserializer};
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
    read(read_text(row, at)?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(error)))
}

pub(super) fn optional<T>(
    row: &Row<'_>,
    at: usize,
    read: impl Fn(&Row<'_>, usize) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    match row.get_ref(at)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => read(row, at).map(Some),
    }
}

pub(super) fn read_text<'a>(row: &'a Row<'_>, at: usize) -> rusqlite::Result<&'a str> {
    Ok(row.get_ref(at)?.as_str()?)
}

pub(super) fn read_time(row: &Row<'_>, at: usize) -> rusqlite::Result<Timestamp> {
    text(row, at, |text| {
        fixed_time(text.as_bytes()).map_or_else(|| text.parse(), Ok)
    })
}

/// Parses a time in the form that [`time`] writes; `None` if it has another form. The general parser
/// takes several times as long, which counts in a query for many rows.
fn fixed_time(text: &[u8]) -> Option<Timestamp> {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000000000Z";
    let mut numbers = [0_i32; 7];
    let mut index = 0;
    if text.len() != FORM.len() {
        return None;
    }
    for (byte, form) in text.iter().zip(FORM) {
        if *form == b'0' {
            let digit = byte.is_ascii_digit().then(|| i32::from(byte - b'0'))?;
            numbers[index] = numbers[index] * 10 + digit;
        } else if byte == form {
            index += 1;
        } else {
            return None;
        }
    }
    let [year, month, day, hour, minute, second, nanosecond] = numbers;
    let small = |number: i32| i8::try_from(number).ok();
    let date = Date::new(i16::try_from(year).ok()?, small(month)?, small(day)?).ok()?;
    let time = Time::new(small(hour)?, small(minute)?, small(second)?, nanosecond).ok()?;
    Offset::UTC.to_timestamp(date.to_datetime(time)).ok()
}

pub(super) fn read_day(row: &Row<'_>, at: usize) -> rusqlite::Result<Date> {
    text(row, at, str::parse)
}

pub(super) fn read_attempt_id(row: &Row<'_>, at: usize) -> rusqlite::Result<AttemptId> {
    text(row, at, Uuid::try_parse).map(AttemptId)
}

pub(super) fn read_run(row: &Row<'_>, at: usize) -> rusqlite::Result<RunId> {
    text(row, at, Uuid::try_parse).map(RunId)
}

/// Reads a name that is text in JSON too, such as an id or a variant of an enum.
pub(super) fn read_name<T: for<'a> From<&'a str>>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    Ok(read_text(row, at)?.into())
}

pub(super) fn read_json<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    text(row, at, |text| serde_json::from_str(text))
}

/// Reads a variant that is stored by its name in JSON, without the quotes.
pub(super) fn read_variant<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    text(row, at, |name| {
        T::deserialize(StrDeserializer::<ValueError>::new(name))
    })
}

/// Reads tokens, and money from the next column.
pub(super) fn read_spend(row: &Row<'_>, at: usize) -> rusqlite::Result<Spend> {
    let number = |at| row.get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(Spend {
        tokens: number(at)?,
        usd: MicroUsd(number(at + 1)?),
    })
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn written_time_is_read_without_the_general_parser(second in 0..253_000_000_000_i64, nanos in 0..1_000_000_000_i32) {
            let at = Timestamp::UNIX_EPOCH + SignedDuration::new(second, nanos);
            prop_assert_eq!(fixed_time(time(at).as_bytes()), Some(at));
        }

        #[test]
        fn fixed_time_agrees_with_the_general_parser(text in "20[0-9]{2}-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9][.][0-9]{9}[Z+]") {
            if let Some(at) = fixed_time(text.as_bytes()) {
                prop_assert_eq!(text.parse::<Timestamp>().ok(), Some(at));
            }
        }
    }
}
