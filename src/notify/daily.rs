//! When the daily summary is made, and of what.

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use vik_core::workflow::TimeOfDay;

/// The time zone with this name. UTC is known everywhere, the others where the system has a database of them.
pub fn zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    TimeZone::get(name).ok()
}

/// What follows from the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Daily {
    /// Nothing until then.
    Wait,
    /// This is remembered, and nothing is told.
    Remember(Date),
    /// The summary of this day is made.
    Due {
        /// The day.
        day: Date,
        /// From when.
        since: Timestamp,
        /// Until when.
        until: Timestamp,
    },
}

/// Whether it is time. `last` is the last day that was told or is not to be told. However the clock jumps, a day is told
/// once at most, and of days that were missed the latest is told late.
pub(super) fn check(now: Timestamp, zone: &TimeZone, at: TimeOfDay, last: Option<Date>) -> Daily {
    latest(now, zone, at).map_or(Daily::Wait, |(day, since, until)| match last {
        // The first look: what was before it is nobody's business.
        None => Daily::Remember(day),
        Some(last) if last < day => Daily::Due { day, since, until },
        // The clock was set back by days: go on from here.
        Some(last) if last > day && last.yesterday().ok() != Some(day) => Daily::Remember(day),
        Some(_) => Daily::Wait,
    })
}

/// The latest day whose time has come, and the span that is its.
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

/// When it is that time on a day; where the clock is put forward over it, right after.
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

    fn look_utc(now: &str, last: Option<&str>) -> Daily {
        let last = last.map(|day| day.parse().unwrap());
        check(now.parse().unwrap(), &TimeZone::UTC, at("08:00"), last)
    }

    #[test]
    fn a_day_is_told_when_it_is_time_and_once() {
        let day = |text: &str| text.parse::<Date>().unwrap();
        assert_eq!(
            look_utc("2026-03-04T07:00:00Z", None),
            Daily::Remember(day("2026-03-03"))
        );
        assert_eq!(
            look_utc("2026-03-04T09:00:00Z", None),
            Daily::Remember(day("2026-03-04"))
        );
        assert_eq!(look_utc("2026-03-04T07:59:59Z", Some("2026-03-03")), Daily::Wait);
        let told = Daily::Due {
            day: day("2026-03-04"),
            since: "2026-03-03T08:00:00Z".parse().unwrap(),
            until: "2026-03-04T08:00:00Z".parse().unwrap(),
        };
        assert_eq!(look_utc("2026-03-04T08:00:00Z", Some("2026-03-03")), told);
        assert_eq!(
            look_utc("2026-03-04T23:00:00Z", Some("2026-02-01")),
            told,
            "late, and only the latest"
        );
        assert_eq!(look_utc("2026-03-04T08:00:01Z", Some("2026-03-04")), Daily::Wait);
        assert!(
            matches!(
                look_utc("2026-03-04T07:00:00Z", Some("2026-03-01")),
                Daily::Due { day: told, .. } if told == day("2026-03-03")
            ),
            "late, before the next one"
        );
        assert_eq!(
            look_utc("2026-03-03T09:00:00Z", Some("2026-03-04")),
            Daily::Wait,
            "a little back"
        );
        assert_eq!(
            look_utc("2026-03-03T09:00:00Z", Some("2027-01-01")),
            Daily::Remember(day("2026-03-03")),
            "far back"
        );
    }

    proptest! {
        /// Over any walk of the clock, a summary follows another one only after the day changed.
        #[test]
        fn no_jump_of_the_clock_sends_many(jumps in prop::collection::vec(-200_000i64..400_000, 1..60)) {
            let mut now: Timestamp = "2026-03-04T07:00:00Z".parse().unwrap();
            let mut last = None;
            let mut told = Vec::new();
            for jump in jumps {
                now += jiff::SignedDuration::from_secs(jump);
                for _ in 0..3 {
                    match check(now, &TimeZone::UTC, at("08:00"), last) {
                        Daily::Wait => {}
                        Daily::Remember(day) => last = Some(day),
                        Daily::Due { day, since, until } => {
                            prop_assert!(since < until && until <= now);
                            last = Some(day);
                            told.push(now);
                        }
                    }
                }
            }
            prop_assert!(told.windows(2).all(|two| two[0] != two[1]));
        }
    }
}
