//! The cost of masking for each megabyte of an agent's output.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "benchmarks")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vik_mask::{Label, Masker};

fn output() -> String {
    let line = r#"{"type":"item.completed","item":{"id":"item_17","type":"command_execution","command":"bash -lc 'cargo test -p vik-core'","aggregated_output":"running 12 tests\ntest workflow::tests::codes::each_code_has_an_example ... ok\nerror[E0308]: mismatched types\n  --> crates/vik-session/src/attempt/follow.rs:128:9\n","exit_code":0,"status":"completed"}}"#;
    format!("{line}\n").repeat(1024 * 1024 / line.len())
}

fn masking(c: &mut Criterion) {
    let text = output();
    let secrets = (0..10).map(|at| {
        (
            Label::Secret(format!("S{at}")),
            format!("q7Rz2Lk9/Xw4Tb8V{at}n3Pc6Jd5Hf1Gs0MyKaEu"),
        )
    });
    let mut group = c.benchmark_group("mask");
    group.throughput(Throughput::Bytes(text.len() as u64));
    for (name, masker) in [
        ("nothing known", Masker::default()),
        ("ten secrets", Masker::new(secrets)),
    ] {
        group.bench_function(format!("text, {name}"), |b| {
            b.iter(|| black_box(masker.mask(&text)).len());
        });
        group.bench_function(format!("json lines, {name}"), |b| {
            b.iter(|| {
                text.lines()
                    .map(|line| black_box(masker.mask_json(line)).len())
                    .sum::<usize>()
            });
        });
    }
    group.bench_function("beside: parsing them", |b| {
        b.iter(|| {
            let values = text
                .lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            values.filter(|value| black_box(value).is_object()).count()
        });
    });
    group.finish();
}

criterion_group!(benches, masking);
criterion_main!(benches);
