//! Measures the search in a session log of 100,000 events, in as many requests as it takes.

#![allow(clippy::unwrap_used, reason = "a bench may stop at once")]

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vik_control::http::{EventFilter, Logs};
use vik_core::event::EventKind;

const EVENTS: u64 = 100_000;

/// Returns a log of tool calls with their results, each of about 300 bytes.
fn log() -> String {
    let mut log = String::new();
    for seq in 1..=EVENTS {
        let at = "2026-03-02T00:00:00Z";
        let output = "test result: ok. 12 passed; 0 failed; finished in 0.03s ".repeat(4);
        let _ = if seq % 2 == 0 {
            writeln!(
                log,
                r#"{{"seq":{seq},"at":"{at}","kind":"tool_result","call_id":"c{seq}","is_error":false,"output":"{output}"}}"#
            )
        } else {
            writeln!(
                log,
                r#"{{"seq":{seq},"at":"{at}","kind":"tool_call","call_id":"c{seq}","tool":"Bash","input":{{"command":"cargo test --package p{seq}","description":"{output}"}}}}"#
            )
        };
    }
    log
}

fn search(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a search in 100,000 events");
    group.throughput(Throughput::Elements(EVENTS)).sample_size(10);
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("log.jsonl");
    std::fs::write(&path, log()).unwrap();
    let logs = Logs::default();
    let text = |text| EventFilter::new(Some(text), Vec::new(), false).unwrap();
    for (name, filter) in [
        ("text that no event has", text("no such text")),
        ("text of the last events", text("P9999")),
        (
            "kind that no event has",
            EventFilter::new(None, vec![EventKind::Error], false).unwrap(),
        ),
        ("failures", EventFilter::new(None, Vec::new(), true).unwrap()),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let (mut after, mut found) = (0, 0);
                while after < EVENTS {
                    let page = logs.page(&path, after, 200, &filter).unwrap();
                    (after, found) = (page.scanned_to, found + page.events.len());
                }
                black_box(found)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, search);
criterion_main!(benches);
