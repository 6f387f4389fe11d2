//! The usage of an attempt and its limits.

use serde_json::json;
use vik_core::money::MicroUsd;
use vik_core::outcome::Outcome;

use super::scene::Scene;
use crate::support::*;

#[test]
fn limit_warns_and_then_stops_the_attempt() {
    let world = World::new(&[("1", "todo")]).agent("vex");
    let world = world.set("/agents/a/command", json!(["vik-scripted-agent"]));
    let usage =
        |input: u64| format!("line '{{\"type\":\"usage\",\"input_tokens\":{input},\"output_tokens\":0}}'");
    let scene = Scene::new(world.script(&format!(
        "as vex; start; {}; sleep 400; {}; hang",
        usage(850),
        usage(1200)
    )));
    std::fs::write(scene.file("limit"), "1000").unwrap();
    let report = scene.finish();
    assert_eq!(report.outcome, Outcome::OverBudget, "{report:?}");
    assert_eq!(
        report.reason.as_deref(),
        Some("limit reached: 1200 of 1000 tokens for the attempt")
    );
    assert_eq!(report.spend.unwrap().tokens, 1200);
    let limits = scene.world.session("1").of_kind("limit");
    let seen: Vec<_> = limits
        .iter()
        .map(|limit| (limit["scope"].clone(), limit["percent"].clone()))
        .collect();
    assert_eq!(
        seen,
        [(json!("attempt"), json!(85)), (json!("attempt"), json!(120))]
    );
}

#[test]
fn limit_crossed_by_the_final_report_counts() {
    let world = World::new(&[("1", "todo")])
        .agent("claude_code")
        .work("limits", json!({"tokens": 1000}))
        .script("ok");
    let scene = Scene::new(world);
    let report = scene.finish();
    assert_eq!(
        report.outcome,
        Outcome::OverBudget,
        "nobody could stop it in time"
    );
    assert_eq!(
        report.reason.as_deref(),
        Some("limit reached: 1020 of 1000 tokens for the attempt")
    );
    let limits = scene.world.session("1").of_kind("limit");
    let percent: Vec<_> = limits.iter().map(|limit| &limit["percent"]).collect();
    assert_eq!(percent, [102]);
}

#[test]
fn interrupted_attempt_without_usage_is_charged_an_estimate() {
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .set("/agents/a/estimate", json!({"usd": 0.5, "tokens": 1000}))
        .script("start; message working on it; hang")
        .work("timeout", json!("1s"));
    let scene = Scene::new(world);
    let report = scene.finish();
    assert_eq!(
        (report.outcome, report.ran, report.spend),
        (Outcome::TimedOut, true, None)
    );
    let ended = scene.world.session("1").ended();
    assert_eq!(ended["cost_usd"], 0.5);
    assert_eq!(ended["cost_source"], "estimate");
}

#[test]
fn budget_is_passed_to_an_agent_that_enforces_one() {
    let mut scene = Scene::new(
        World::new(&[("1", "todo")])
            .agent("claude_code")
            .script("dump-argv argv.txt; ok"),
    );
    scene.start.budget.usd = Some(MicroUsd::from_usd(1.25));
    assert_eq!(scene.finish().outcome, Outcome::Succeeded);
    let argv = scene.world.workspace_file("1", "argv.txt");
    assert_contains(&argv, "--max-budget-usd\n1.250000");
}
