use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use uuid::Uuid;
use vik_api::{Figures, ReportView};
use vik_core::ids::RunId;
use vik_core::limits::Spend;
use vik_core::money::MicroUsd;
use vik_core::outcome::{FailureClass, Outcome};
use vik_store::ledger::{EndedFigures, StoredFigures, StoredRun};

use super::*;

/// Returns the time at these minutes after midnight (UTC) on a Wednesday.
fn at(minutes: i64) -> Timestamp {
    let midnight: Timestamp = "2026-03-04T00:00:00Z".parse().unwrap();
    midnight + SignedDuration::from_mins(minutes)
}

fn run(number: u64) -> RunId {
    RunId(Uuid::from_u64_pair(1, number))
}

/// Returns an attempt for a run. Its number determines issue, stage and agent.
fn attempt(number: u64, started: i64, ended: Option<(i64, Outcome)>) -> StoredFigures {
    StoredFigures {
        run: run(number),
        issue: (&*format!("issue-{}", number / 2)).into(),
        stage: if number.is_multiple_of(2) { "plan" } else { "work" }.into(),
        agent: if number.is_multiple_of(3) { "codex" } else { "vex" }.into(),
        started_at: at(started),
        ended: ended.map(|(minute, outcome)| EndedFigures {
            at: at(minute),
            outcome,
            failure_class: (outcome == Outcome::Failed).then_some(FailureClass::Network),
            charged: Spend {
                tokens: 100,
                usd: MicroUsd(250_001),
            },
            estimated: Spend::default(),
        }),
    }
}

fn stored_run(number: u64, over: Option<(i64, bool)>) -> StoredRun {
    StoredRun {
        id: run(number),
        issue: (&*format!("issue-{}", number / 2)).into(),
        stage: "plan".into(),
        attempts: 1,
        phase: if over.is_some() { "over" } else { "parked" }.to_owned(),
        over_at: over.map(|(minute, _)| at(minute)),
        succeeded: over.map(|(_, succeeded)| succeeded),
    }
}

fn day() -> Window {
    Window::new(at(0), at(24 * 60), None)
}

#[test]
fn empty_history_gives_zero_figures() {
    let report = report(None, day()).unwrap();
    assert_eq!((report.total, report.issues), (Figures::default(), 0));
    assert_eq!(report.cost_per_succeeded_issue_usd, None);
    assert_eq!((report.series.len(), report.part_ms), (24, 3_600_000));
    assert_eq!(report.series[0].at, at(0));
}

#[test]
fn attempts_are_counted_by_their_start_time() {
    let attempts = [
        attempt(0, -1, Some((5, Outcome::Succeeded))),
        attempt(0, 0, Some((10, Outcome::Failed))),
        attempt(0, 20, Some((50, Outcome::Succeeded))),
        attempt(1, 70, Some((90, Outcome::Lost))),
        attempt(2, 100, None),
        attempt(3, 1439, Some((1441, Outcome::Succeeded))),
        attempt(3, 1440, None),
    ];
    let report = figures(&attempts, &[], day());
    let total = report.total;
    assert_eq!((total.runs, total.attempts), (4, 5));
    assert_eq!(
        (total.succeeded, total.failed),
        (1, 2),
        "one ended after the span"
    );
    assert_eq!(total.duration_ms, 60 * 60_000);
    assert_eq!(total.median_duration_ms, Some(20 * 60_000));
    assert_eq!((total.spent.tokens, total.spent.cost_usd), (300, 0.750_003));
    assert_eq!(report.issues, 2);
    let ends: Vec<_> = report
        .ends
        .iter()
        .map(|end| (end.outcome, end.failure_class, end.attempts))
        .collect();
    assert_eq!(
        ends,
        [
            (Outcome::Failed, Some(FailureClass::Network), 1),
            (Outcome::Lost, None, 1),
            (Outcome::Succeeded, None, 1),
        ]
    );
    let first = report.series[0];
    assert_eq!((first.started, first.succeeded, first.failed), (2, 1, 1));
    assert_eq!(report.series.last().unwrap().started, 1);
}

#[test]
fn issue_succeeds_when_its_last_run_did_and_none_is_open() {
    let attempts: Vec<_> = (0..10)
        .map(|number| attempt(number, 1, Some((2, Outcome::Succeeded))))
        .collect();
    let runs = [
        // Both succeeded.
        stored_run(0, Some((3, true))),
        stored_run(1, Some((4, true))),
        // One is parked.
        stored_run(2, Some((3, true))),
        stored_run(3, None),
        // The later run was given up, independent of the order of the rows.
        stored_run(5, Some((4, false))),
        stored_run(4, Some((3, true))),
        // The later run succeeded.
        stored_run(6, Some((3, false))),
        stored_run(7, Some((4, true))),
        // The run ended only after the time span.
        stored_run(8, Some((1440, true))),
    ];
    let report = figures(&attempts, &runs, day());
    assert_eq!((report.issues, report.issues_succeeded), (5, 2));
    let per_issue = report.cost_per_succeeded_issue_usd.unwrap();
    assert!((per_issue - 2.500_01 / 2.0).abs() < 1e-9, "{per_issue}");
}

