//! Formats points in time for people: in the local time zone, with its offset. JSON has UTC.

use std::sync::OnceLock;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

static TIME_ZONE: OnceLock<TimeZone> = OnceLock::new();

/// Sets the time zone of this process for [`date_time`] and the others, which use UTC otherwise.
/// Only the first call has an effect.
pub fn set_time_zone(zone: TimeZone) {
    let _ = TIME_ZONE.set(zone);
}

/// Formats a point in time in full: `2026-11-26 14:43:12 +01:00`.
///
/// # Examples
///
/// ```
/// use vik_base::report::date_time;
///
/// let at = "2026-11-26T13:43:12.5Z".parse().unwrap();
/// assert_eq!(date_time(at), "2026-11-26 13:43:12 +00:00");
/// ```
pub fn date_time(at: Timestamp) -> String {
    local(at).strftime("%F %T %:z").to_string()
}

/// Formats the day with the offset from UTC at that time, as a heading of lines with
/// [`clock_time`]: `2026-11-26 (+01:00)`.
pub fn day_heading(at: Timestamp) -> String {
    local(at).strftime("%F (%:z)").to_string()
}

/// Formats the time of day, for a line below a heading with the day and the offset: `14:43:12`.
pub fn clock_time(at: Timestamp) -> String {
    local(at).strftime("%T").to_string()
}

/// Formats the offset from UTC: `+01:00`.
pub fn utc_offset(at: Timestamp) -> String {
    local(at).strftime("%:z").to_string()
}

/// Returns the offset from UTC that all these points in time have, for the heading of their column.
pub fn shared_offset(times: impl IntoIterator<Item = Timestamp>) -> Option<String> {
    let mut offsets = times.into_iter().map(utc_offset);
    let first = offsets.next()?;
    offsets.all(|offset| offset == first).then_some(first)
}

/// Replaces the points in time of a sentence, which records and JSON have in UTC as
/// `2026-11-26T13:43:12Z`, by the form of [`date_time`].
///
/// # Examples
///
/// ```
/// use vik_base::report::with_local_times;
///
/// let text = with_local_times("denied at 2026-11-26T13:43:12.5Z.");
/// assert_eq!(text, "denied at 2026-11-26 13:43:12 +00:00.");
/// ```
pub fn with_local_times(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.');
    for piece in text.split_inclusive(|c| !is_part(c)) {
        let time = piece.trim_end_matches(|c| !is_part(c) || c == '.');
        match time.parse().ok().filter(|_: &Timestamp| time.ends_with('Z')) {
            Some(at) => {
                out.push_str(&date_time(at));
                out.push_str(&piece[time.len()..]);
            }
            None => out.push_str(piece),
        }
    }
    out
}

fn local(at: Timestamp) -> Zoned {
    at.to_zoned(TIME_ZONE.get().cloned().unwrap_or(TimeZone::UTC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local_with_the_offset_of_their_day() {
        set_time_zone(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
        let summer: Timestamp = "2026-07-01T22:30:00.9Z".parse().unwrap();
        let winter: Timestamp = "2026-11-26T13:43:12Z".parse().unwrap();
        assert_eq!(date_time(summer), "2026-07-02 00:30:00 +02:00");
        assert_eq!(date_time(winter), "2026-11-26 14:43:12 +01:00");
        assert_eq!(day_heading(summer), "2026-07-02 (+02:00)");
        assert_eq!(clock_time(winter), "14:43:12");
        assert_eq!(utc_offset(winter), "+01:00");
        assert_eq!(shared_offset([winter, winter]).as_deref(), Some("+01:00"));
        assert_eq!(shared_offset([winter, summer]), None);
        let mixed = "ü 2026-07-01T22:30:00Z (2026-11-26T13:43:12.25Z) 2026-11-26T13:43:12+01:00 99Z Z.";
        assert_eq!(
            with_local_times(mixed),
            "ü 2026-07-02 00:30:00 +02:00 (2026-11-26 14:43:12 +01:00) 2026-11-26T13:43:12+01:00 99Z Z."
        );
    }
}
