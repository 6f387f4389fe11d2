//! When a daily summary is due, and which time span it covers.

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use vik_core::workflow::TimeOfDay;

/// What to do about the daily summary now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Daily {
    Wait,
    /// The day is recorded without a summary.
    Remember(Date),
    /// The summary of this day is due.
    Due {
        day: Date,
        /// The start of its time span.
        since: Timestamp,
        /// The end of its time span.
        until: Timestamp,
    },
}

/// Returns whether a summary is due. `last` is the last day that was summarized or recorded.
/// However the clock jumps, each day is summarized at most once; of several missed days, only the
/// latest is.
pub(super) fn check(now: Timestamp, zone: &TimeZone, at: TimeOfDay, last: Option<Date>) -> Daily {
    latest(now, zone, at).map_or(Daily::Wait, |(day, since, until)| match last {
        // The first check: earlier days are not summarized.
        None => Daily::Remember(day),
        Some(last) if last < day => Daily::Due { day, since, until },
        // The clock was set back by several days: resume from this day.
        Some(last) if last > day && last.yesterday().ok() != Some(day) => Daily::Remember(day),
        Some(_) => Daily::Wait,
    })
}

/// Returns the latest day whose time has come, with its time span.
fn latest(now: Timestamp, zone: &TimeZone, at: TimeOfDay) -> Option<(Date, Timestamp, Timestamp)> {
    let today = now.to_zoned(zone.clone()).date();
    let day = if now >= instant(today, zone, at)? {
        today
    } else {
        today.yesterday().ok()?
    };
    let since = instant(day.yesterday().ok()?, zone, at)?;
    Some((day, since, instant(day, zone, at)?))
}

/// Returns the time of day on this day. If the clock is put forward over it, returns the first
/// instant after that.
fn instant(day: Date, zone: &TimeZone, at: TimeOfDay) -> Option<Timestamp> {
    let (hour, minute) = at.hour_minute();
    let time = Time::new(hour, minute, 0, 0).ok()?;
    let zoned = day.to_datetime(time).to_zoned(zone.clone()).ok()?;
    Some(zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> TimeOfDay {
        text.to_owned().try_into().unwrap()
    }

    fn check_utc(now: &str, last: Option<&str>) -> Daily {
        let last = last.map(|day| day.parse().unwrap());
        check(now.parse().unwrap(), &TimeZone::UTC, at("08:00"), last)
    }

    #[test]
    fn daily_summary_is_due_once_at_its_time() {
        let day = |text: &str| text.parse::<Date>().unwrap();
        assert_eq!(
            check_utc("2026-03-04T07:00:00Z", None),
            Daily::Remember(day("2026-03-03"))
        );
        assert_eq!(
            check_utc("2026-03-04T09:00:00Z", None),
            Daily::Remember(day("2026-03-04"))
        );
        assert_eq!(check_utc("2026-03-04T07:59:59Z", Some("2026-03-03")), Daily::Wait);
        let due = Daily::Due {
            day: day("2026-03-04"),
            since: "2026-03-03T08:00:00Z".parse().unwrap(),
            until: "2026-03-04T08:00:00Z".parse().unwrap(),
        };
        assert_eq!(check_utc("2026-03-04T08:00:00Z", Some("2026-03-03")), due);
        assert_eq!(
            check_utc("2026-03-04T23:00:00Z", Some("2026-02-01")),
            due,
            "late, and only the latest"
        );
        assert_eq!(check_utc("2026-03-04T08:00:01Z", Some("2026-03-04")), Daily::Wait);
        assert!(
            matches!(
                check_utc("2026-03-04T07:00:00Z", Some("2026-03-01")),
                Daily::Due { day: due, .. } if due == day("2026-03-03")
            ),
            "late, before the next one"
        );
        assert_eq!(
            check_utc("2026-03-03T09:00:00Z", Some("2026-03-04")),
            Daily::Wait,
            "a little back"
        );
        assert_eq!(
            check_utc("2026-03-03T09:00:00Z", Some("2027-01-01")),
            Daily::Remember(day("2026-03-03")),
            "far back"
        );
    }

    proptest! {
        /// Whatever the clock does, two summaries are never sent without a change of the day
        /// between them.
        #[test]
        fn clock_jump_sends_at_most_one_summary_a_day(jumps in prop::collection::vec(-200_000i64..400_000, 1..60)) {
            let mut now: Timestamp = "2026-03-04T07:00:00Z".parse().unwrap();
            let mut last = None;
            let mut sent = Vec::new();
            for jump in jumps {
                now += jiff::SignedDuration::from_secs(jump);
                for _ in 0..3 {
                    match check(now, &TimeZone::UTC, at("08:00"), last) {
                        Daily::Wait => {}
                        Daily::Remember(day) => last = Some(day),
                        Daily::Due { day, since, until } => {
                            prop_assert!(since < until && until <= now);
                            last = Some(day);
                            sent.push(now);
                        }
                    }
                }
            }
            prop_assert!(sent.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }
}
