//! Measures the report and the list of runs on 100,000 attempts, which must take less than 0.2 s.

#![allow(clippy::unwrap_used, reason = "a bench may stop at once")]

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;
use vik_control::figures::{Window, report};
use vik_core::attempt::AttemptResult;
use vik_core::changes::{Changes, EndedAttempt, RunOver, StartedAttempt};
use vik_core::ids::{AttemptId, IssueId, RunId};
use vik_core::limits::Spend;
use vik_core::money::MicroUsd;
use vik_core::outcome::{CostSource, FailureClass, Outcome};
use vik_store::Ledger;
use vik_store::ledger::{Reader, RunFilter};

const ATTEMPTS: u64 = 100_000;

/// How the attempts belong to issues and runs.
#[derive(Clone, Copy)]
enum Shape {
    /// Each issue has one run with one attempt.
    OneEach,
    /// Each issue has two stages, and every other run needs a second attempt.
    Retries,
}

/// Returns an id that begins with a time, as those of the scheduler.
fn uuid(at: Timestamp, number: u64) -> Uuid {
    let mut tail = [0; 10];
    tail[2..].copy_from_slice(&number.to_be_bytes());
    let millis = u64::try_from(at.as_millisecond()).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
}

fn started(shape: Shape, number: u64, since: Timestamp) -> StartedAttempt {
    // The first attempt of the same run.
    let (issue, stage, first) = match shape {
        Shape::OneEach => (number, "work", number),
        Shape::Retries if number.is_multiple_of(3) => (number / 3, "plan", number),
        Shape::Retries => (number / 3, "work", number / 3 * 3 + 1),
    };
    let at = |number| since + SignedDuration::from_secs(5 * i64::try_from(number).unwrap_or_default());
    StartedAttempt {
        attempt_id: AttemptId(uuid(at(number), 2 * number)),
        run: RunId(uuid(at(first), 2 * first + 1)),
        issue: IssueId::new(format!("ISSUE-{issue}")),
        stage: stage.into(),
        agent: if number.is_multiple_of(5) {
            "reviewer"
        } else {
            "coder"
        }
        .into(),
        attempt: u32::try_from(number - first).unwrap_or_default() + 1,
        resumed_from: None,
        at: at(number),
    }
}

fn ended(number: u64, started: &StartedAttempt) -> EndedAttempt {
    let has_failed = number % 3 == 1;
    let outcome = if has_failed {
        Outcome::Failed
    } else {
        Outcome::Succeeded
    };
    let charged = Spend {
        tokens: 1000 + number,
        usd: MicroUsd(250_001),
    };
    let is_reported = !number.is_multiple_of(10);
    EndedAttempt {
        attempt_id: started.attempt_id,
        at: started.at
            + SignedDuration::from_millis(1000 + i64::try_from(number * 7919 % 30_000).unwrap_or_default()),
        report: AttemptResult {
            failure_class: has_failed.then_some(FailureClass::Verify),
            reason: has_failed.then(|| "`verify` exited with 1".to_owned()),
            feedback: has_failed.then(|| "assertion failed: left == right\n".repeat(10)),
            changed: Some(true),
            ran: true,
            answered: Some(true),
            spend: is_reported.then_some(charged),
            provider_session_id: Some(started.attempt_id.to_string()),
            exit_code: Some(0),
            proof: Some("cgroup".to_owned()),
            ..AttemptResult::new(outcome)
        },
        charged,
        source: if is_reported {
            CostSource::Reported
        } else {
            CostSource::Estimate
        },
    }
}

fn machine(issue: &IssueId) -> serde_json::Value {
    let payload = json!({"id": issue, "title": "Show cents", "state": "todo"}).to_string();
    json!({
        "issue": {"id": issue, "title": "Show cents", "state": "todo", "payload": payload},
        "present": true, "runs": [], "life": {"attempts": 1},
    })
}

/// Writes the attempts, one every five seconds.
fn fill(service_dir: &Path, shape: Shape, since: Timestamp) {
    let (ledger, _) = Ledger::open(service_dir).unwrap();
    let mut last = None;
    for number in 0..ATTEMPTS {
        let started = started(shape, number, since);
        let over = RunOver {
            run: started.run,
            issue: started.issue.clone(),
            succeeded: true,
            at: started.at + SignedDuration::from_secs(60),
        };
        let end = Changes {
            ended: vec![ended(number, &started)],
            runs_over: vec![over],
            ..Changes::default()
        };
        let start = Changes {
            machines: vec![serde_json::from_value(machine(&started.issue)).unwrap()],
            started: vec![started],
            ..Changes::default()
        };
        drop(ledger.commit(start));
        last = Some(ledger.commit(end));
    }
    last.unwrap().wait().unwrap();
    ledger.close().unwrap();
}

fn reports(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("report on 100,000 attempts");
    group.throughput(Throughput::Elements(ATTEMPTS)).sample_size(10);
    let since: Timestamp = "2026-03-02T00:00:00Z".parse().unwrap();
    let window = Window::new(since, since + SignedDuration::from_hours(7 * 24), None);
    for (name, shape) in [
        ("an issue each", Shape::OneEach),
        ("three of an issue", Shape::Retries),
    ] {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fill(folder.path(), shape, since);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let ledger = Reader::open(folder.path()).unwrap();
                black_box(report(ledger.as_ref(), window).unwrap())
            });
        });
    }
    group.finish();
}

/// The filters that read the most: few runs or none match.
fn runs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a page of runs of 100,000 attempts");
    group.throughput(Throughput::Elements(ATTEMPTS)).sample_size(10);
    let since: Timestamp = "2026-03-02T00:00:00Z".parse().unwrap();
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fill(folder.path(), Shape::OneEach, since);
    let all = RunFilter::default();
    for (name, filter) in [
        ("latest", all.clone()),
        (
            "no title matches",
            RunFilter {
                text: Some("no such title".to_owned()),
                ..all.clone()
            },
        ),
        (
            "no outcome matches",
            RunFilter {
                outcomes: vec![Outcome::Stalled],
                ..all.clone()
            },
        ),
        (
            "no agent matches",
            RunFilter {
                agent: Some("none".into()),
                ..all.clone()
            },
        ),
        (
            "no time matches",
            RunFilter {
                until: Some(since),
                ..all
            },
        ),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let ledger = Reader::open(folder.path()).unwrap().unwrap();
                black_box(ledger.runs(&filter, 101).unwrap())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, reports, runs);
criterion_main!(benches);
