use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;
use vik_api::{AgentFigures, EndFigures, Figures, Part, ReportView, SCHEMA, SpendView, StageFigures};
use vik_core::attempt::AttemptResult;
use vik_core::changes::{Changes, EndedAttempt, RunOver, StartedAttempt};
use vik_core::ids::{AttemptId, RunId};
use vik_core::limits::Spend;
use vik_core::money::MicroUsd;
use vik_core::outcome::{CostSource, FailureClass, Outcome};
use vik_store::Ledger;

use super::*;

/// Returns the time at these minutes after midnight (UTC) on a Wednesday.
fn at(minutes: i64) -> Timestamp {
    let midnight: Timestamp = "2026-03-04T00:00:00Z".parse().unwrap();
    midnight + SignedDuration::from_mins(minutes)
}

/// An attempt. The number of its run determines issue and stage.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    run: u64,
    agent: &'static str,
    started_at: Timestamp,
    ended: Option<End>,
}

#[derive(Clone, Copy, Debug)]
struct End {
    at: Timestamp,
    outcome: Outcome,
    spend: Spend,
    is_estimate: bool,
}

impl Attempt {
    fn issue(self) -> u64 {
        self.run / 2
    }

    fn stage(self) -> &'static str {
        if self.run.is_multiple_of(2) {
            "plan"
        } else {
            "work"
        }
    }
}

impl End {
    fn failure_class(self) -> Option<FailureClass> {
        (self.outcome == Outcome::Failed).then_some(FailureClass::Network)
    }
}

/// When a run ended, and whether it succeeded; `None` while it is open.
type Over = Option<(Timestamp, bool)>;

fn attempt(run: u64, started: i64, ended: Option<(i64, Outcome)>) -> Attempt {
    Attempt {
        run,
        agent: if run.is_multiple_of(3) { "codex" } else { "vex" },
        started_at: at(started),
        ended: ended.map(|(minute, outcome)| End {
            at: at(minute),
            outcome,
            spend: Spend {
                tokens: 100,
                usd: MicroUsd(250_001),
            },
            is_estimate: false,
        }),
    }
}

/// Writes a ledger with these attempts and with the ends of the runs 0, 1, ...
fn ledger(attempts: &[Attempt], overs: &[Over]) -> (TempDir, Reader) {
    let run_id = |number| RunId(Uuid::from_u64_pair(1, number));
    let mut changes = Changes::default();
    for (number, attempt) in (0..).zip(attempts) {
        let attempt_id = AttemptId(Uuid::from_u64_pair(2, number));
        let id = format!("issue-{}", attempt.issue());
        let issue = json!({"id": id, "title": "T", "state": "todo", "payload": "{}"});
        let machine = json!({"issue": issue, "present": true, "runs": [], "life": {"attempts": 0}});
        changes.machines.push(serde_json::from_value(machine).unwrap());
        changes.started.push(StartedAttempt {
            attempt_id,
            run: run_id(attempt.run),
            issue: id.as_str().into(),
            stage: attempt.stage().into(),
            agent: attempt.agent.into(),
            attempt: 1,
            resumed_from: None,
            at: attempt.started_at,
        });
        changes.ended.extend(attempt.ended.map(|end| EndedAttempt {
            attempt_id,
            at: end.at,
            report: AttemptResult {
                failure_class: end.failure_class(),
                ..AttemptResult::new(end.outcome)
            },
            charged: end.spend,
            source: if end.is_estimate {
                CostSource::Estimate
            } else {
                CostSource::Reported
            },
        }));
    }
    for (number, over) in (0..).zip(overs) {
        changes.runs_over.extend(over.map(|(at, succeeded)| RunOver {
            run: run_id(number),
            issue: "unused".into(),
            succeeded,
            at,
        }));
    }
    let folder = TempDir::new().unwrap();
    let (ledger, _) = Ledger::open(folder.path()).unwrap();
    ledger.commit(changes).wait().unwrap();
    ledger.close().unwrap();
    let reader = Reader::open(folder.path()).unwrap().unwrap();
    (folder, reader)
}

