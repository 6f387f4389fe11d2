//! A span of time in equal parts.

use std::time::Duration;

use jiff::Timestamp;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// The first Monday of the epoch: weeks begin on it.
const MONDAY: i64 = 4 * DAY;

/// How long parts are, for spans of at most so long.
const LADDER: [(i64, i64); 4] = [
    (3 * HOUR, 5 * MINUTE),
    (2 * DAY, HOUR),
    (62 * DAY, DAY),
    (434 * DAY, WEEK),
];

/// A series never has more parts than this, whoever asks for it.
const MOST_PARTS: i64 = 1000;

/// A span of time and the length of the parts that its series has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    since: Timestamp,
    until: Timestamp,
    part_ms: i64,
}

impl Window {
    /// From `since` to `until`, which is left out. Without a wish, parts are of five minutes, an hour, a day or weeks, as the
    /// span asks for; too short ones are made longer.
    pub fn new(since: Timestamp, until: Timestamp, part: Option<Duration>) -> Self {
        let since = since.min(until);
        let long = until.as_millisecond().saturating_sub(since.as_millisecond());
        let wish = part.map(|part| i64::try_from(part.as_millis()).unwrap_or(i64::MAX).max(1000));
        let mut part_ms = wish.unwrap_or_else(|| fitting(long));
        if long / part_ms >= MOST_PARTS {
            part_ms = part_ms.saturating_mul(long / part_ms / MOST_PARTS + 1);
        }
        Self {
            since,
            until,
            part_ms,
        }
    }

    /// From when.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// Until when; the time itself is not in it.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// How long a part is, in milliseconds.
    pub fn part_ms(&self) -> u64 {
        self.part_ms.unsigned_abs()
    }

    /// Where the parts begin, oldest first: at least one.
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

    /// Which part of [`parts`](Self::parts) a time falls into; times outside fall into the nearest one.
    pub fn place(&self, at: Timestamp) -> usize {
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

fn fitting(long: i64) -> i64 {
    let rung = LADDER.iter().find(|(most, _)| long <= *most);
    // Years: as many weeks as make some sixty parts.
    rung.map_or_else(|| WEEK * (long / (60 * WEEK) + 1), |(_, part)| *part)
}
