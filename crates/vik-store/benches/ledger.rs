//! Measures the commits per second of the ledger, and the limit of the disk itself.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;
use vik_core::changes::{Changes, Decision, StartedAttempt};
use vik_core::decision_kind::DecisionKind;
use vik_core::ids::{AttemptId, RunId};
use vik_store::Ledger;

/// Creates a folder on the disk of the build, because the default temporary folder may be on
/// another one.
fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the changes that precede the start of an attempt, for an issue with two kilobytes of
/// text.
fn start(number: u64) -> Changes {
    let id = format!("A-{}", number % 1000);
    let payload = json!({"id": id, "title": "T", "state": "todo", "description": "x".repeat(2000)});
    let machine = json!({
        "issue": {"id": id, "title": "T", "state": "todo", "payload": payload.to_string()},
        "present": true, "runs": [], "life": {"attempts": number / 1000},
    });
    let (run, attempt_id) = (
        RunId(Uuid::from_u64_pair(1, number)),
        AttemptId(Uuid::from_u64_pair(2, number)),
    );
    let at = jiff::Timestamp::UNIX_EPOCH;
    Changes {
        machines: vec![serde_json::from_value(machine).unwrap_or_else(|error| panic!("{error}"))],
        started: vec![StartedAttempt {
            attempt_id,
            run,
            issue: id.as_str().into(),
            // Each attempt has its own stage, because the attempts do not end.
            stage: number.to_string().as_str().into(),
            agent: "coder".into(),
            attempt: 1,
            resumed_from: None,
            at,
        }],
        decisions: vec![Decision {
            at,
            issue: Some(id.as_str().into()),
            stage: Some("plan".into()),
            run: Some(run),
            attempt_id: Some(attempt_id),
            kind: DecisionKind::Started,
            detail: "the first of 3 that could start".to_owned(),
        }],
        ..Changes::default()
    }
}

fn commits(c: &mut Criterion) {
    let mut group = c.benchmark_group("ledger");
    group.measurement_time(Duration::from_secs(5));
    for at_once in [1_u64, 16, 256] {
        let folder = folder();
        let (ledger, _) = Ledger::open(folder.path()).unwrap_or_else(|error| panic!("{error}"));
        let mut number = 0;
        group.throughput(Throughput::Elements(at_once));
        group.bench_function(format!("commit/{at_once}"), |b| {
            b.iter_batched(
                || {
                    number += at_once;
                    (number - at_once..number).map(start).collect::<Vec<_>>()
                },
                |changes| {
                    let waiting: Vec<_> = changes
                        .into_iter()
                        .map(|changes| ledger.commit(changes))
                        .collect();
                    for commit in waiting {
                        commit.wait().unwrap_or_else(|error| panic!("{error}"));
                    }
                },
                BatchSize::SmallInput,
            );
        });
    }
    let folder = folder();
    let path = folder.path().join("floor");
    let file = OpenOptions::new().append(true).create(true).open(path);
    let mut file: File = file.unwrap_or_else(|error| panic!("{error}"));
    group.throughput(Throughput::Elements(1));
    group.bench_function("floor/append_4k_and_fdatasync", |b| {
        b.iter(|| file.write_all(&[7; 4096]).and_then(|()| file.sync_data()));
    });
    group.finish();
}

criterion_group!(benches, commits);
criterion_main!(benches);
