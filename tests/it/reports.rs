//! `vik report`: the sums over the ledger of a real history.

use serde_json::{Value, json};

use crate::support::*;

/// Runs one issue through two stages, and one that fails twice and is parked.
fn history() -> World {
    let world = World::new(&[("good", "todo"), ("bad", "todo")]);
    let next = world.on_success("review");
    let last = world.on_success("done");
    let world = world
        .agent("codex")
        .set(
            "/agents/a/price",
            json!({"input": 1.0, "cached_input": 1.0, "output": 1.0}),
        )
        .set("/agents/b", json!({"runtime": "command", "command": ["vik-scripted-agent"]}))
        .work(
            "prompt",
            json!("SCRIPT: start; usage 900000 100000; message hi; {{ 'done' if issue.id == 'good' else 'exit 3' }}"),
        )
        .work("hooks", json!({"after_run": next}))
        .stage("review", "review", "SCRIPT: ok")
        .set("/issue/stages/review/agent", json!("b"))
        .set("/issue/stages/review/hooks", json!({"after_run": last}));
    world.once().expect(1);
    world
}

fn numbers(figures: &Value) -> [u64; 4] {
    ["runs", "attempts", "succeeded", "failed"].map(|name| figures[name].as_u64().unwrap())
}

#[test]
fn report_sums_up_attempts_and_costs() {
    let world = history();
    let report = world.vik(&["report", "--json", "--since", "1h"]).expect(0).json();
    assert_eq!(report["schema"], 1);
    assert_eq!(numbers(&report["total"]), [3, 4, 2, 2]);
    assert_eq!(report["issues"], 2);
    assert_eq!(report["issues_succeeded"], 1);
    let [review, work] = report["stages"].as_array().unwrap().as_slice() else {
        panic!("two stages: {report}")
    };
    assert_eq!(review["stage"], "review");
    assert_eq!(work["stage"], "work");
    assert_eq!((numbers(review), numbers(work)), ([1, 1, 1, 0], [2, 3, 1, 2]));
    let agents: Vec<_> = report["agents"].as_array().unwrap().iter().map(numbers).collect();
    assert_eq!(agents, [[2, 3, 1, 2], [1, 1, 1, 0]]);
    // One attempt of a million tokens at a dollar per million, and two that were cut off.
    let spent = report["total"]["spent"]["cost_usd"].as_f64().unwrap();
    assert!(spent >= 1.0, "{report}");
    assert_eq!(
        report["cost_per_succeeded_issue_usd"],
        report["total"]["spent"]["cost_usd"]
    );
    // It equals the sum over the attempts that `runs` lists.
    let of_runs: f64 = world
        .runs()
        .iter()
        .flat_map(|run| run["attempts"].as_array().unwrap().clone())
        .map(|attempt| attempt["charged"]["cost_usd"].as_f64().unwrap())
        .sum();
    assert!((spent - of_runs).abs() < 1e-9, "{spent} {of_runs}");
    let series = report["series"].as_array().unwrap();
    let started: u64 = series.iter().map(|part| part["started"].as_u64().unwrap()).sum();
    assert_eq!((started, &report["part_ms"]), (4, &json!(300_000)));
}

#[test]
fn report_is_the_same_beside_a_daemon() {
    let world = history();
    let alone = world.vik(&["report"]).expect(0).out;
    let daemon = world.daemon();
    let beside = world.vik(&["report"]).expect(0).out;
    daemon.stop().expect(0);
    let without_first_line = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    assert_eq!(without_first_line(&alone), without_first_line(&beside));
    for part in [
        "2 issues worked on, 1 done",
        "4 attempts: 2 succeeded, 2 failed",
        "STAGE",
        "work",
        "##xx",
    ] {
        assert_contains(&alone, part);
    }
    let markdown = world.vik(&["report", "--markdown"]).expect(0).out;
    assert_contains(&markdown, "| `work` | 2 | 3 |");
    assert!(markdown.starts_with("## Vik: "), "{markdown}");
}

#[test]
fn report_without_attempts_succeeds_and_bad_input_fails() {
    let world = World::new(&[]);
    let done = world.vik(&["report"]).expect(0);
    assert_contains(&done.out, "no attempts started");
    let report = world.vik(&["report", "--json"]).expect(0).json();
    assert_eq!(report["total"]["attempts"], 0);
    for since in ["soon", "2999-01-01", "2026-03-01T10:00:00"] {
        let done = world.vik(&["report", "--since", since]).expect(2);
        assert!(done.err.contains("--since") && done.out.is_empty(), "{done:?}");
    }
    world.vik(&["report", "--json", "--markdown"]).expect(2);
    let world = history();
    let done = world.vik(&["report", "--since", "2026-03-01"]).expect(0);
    assert_contains(&done.out, "since 2026-03-01 00:00:00 +00:00");
    std::fs::write(world.home().join("service/vik.db"), "no database at all").unwrap();
    let error = world.vik(&["report", "--json"]).expect(1).json();
    assert_eq!(error["error"]["code"], "ledger");
}
