//! Limits, and what one section says about another.

use super::codes::found;
use super::*;

#[test]
fn limits_are_above_zero_and_below_the_absurd() {
    const ZERO: &str = "write `null` for no limit, or use `vik pause` to stop all work";
    for finding in [
        top("limits: {usd_per_day: ^0}", "out_of_range"),
        top("limits: {usd_per_day: ^-0.0}", "out_of_range"),
        top("limits: {tokens_per_day: ^0}", "out_of_range"),
        top("loop: {pressure: {min_available_memory: ^0}}", "out_of_range"),
        issue("limits: {usd: ^0}", "out_of_range"),
        issue("limits: {tokens: ^0}", "out_of_range"),
        stage("limits: {usd: ^0}", "out_of_range"),
        stage("limits: {tokens: ^0}", "out_of_range"),
        stage("max_concurrency: ^0", "out_of_range"),
        agent("max_concurrency: ^0", "out_of_range"),
    ] {
        assert_eq!(finding.hint.as_deref(), Some(ZERO), "{finding:?}");
    }
    let attempts = issue("limits: {attempts: ^0}", "out_of_range");
    assert!(attempts.hint.unwrap().contains("vik pause"));
    for absurd in ["-1", ".inf", ".nan", "1000001", "1e300", "0.0000001"] {
        stage(&format!("limits: {{usd: ^{absurd}}}"), "out_of_range");
        agent(&format!("estimate: {{usd: ^{absurd}}}"), "out_of_range");
    }
    for absurd in [
        "limits: {tokens_per_day: ^1000000000001}",
        "limits: {tokens_per_day: ^-1}",
        "loop: {pressure: {max_memory_pressure: ^0}}",
        "loop: {pressure: {max_memory_pressure: ^101}}",
        "loop: {pressure: {max_memory_pressure: ^.nan}}",
    ] {
        top(absurd, "out_of_range");
    }
    issue("limits: {attempts: ^100001}", "out_of_range");
    top("loop: {pressure: {min_available_memory: ^2 gigs}}", "bad_size");
    // Nothing at all may cost nothing.
    let free = ("model:", "estimate: {usd: 0, tokens: 0}\n    model:");
    assert_eq!(load(&minimal_with(&[free])).diagnostics, []);
}

#[test]
fn stage_of_a_terminal_state_is_an_error() {
    let states = ("  stages:", "  terminal_states: [done, todo]\n  stages:");
    let finding = one(&[states, ("state: todo", "state: ^todo")], "terminal_stage");
    assert_eq!(finding.severity, Severity::Error);
    assert_eq!((finding.related[0].line, finding.related[0].column), (9, 27));
    let other = ("  stages:", "  terminal_states: [Todo]\n  stages:");
    assert_eq!(load(&minimal_with(&[other])).diagnostics, []);
}

#[test]
fn stage_takes_several_states_and_labels() {
    let when = ("state: todo", "state: [todo, doing]\n        labels: [Agent]");
    let loaded = load(&minimal_with(&[when]));
    assert_eq!(loaded.diagnostics, []);
    let when = loaded.workflow.unwrap().issue.stages[0].when.clone();
    assert_eq!(when.states, ["todo", "doing"]);
    assert_eq!(when.labels, ["Agent"]);
    one(&[("state: todo", "state: [todo, ^todo]")], "duplicate_state");
    one(&[("state: todo", "^state: []")], "empty_value");
    // A misspelled key must not let agents work on all issues.
    let misspelled = one(
        &[("state: todo", "^label: x\n        state: todo")],
        "unknown_key",
    );
    assert_eq!(misspelled.severity, Severity::Error);
    one(
        &[("state: todo", "labels: ^x\n        state: todo")],
        "wrong_type",
    );
}

#[test]
fn state_of_a_stage_with_several_belongs_to_no_other() {
    let stages = |first: &str, second: &str| {
        let stage = |name: &str, state: &str| {
            format!("    {name}: {{ when: {{ state: {state} }}, agent: a, prompt: p }}\n")
        };
        let text = format!(
            "issues: {{ pull: {{ command: x }} }}\nagents: {{ a: {{ runtime: command, command: [x] }} }}\nissue:\n  stages:\n{}{}",
            stage("first", first),
            stage("second", second)
        );
        found(&text)
    };
    assert_eq!(stages("[a, b]", "[c, d]"), []);
    assert_eq!(stages("a", "a"), [("shared_state", 6, 30)]);
    assert_eq!(stages("a, labels: [x]", "a"), [("shared_state", 6, 30)]);
    assert_eq!(stages("a, labels: [x]", "a, labels: [y]"), []);
    assert_eq!(stages("[a, b]", "b"), [("duplicate_state", 6, 30)]);
    assert_eq!(stages("b", "[a, b]"), [("duplicate_state", 6, 23)]);
    assert_eq!(stages("a", "b, follow_up: a"), [("duplicate_state", 6, 44)]);
}

#[test]
fn states_of_follow_ups_belong_to_one_stage_and_are_not_terminal() {
    let when = |follow_up: &str| format!("state: todo\n        follow_up: {follow_up}");
    let loaded = load(&minimal_with(&[("state: todo", &when("[review, ci]"))]));
    assert_eq!(loaded.diagnostics, []);
    let workflow = loaded.workflow.unwrap();
    assert_eq!(workflow.issue.stages[0].when.follow_up, ["review", "ci"]);
    assert_eq!(workflow.issue.max_rounds, 5);
    one(&[("state: todo", &when("^todo"))], "duplicate_state");
    one(
        &[
            ("state: todo", &when("^review")),
            ("  stages:", "  terminal_states: [review]\n  stages:"),
        ],
        "terminal_stage",
    );
}

#[test]
fn cost_limit_needs_a_price() {
    let codex = ("codex:", "^codex:");
    let day = ("agents:\n", "limits: {usd_per_day: 5}\nagents:\n");
    let finding = one(&[codex, day], "no_price");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.message.contains("`codex`"), "{}", finding.message);
    let life = ("  stages:", "  limits: {usd: 5}\n  stages:");
    one(&[codex, life], "no_price");
    let attempt = ("agent:", "limits: {usd: 5}\n      agent:");
    one(&[codex, attempt], "no_price");
    let command = ("runtime: codex", "runtime: command\n    command: [x]");
    one(&[codex, attempt, command], "no_price");
    for settled in [
        ("model:", "price: {input: 1}\n    model:"),
        ("runtime: codex", "runtime: claude_code"),
        ("runtime: codex", "runtime: vex"),
    ] {
        assert_eq!(load(&minimal_with(&[settled, attempt])).diagnostics, []);
    }
    let tokens = ("agent:", "limits: {tokens: 5}\n      agent:");
    assert_eq!(load(&minimal_with(&[tokens])).diagnostics, []);
}

#[test]
fn stages_that_write_in_one_workspace_run_in_turn() {
    const OTHER: &str = "    check: {when: {state: todo}, agent: codex, prompt: x, parallel: true}\n";
    let with = |permission: &str, first: &str| {
        let text = minimal_with(&[
            ("model:", &format!("permission: {permission}\n    model:")),
            ("agent:", &format!("parallel: {first}\n      agent:")),
        ]);
        load(&(text + OTHER)).diagnostics
    };
    let findings = with("full", "true");
    assert_eq!(findings.len(), 1);
    assert_eq!(
        (findings[0].code, findings[0].severity, findings[0].line),
        ("parallel_writers", Severity::Warning, 17)
    );
    assert_eq!(with("full", "false"), []);
    assert_eq!(with("read-only", "true"), []);
}