#[test]
fn parts_fit_the_span_and_align_to_utc() {
    for (minutes, part_ms, parts) in [
        (10, 300_000, 2),
        (3 * 60, 300_000, 36),
        (48 * 60, 3_600_000, 48),
        (7 * 24 * 60, 86_400_000, 7),
        (62 * 24 * 60, 86_400_000, 62),
        (70 * 24 * 60, 7 * 86_400_000, 11),
        (1000 * 24 * 60, 3 * 7 * 86_400_000, 48),
    ] {
        let window = Window::new(at(-minutes), at(0), None);
        assert_eq!(
            (window.part_ms(), window.parts().len()),
            (part_ms, parts),
            "{minutes}"
        );
    }
    let odd = Window::new(at(75), at(7 * 24 * 60 + 75), None);
    assert_eq!((odd.parts()[0], odd.parts().len()), (at(0), 8));
    let weeks = Window::new(at(0), at(100 * 24 * 60), None);
    assert_eq!(weeks.parts()[0].to_string(), "2026-03-02T00:00:00Z", "a Monday");
    // A requested part length is respected, except if it gives too many parts.
    let with_part_seconds = |seconds| Window::new(at(0), at(24 * 60), Some(Duration::from_secs(seconds)));
    assert_eq!(with_part_seconds(7200).parts().len(), 12);
    assert!(with_part_seconds(0).parts().len() <= 1000);
    assert_eq!(Window::new(at(5), at(0), None).parts().len(), 1);
    let all = Window::new(Timestamp::MIN, Timestamp::MAX, Some(Duration::from_secs(1)));
    assert!(all.parts().len() <= 1001);
}

#[test]
fn since_accepts_durations_dates_and_timestamps() {
    let now = at(0);
    for (text, then) in [
        ("7d", "2026-02-25T00:00:00Z"),
        ("1d12h", "2026-03-02T12:00:00Z"),
        ("90", "2026-03-03T23:58:30Z"),
        ("2026-03-01", "2026-03-01T00:00:00Z"),
        ("2026-03-01T10:00:00+02:00", "2026-03-01T08:00:00Z"),
        (" 2026-03-01T10:00:00Z ", "2026-03-01T10:00:00Z"),
        ("999999999d", "1970-01-01T00:00:00Z"),
    ] {
        let since: Since = text.parse().unwrap();
        assert_eq!(since.before(now).to_string(), then, "{text}");
    }
    for text in [
        "",
        "yesterday",
        "7 parsecs",
        "2026-13-01",
        "2026-03-01T10:00:00",
        "-1d",
    ] {
        assert_eq!(text.parse::<Since>(), Err(ParseSinceError), "{text}");
    }
}

fn any_attempt() -> impl Strategy<Value = StoredFigures> {
    let outcome = prop_oneof![
        Just(Outcome::Succeeded),
        Just(Outcome::Failed),
        Just(Outcome::TimedOut)
    ];
    let end = proptest::option::of((-50..3000i64, outcome));
    (0..20u64, -100..2000i64, end, 0..u64::MAX / 64).prop_map(|(number, started, end, usd)| {
        let mut attempt = attempt(number, started, end);
        if let Some(ended) = &mut attempt.ended {
            ended.charged = Spend {
                tokens: usd % 1_000_003,
                // Whole dollars keep sums of floats exact.
                usd: MicroUsd(usd % 1000 * 1_000_000),
            };
        }
        attempt
    })
}

/// Sums the additive figures: attempts, successes, failures, tokens, dollars.
fn sum(figures: impl Iterator<Item = [f64; 5]>) -> [f64; 5] {
    figures.fold([0.0; 5], |mut sum, one| {
        for (sum, one) in sum.iter_mut().zip(one) {
            *sum += one;
        }
        sum
    })
}

fn of(figures: &Figures) -> [f64; 5] {
    let spent = figures.spent;
    [
        figures.attempts as f64,
        figures.succeeded as f64,
        figures.failed as f64,
        spent.tokens as f64,
        spent.cost_usd,
    ]
}

fn check(report: &ReportView) {
    let total = of(&report.total);
    assert_eq!(sum(report.stages.iter().map(|one| of(&one.figures))), total);
    assert_eq!(sum(report.agents.iter().map(|one| of(&one.figures))), total);
    let parts = report.series.iter().map(|part| {
        [
            part.started as f64,
            part.succeeded as f64,
            part.failed as f64,
            part.spent.tokens as f64,
            part.spent.cost_usd,
        ]
    });
    assert_eq!(sum(parts), total);
    let ended: u64 = report.ends.iter().map(|end| end.attempts).sum();
    assert_eq!(ended, report.total.succeeded + report.total.failed);
    let runs: u64 = report.stages.iter().map(|one| one.figures.runs).sum();
    assert_eq!(runs, report.total.runs, "a run has one stage");
    let runs: u64 = report.agents.iter().map(|one| one.figures.runs).sum();
    assert!(runs >= report.total.runs);
    let durations: u64 = report.stages.iter().map(|one| one.figures.duration_ms).sum();
    assert_eq!(durations, report.total.duration_ms);
    assert!(report.issues_succeeded <= report.issues && report.issues <= report.total.attempts);
    for pair in report.series.windows(2) {
        let gap = pair[1].at.duration_since(pair[0].at).as_millis();
        assert_eq!(gap, i128::from(report.part_ms));
    }
    assert!(report.series[0].at <= report.since);
}

proptest! {
    #[test]
    fn parts_add_up_to_the_total(
        attempts in proptest::collection::vec(any_attempt(), 0..60),
        overs in proptest::collection::vec(proptest::option::of((0..2000i64, any::<bool>())), 20),
        since in -100..1500i64,
        length in 0..2000i64,
        part in proptest::option::of(1..200u64),
    ) {
        let runs: Vec<_> = (0..).zip(overs).map(|(number, over)| stored_run(number, over)).collect();
        let part = part.map(|minutes| Duration::from_secs(minutes * 60));
        let window = Window::new(at(since), at(since + length), part);
        check(&figures(&attempts, &runs, window));
    }
}
