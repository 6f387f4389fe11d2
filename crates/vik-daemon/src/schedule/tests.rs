//! Tests of when entries are due: over a year, at both clock changes, after jumps and after
//! restarts.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use vik_api::{LastRun, ScheduleResult};
use vik_core::workflow::ScheduleEntry;

use super::{Due, ScheduleState, Timing};

fn entry(cron: &str, zone: &str) -> ScheduleEntry {
    ScheduleEntry {
        cron: cron.to_owned(),
        time_zone: zone.to_owned(),
        job: None,
        catch_up: false,
    }
}

fn timing(cron: &str, zone: &str) -> Timing {
    Timing::of(&entry(cron, zone)).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Returns the next times, in UTC.
fn next(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let timing = timing(cron, zone);
    let mut now = at(after);
    (0..count)
        .map(|_| {
            now = timing.next(now).unwrap();
            now.to_string()
        })
        .collect()
}

#[test]
fn patterns_follow_the_clock_of_their_zone() {
    let berlin = next("0 3 * * *", "Europe/Berlin", "2026-01-10T12:00:00Z", 2);
    assert_eq!(berlin, ["2026-01-11T02:00:00Z", "2026-01-12T02:00:00Z"]);
    let summer = next("0 3 * * *", "Europe/Berlin", "2026-07-10T12:00:00Z", 1);
    assert_eq!(summer, ["2026-07-11T01:00:00Z"]);
    let weekdays = next("30 9 * * MON-FRI", "UTC", "2026-01-09T12:00:00Z", 1);
    assert_eq!(weekdays, ["2026-01-12T09:30:00Z"]);
    let seconds = next("*/20 * * * * *", "UTC", "2026-01-09T12:00:00.5Z", 2);
    assert_eq!(seconds, ["2026-01-09T12:00:20Z", "2026-01-09T12:00:40Z"]);
    assert_eq!(
        timing("0 0 0 1 1 * 2027", "UTC").next(at("2027-06-01T00:00:00Z")),
        None
    );
}

/// On 2026-03-29 in Berlin, 01:59:59 is followed by 03:00:00.
#[test]
fn dst_start_neither_skips_nor_repeats_a_run() {
    let fixed = next("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
    assert_eq!(fixed, ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
    // Also when it is checked just after it ran.
    let after = next("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00.2Z", 1);
    assert_eq!(after, ["2026-03-30T00:30:00Z"]);
    let hourly = next("15 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3);
    assert_eq!(
        hourly,
        [
            "2026-03-29T00:15:00Z",
            "2026-03-29T01:15:00Z",
            "2026-03-29T02:15:00Z"
        ]
    );
}

/// On 2026-10-25 in Berlin, 02:59:59 is followed by 02:00:00.
#[test]
fn dst_end_runs_a_fixed_time_once_and_continues_intervals() {
    let fixed = next("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
    assert_eq!(fixed, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    let between = next("30 2 * * *", "Europe/Berlin", "2026-10-25T01:00:00Z", 1);
    assert_eq!(between, ["2026-10-26T01:30:00Z"]);
    let hourly = next("15 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 4);
    assert_eq!(
        hourly,
        [
            "2026-10-25T00:15:00Z",
            "2026-10-25T01:15:00Z",
            "2026-10-25T02:15:00Z",
            "2026-10-25T03:15:00Z"
        ]
    );
}

#[test]
fn late_run_starts_and_missed_run_is_reported_or_caught_up() {
    let mut timing = timing("0 3 * * *", "UTC");
    let settled = at("2026-01-10T12:00:00Z");
    let check = |timing: &Timing, now: &str| timing.due(settled, at(now));
    let due = at("2026-01-11T03:00:00Z");
    assert_eq!(check(&timing, "2026-01-11T02:59:59.9Z"), Due::Wait(Some(due)));
    assert_eq!(check(&timing, "2026-01-11T03:00:00Z"), Due::Run(due));
    assert_eq!(check(&timing, "2026-01-11T03:01:59Z"), Due::Run(due));
    assert_eq!(check(&timing, "2026-01-14T12:00:00Z"), Due::Missed(due));
    assert_eq!(
        check(&timing, "2026-01-14T03:00:30Z"),
        Due::Run(at("2026-01-14T03:00:00Z"))
    );
    timing.catch_up = true;
    assert_eq!(check(&timing, "2026-01-14T12:00:00Z"), Due::Run(due));
    assert_eq!(check(&timing, "2026-01-09T13:00:00Z"), Due::Wait(Some(due)));
    assert_eq!(check(&timing, "2026-01-09T11:00:00Z"), Due::ClockWentBack);
}

#[test]
fn state_survives_a_restart_and_resets_on_a_new_pattern() {
    let folder = tempfile::tempdir().unwrap();
    let (monday, friday) = (at("2026-01-05T00:00:00Z"), at("2026-01-09T00:00:00Z"));
    let entries = |cron: &str| BTreeMap::from([("n".to_owned(), entry(cron, "UTC"))]);
    let mut book = ScheduleState::read(folder.path()).unwrap();
    book.apply_entries(&entries("@daily"), monday);
    let record = book.entries.get_mut("n").unwrap();
    record.last = Some(LastRun {
        due_at: monday,
        started_at: monday,
        ended_at: None,
        result: ScheduleResult::Running,
        detail: None,
    });
    book.write(folder.path()).unwrap();
    let mut reread = ScheduleState::read(folder.path()).unwrap();
    assert_eq!(reread, book);
    reread.end_running();
    reread.apply_entries(&entries("@daily"), friday);
    let record = &reread.entries["n"];
    assert_eq!(record.settled, monday);
    assert_eq!(record.last.as_ref().unwrap().result, ScheduleResult::Stopped);
    reread.apply_entries(&entries("@hourly"), friday);
    assert_eq!(reread.entries["n"].settled, friday);
    reread.apply_entries(&BTreeMap::new(), friday);
    assert!(reread.entries.is_empty());
    std::fs::write(folder.path().join("schedule.json"), "{").unwrap();
    assert!(ScheduleState::read(folder.path()).is_err());
}

fn patterns() -> impl Strategy<Value = (&'static str, &'static str)> {
    let crons = prop::sample::select(vec![
        "* * * * *",
        "*/7 * * * *",
        "30 2 * * *",
        "0 0-4 * * *",
        "@hourly",
        "*/13 * * * * *",
        "0 3 * * SUN",
    ]);
    let zones = prop::sample::select(vec![
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
    ]);
    (crons, zones)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Checks at random times, with a clock that jumps both ways and daemons that die: no time runs
    /// twice, and none runs early.
    #[test]
    fn due_time_never_runs_twice_or_early(
        (cron, zone) in patterns(),
        start in 1_767_225_600_i64..1_798_761_600,
        steps in proptest::collection::vec(-40_000_i64..90_000, 1..40),
        catch_up in any::<bool>(),
    ) {
        let mut timing = timing(cron, zone);
        timing.catch_up = catch_up;
        let mut now = Timestamp::from_second(start).unwrap();
        // The clock never goes back by a whole day: a larger jump means that the clock was wrong
        // before.
        let mut latest = now;
        let mut settled = now;
        let mut ran: Vec<Timestamp> = Vec::new();
        for step in steps {
            let next = now + SignedDuration::from_millis(step * 20);
            now = next.max(latest - SignedDuration::from_hours(23));
            latest = latest.max(now);
            match timing.due(settled, now) {
                Due::Wait(next) => prop_assert!(next.is_some_and(|next| next > now)),
                Due::Run(at) => {
                    prop_assert!(at <= now && at > settled);
                    prop_assert!(ran.last().is_none_or(|last| at > *last), "{at} after {ran:?}");
                    ran.push(at);
                    settled = now;
                }
                Due::Missed(at) => {
                    prop_assert!(!catch_up && at <= now && at > settled);
                    settled = now;
                }
                Due::ClockWentBack => prop_assert!(false),
            }
        }
    }

    /// A check at each due time runs every time of the pattern, in order.
    #[test]
    fn punctual_checks_miss_no_due_time(
        (cron, zone) in patterns(),
        start in 1_767_225_600_i64..1_798_761_600,
        late_ms in 0_i64..900,
    ) {
        let timing = timing(cron, zone);
        let mut settled = Timestamp::from_second(start).unwrap();
        for _ in 0..50 {
            let due = timing.next(settled).unwrap();
            prop_assert!(due > settled);
            let now = due + SignedDuration::from_millis(late_ms);
            prop_assert_eq!(timing.due(settled, now), Due::Run(due));
            settled = now;
        }
    }
}