/// Returns the report as its definition in the documentation gives it.
fn expected(attempts: &[Attempt], overs: &[Over], window: Window) -> ReportView {
    let is_in = |at: Timestamp| at >= window.since() && at < window.until();
    let all: Vec<Attempt> = attempts
        .iter()
        .copied()
        .filter(|one| is_in(one.started_at))
        .collect();
    let ended = |one: &Attempt| one.ended.filter(|end| end.at < window.until());
    let spent = |ends: &[End]| {
        let sum = |ends: &mut dyn Iterator<Item = &End>| {
            ends.fold(Spend::default(), |sum, end| sum.plus(end.spend))
        };
        SpendView::of(
            sum(&mut ends.iter()),
            sum(&mut ends.iter().filter(|end| end.is_estimate)),
        )
    };
    let with = |ends: &[End], is_success: bool| {
        ends.iter()
            .filter(|end| (end.outcome == Outcome::Succeeded) == is_success)
            .count() as u64
    };
    let figures = |is_part: &dyn Fn(&&Attempt) -> bool| {
        let part: Vec<&Attempt> = all.iter().filter(is_part).collect();
        let ends: Vec<End> = part.iter().filter_map(|one| ended(one)).collect();
        let took = |one: &&Attempt| Some(ended(one)?.at.duration_since(one.started_at).as_millis().max(0));
        let mut durations: Vec<u64> = part
            .iter()
            .filter_map(took)
            .map(|ms| ms.try_into().unwrap())
            .collect();
        durations.sort_unstable();
        Figures {
            runs: part.iter().map(|one| one.run).collect::<BTreeSet<_>>().len() as u64,
            attempts: part.len() as u64,
            succeeded: with(&ends, true),
            failed: with(&ends, false),
            asked: 0,
            spent: spent(&ends),
            duration_ms: durations.iter().sum(),
            median_duration_ms: durations.get(durations.len().saturating_sub(1) / 2).copied(),
        }
    };
    let issues: BTreeSet<u64> = all.iter().map(|one| one.issue()).collect();
    let has_succeeded = |issue: &&u64| {
        // In the order in which they are stored.
        let mut known: Vec<u64> = Vec::new();
        for run in attempts.iter().map(|one| one.run) {
            if run / 2 == **issue && !known.contains(&run) {
                known.push(run);
            }
        }
        let over = |run: &u64| {
            overs
                .get(*run as usize)
                .copied()
                .flatten()
                .filter(|(at, _)| *at < window.until())
        };
        let ends: Option<Vec<_>> = known.iter().map(over).collect();
        // Of runs that ended at the same time, the one that was stored last counts.
        ends.and_then(|ends| ends.into_iter().max_by_key(|(at, _)| *at))
            .is_some_and(|(_, succeeded)| succeeded)
    };
    let issues_succeeded = issues.iter().filter(has_succeeded).count() as u64;
    let total = figures(&|_| true);
    let names = |name: fn(&Attempt) -> &'static str| all.iter().map(name).collect::<BTreeSet<_>>();
    let mut ends: Vec<EndFigures> = Vec::new();
    for end in all.iter().filter_map(ended) {
        let (outcome, failure_class) = (end.outcome, end.failure_class());
        if ends.iter().all(|known| known.outcome != outcome) {
            let same = |one: &&Attempt| ended(one).is_some_and(|end| end.outcome == outcome);
            let attempts = all.iter().filter(same).count() as u64;
            ends.push(EndFigures {
                outcome,
                failure_class,
                attempts,
            });
        }
    }
    ends.sort_by_key(|end| (u64::MAX - end.attempts, end.outcome.as_str()));
    let series = (0..).zip(window.parts()).map(|(index, at)| {
        let ends: Vec<End> = all
            .iter()
            .filter_map(ended)
            .filter(|end| window.part_index(end.at) == index)
            .collect();
        Part {
            at,
            started: all
                .iter()
                .filter(|one| window.part_index(one.started_at) == index)
                .count() as u64,
            succeeded: with(&ends, true),
            failed: with(&ends, false),
            asked: 0,
            spent: spent(&ends),
        }
    });
    ReportView {
        schema: SCHEMA,
        since: window.since(),
        until: window.until(),
        total,
        issues: issues.len() as u64,
        issues_succeeded,
        cost_per_succeeded_issue_usd: (issues_succeeded > 0 && total.spent.cost_usd > 0.0)
            .then(|| total.spent.cost_usd / issues_succeeded as f64),
        stages: names(|one| one.stage())
            .into_iter()
            .map(|stage| StageFigures {
                stage: stage.into(),
                figures: figures(&|one| one.stage() == stage),
            })
            .collect(),
        agents: names(|one| one.agent)
            .into_iter()
            .map(|agent| AgentFigures {
                agent: agent.into(),
                figures: figures(&|one| one.agent == agent),
            })
            .collect(),
        ends,
        series: series.collect(),
        part_ms: window.part_ms(),
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
    let (_folder, reader) = ledger(&attempts, &[]);
    let report = report(Some(&reader), day()).unwrap();
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
fn of_runs_that_end_together_the_one_stored_last_decides() {
    for (first, second) in [(10, 11), (11, 10)] {
        let attempts = [attempt(first, 0, None), attempt(second, 60, None)];
        let mut overs = vec![None; 12];
        overs[first as usize] = Some((at(100), false));
        overs[second as usize] = Some((at(100), true));
        let (_folder, reader) = ledger(&attempts, &overs);
        let report = report(Some(&reader), day()).unwrap();
        assert_eq!(report.issues_succeeded, 1, "{first} before {second}");
        assert_eq!(report, expected(&attempts, &overs, day()));
    }
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

fn any_attempt() -> impl Strategy<Value = Attempt> {
    let outcome = prop_oneof![
        Just(Outcome::Succeeded),
        Just(Outcome::Failed),
        Just(Outcome::TimedOut)
    ];
    let end = proptest::option::of((-50..3000i64, outcome, any::<bool>()));
    let agent = prop_oneof![Just("codex"), Just("vex"), Just("pi")];
    (0..20u64, agent, -100..2000i64, end, 0..u64::MAX / 64).prop_map(|(run, agent, started, end, usd)| {
        Attempt {
            run,
            agent,
            started_at: at(started),
            ended: end.map(|(minute, outcome, is_estimate)| End {
                at: at(minute),
                outcome,
                spend: Spend {
                    tokens: usd % 1_000_003,
                    // Whole dollars keep sums of floats exact.
                    usd: MicroUsd(usd % 1000 * 1_000_000),
                },
                is_estimate,
            }),
        }
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
    // Each case writes a ledger.
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn report_is_as_defined_and_its_parts_add_up(
        mut attempts in proptest::collection::vec(any_attempt(), 0..60),
        overs in proptest::collection::vec(proptest::option::of((0..30i64, any::<bool>())), 20),
        windows in proptest::collection::vec((-100..1500i64, 0..2000i64, proptest::option::of(1..200u64)), 4),
    ) {
        // A stage of an issue has at most one attempt that has not ended.
        let mut open = BTreeSet::new();
        attempts.retain(|one| one.ended.is_some() || open.insert(one.run));
        // Several runs end at the same time.
        let over = |(hundred, succeeded)| (at(100 * hundred), succeeded);
        let overs: Vec<Over> = overs.into_iter().map(|one| one.map(over)).collect();
        let (_folder, reader) = ledger(&attempts, &overs);
        for (since, length, part) in windows {
            let part = part.map(|minutes| Duration::from_secs(minutes * 60));
            let window = Window::new(at(since), at(since + length), part);
            let report = report(Some(&reader), window).unwrap();
            prop_assert_eq!(&report, &expected(&attempts, &overs, window));
            check(&report);
        }
    }
}
