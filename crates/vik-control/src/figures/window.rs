//! A time span that is divided into equal parts.

use std::time::Duration;

use jiff::Timestamp;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// The first Monday of the epoch. Weeks start on Monday.
const MONDAY: i64 = 4 * DAY;

/// The length of a part for each maximum length of the time span.
const PART_LENGTHS: [(i64, i64); 4] = [
    (3 * HOUR, 5 * MINUTE),
    (2 * DAY, HOUR),
    (62 * DAY, DAY),
    (434 * DAY, WEEK),
];

/// The maximum number of parts of a series, whatever the caller requests.
const MAX_PARTS: i64 = 1000;

/// A time span and the length of the parts of its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    since: Timestamp,
    until: Timestamp,
    part_ms: i64,
}

impl Window {
    /// Creates a window from `since` to `until`, exclusive. Without `part`, the length of the span
    /// selects parts of five minutes, an hour, a day or weeks. Parts that are too short are made
    /// longer.
    pub fn new(since: Timestamp, until: Timestamp, part: Option<Duration>) -> Self {
        let since = since.min(until);
        let length = until.as_millisecond().saturating_sub(since.as_millisecond());
        let requested = part.map(|part| i64::try_from(part.as_millis()).unwrap_or(i64::MAX).max(1000));
        let mut part_ms = requested.unwrap_or_else(|| default_part_ms(length));
        if length / part_ms >= MAX_PARTS {
            part_ms = part_ms.saturating_mul(length / part_ms / MAX_PARTS + 1);
        }
        Self {
            since,
            until,
            part_ms,
        }
    }

    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// Returns the end of the span, which is exclusive.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// Returns the length of a part, in milliseconds.
    pub fn part_ms(&self) -> u64 {
        self.part_ms.unsigned_abs()
    }

    /// Returns the start times of the parts, oldest first: at least one.
    pub fn parts(&self) -> Vec<Timestamp> {
        let last = self.number(
            self.until
                .as_millisecond()
                .saturating_sub(1)
                .max(self.since.as_millisecond()),
        );
        (self.number(self.since.as_millisecond())..=last)
            .map(|number| self.start_of(number))
            .collect()
    }

    /// Returns the index in [`parts`](Self::parts) of the part that contains a time. A time outside
    /// of the window belongs to the nearest part.
    pub fn part_index(&self, at: Timestamp) -> usize {
        let from = self.number(self.since.as_millisecond());
        let last = self.until.as_millisecond().saturating_sub(1);
        let at = at.as_millisecond().min(last);
        usize::try_from(self.number(at) - from).unwrap_or(0)
    }

    fn origin(&self) -> i64 {
        if self.part_ms % WEEK == 0 { MONDAY } else { 0 }
    }

    fn number(&self, millis: i64) -> i64 {
        (millis - self.origin()).div_euclid(self.part_ms)
    }

    fn start_of(&self, number: i64) -> Timestamp {
        let millis = number.saturating_mul(self.part_ms).saturating_add(self.origin());
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MIN)
    }
}

fn default_part_ms(length: i64) -> i64 {
    let entry = PART_LENGTHS.iter().find(|(max, _)| length <= *max);
    // For years: as many weeks as give about sixty parts.
    entry.map_or_else(|| WEEK * (length / (60 * WEEK) + 1), |(_, part)| *part)
}
