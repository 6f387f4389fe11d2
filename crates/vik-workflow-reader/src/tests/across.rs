//! Limits, and what one section says about another.

use super::codes::{found, one};
use super::*;

#[test]
fn limits_are_above_zero_and_below_the_absurd() {
    const ZERO: &str = "write `null` for no limit, or use `vik pause` to stop all work";
    let top = |text: &str, column| {
        one(
            &[("agents:\n", &format!("{text}\nagents:\n"))],
            "out_of_range",
            1,
            column,
        )
    };
    let issue = |text: &str, column| {
        one(
            &[("  stages:", &format!("  {text}\n  stages:"))],
            "out_of_range",
            9,
            column,
        )
    };
    let stage = |text: &str, column| {
        one(
            &[("agent:", &format!("{text}\n      agent:"))],
            "out_of_range",
            13,
            column,
        )
    };
    let agent = |text: &str, column| {
        one(
            &[("model:", &format!("{text}\n    model:"))],
            "out_of_range",
            4,
            column,
        )
    };
    for finding in [
        top("limits: {usd_per_day: 0}", 23),
        top("limits: {usd_per_day: -0.0}", 23),
        top("limits: {tokens_per_day: 0}", 26),
        top("loop: {pressure: {min_available_memory: 0}}", 41),
        issue("limits: {usd: 0}", 17),
        issue("limits: {tokens: 0}", 20),
        stage("limits: {usd: 0}", 21),
        stage("limits: {tokens: 0}", 24),
        stage("max_concurrency: 0", 24),
        agent("max_concurrency: 0", 22),
    ] {
        assert_eq!(finding.hint.as_deref(), Some(ZERO), "{finding:?}");
    }
    assert!(
        issue("limits: {attempts: 0}", 22)
            .hint
            .unwrap()
            .contains("vik pause")
    );
    for absurd in ["-1", ".inf", ".nan", "1000001", "1e300", "0.0000001"] {
        stage(&format!("limits: {{usd: {absurd}}}"), 21);
        agent(&format!("estimate: {{usd: {absurd}}}"), 21);
    }
    top("limits: {tokens_per_day: 1000000000001}", 26);
    top("limits: {tokens_per_day: -1}", 26);
    top("loop: {pressure: {max_memory_pressure: 0}}", 40);
    top("loop: {pressure: {max_memory_pressure: 101}}", 40);
    top("loop: {pressure: {max_memory_pressure: .nan}}", 40);
    issue("limits: {attempts: 100001}", 22);
    let pressure = "loop: {pressure: {min_available_memory: 2 gigs}}\nagents:\n";
    one(&[("agents:\n", pressure)], "bad_size", 1, 41);
    // Nothing at all may cost nothing.
    let free = load(&minimal_with(&[(
        "model:",
        "estimate: {usd: 0, tokens: 0}\n    model:",
    )]));
    assert_eq!(free.diagnostics, []);
}

#[test]
fn stage_of_a_terminal_state_is_an_error() {
    let states = ("  stages:", "  terminal_states: [done, todo]\n  stages:");
    let finding = one(&[states], "terminal_stage", 13, 16);
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
    one(
        &[("state: todo", "state: [todo, todo]")],
        "duplicate_state",
        12,
        23,
    );
    one(&[("state: todo", "state: []")], "empty_value", 12, 9);
    // A misspelled key must not let agents work on all issues.
    let misspelled = one(
        &[("state: todo", "label: x\n        state: todo")],
        "unknown_key",
        12,
        9,
    );
    assert_eq!(misspelled.severity, Severity::Error);
    one(
        &[("state: todo", "labels: x\n        state: todo")],
        "wrong_type",
        12,
        17,
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
}

#[test]
fn cost_limit_needs_a_price() {
    let day = ("agents:\n", "limits: {usd_per_day: 5}\nagents:\n");
    let finding = one(&[day], "no_price", 3, 3);
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.message.contains("`codex`"), "{}", finding.message);
    let life = ("  stages:", "  limits: {usd: 5}\n  stages:");
    one(&[life], "no_price", 2, 3);
    let attempt = ("agent:", "limits: {usd: 5}\n      agent:");
    one(&[attempt], "no_price", 2, 3);
    let command = ("runtime: codex", "runtime: command\n    command: [x]");
    one(&[attempt, command], "no_price", 2, 3);
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
