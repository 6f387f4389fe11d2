//! `engine`, and `where` of stages and agents.

use vik_core::workflow::Engine;

use super::*;

const ENGINE: &str = "engine: {temporal: {address: \"host:7233\", task_queue: q}}\nagents:\n";

/// Returns the finding of the minimal workflow with an engine that has one more key.
#[track_caller]
fn temporal(key: &str, code: &str) -> Diagnostic {
    top(
        &format!("engine: {{temporal: {{address: \"host:7233\", task_queue: q, {key}}}}}"),
        code,
    )
}

#[test]
fn engine_has_defaults() {
    let loaded = load(&minimal_with(&[("agents:\n", ENGINE)]));
    assert_eq!(loaded.diagnostics, []);
    let Some(Engine::Temporal(temporal)) = loaded.workflow.unwrap().engine else {
        panic!("no engine");
    };
    assert_eq!(temporal.address.as_str(), "host:7233");
    assert_eq!(temporal.namespace, "default");
    assert_eq!(temporal.task_queue.as_str(), "q");
    assert_eq!(
        (temporal.tls, temporal.api_key, temporal.payload_key),
        (None, None, None)
    );
    assert_eq!(temporal.heartbeat, vik_core::duration::Span::secs(30));
}

#[test]
fn engine_is_absent_from_workflows_on_one_machine() {
    for text in [MINIMAL.to_owned(), format!("{MINIMAL}engine:\n")] {
        let loaded = load(&text);
        assert_eq!(loaded.diagnostics, []);
        let workflow = loaded.workflow.unwrap();
        assert_eq!(workflow.engine, None);
        // What was stored before there was an engine is the same text.
        let stored = serde_json::to_string(&workflow).unwrap();
        assert!(
            !stored.contains("engine") && !stored.contains("worker_labels"),
            "{stored}"
        );
        assert_eq!(serde_json::from_str::<Workflow>(&stored).unwrap(), workflow);
    }
}

#[test]
fn engine_needs_an_address_and_a_task_queue() {
    top("^engine: {}", "missing_key");
    let finding = top("engine: {^temporal: {task_queue: q}}", "missing_key");
    assert_eq!(finding.path, "engine.temporal.address");
    let finding = top("engine: {^temporal: {address: \"host:1\"}}", "missing_key");
    assert_eq!(finding.path, "engine.temporal.task_queue");
}

#[test]
fn engine_mistakes_have_their_places() {
    for address in ["host", "\"http://host:1\"", "\"host:0\"", "\"u:p@host:1\""] {
        let text = format!("engine: {{temporal: {{address: ^{address}, task_queue: q}}}}");
        let finding = top(&text, "bad_engine");
        assert!(!finding.message.contains("host"), "{finding:?}");
    }
    top(
        "engine: {temporal: {address: \"host:1\", task_queue: ^a/b}}",
        "bad_engine",
    );
    for heartbeat in ["2s", "5m1s"] {
        let finding = temporal(&format!("heartbeat: ^{heartbeat}"), "out_of_range");
        assert_eq!(finding.message, "expected a duration from 3s to 5m");
    }
    temporal("tls: {^cert_file: a.pem}", "bad_engine");
    temporal("tls: {^key_file: a.key}", "bad_engine");
    temporal("tls: {ca_file: ^$HOME/ca.pem}", "bad_path");
    for key in ["tls: {^verify: false}", "^tsl: {}"] {
        assert_eq!(temporal(key, "unknown_key").severity, Severity::Error, "{key}");
    }
}

#[test]
fn engine_accepts_the_bounds_of_the_heartbeat() {
    for heartbeat in ["3s", "5m"] {
        let engine = ENGINE.replace("task_queue: q", &format!("task_queue: q, heartbeat: {heartbeat}"));
        assert_eq!(load(&minimal_with(&[("agents:\n", &engine)])).diagnostics, []);
    }
}

#[test]
fn engine_secret_is_a_name_and_never_a_value() {
    for key in ["api_key", "payload_key"] {
        for value in ["literal-5ecret", "\"literal-5ecret${A}\"", "7777777"] {
            let finding = temporal(&format!("{key}: ^{value}"), "bad_engine");
            let shown = format!("{} {:?}", finding.message, finding.hint);
            assert!(!shown.contains("5ecret") && !shown.contains("777"), "{shown}");
        }
        let finding = temporal(&format!("{key}: ^\"${{NONE}}\""), "unknown_secret");
        assert_eq!(finding.path, format!("engine.temporal.{key}"));
    }
}

#[test]
fn engine_uses_its_secrets() {
    let engine = ENGINE.replace(
        "task_queue: q",
        "task_queue: q, api_key: \"${A}\", payload_key: \"${B}\"",
    );
    let secrets = format!("secrets: {{A: {{env: V}}, B: {{file: key}}}}\n{engine}");
    assert_eq!(load(&minimal_with(&[("agents:\n", &secrets)])).diagnostics, []);
}

#[test]
fn where_needs_an_engine() {
    agent("^where: {labels: [gpu]}", "bad_where");
    stage("^where: {labels: [gpu]}", "bad_where");
    let nothing = ("agent:", "where:\n      agent:");
    assert_eq!(load(&minimal_with(&[nothing])).diagnostics, []);
}

#[test]
fn where_labels_are_a_set() {
    let labels = ("agent:", "where: {labels: [linux, gpu, linux]}\n      agent:");
    let loaded = load(&minimal_with(&[("agents:\n", ENGINE), labels]));
    assert_eq!(loaded.diagnostics, []);
    let stage = &loaded.workflow.unwrap().issue.stages[0];
    let labels: Vec<_> = stage.worker_labels.iter().map(|label| label.as_str()).collect();
    assert_eq!(labels, ["gpu", "linux"]);
}

#[test]
fn where_label_mistakes_have_their_places() {
    let with = |labels: &str, code| {
        let stage = format!("where: {{{labels}}}\n      agent:");
        one(&[("agents:\n", ENGINE), ("agent:", &stage)], code)
    };
    for label in ["-a", "a/b", "a b", "é", &"x".repeat(65)] {
        with(&format!("labels: [gpu, ^{label}]"), "bad_where");
    }
    with("labels: ^gpu", "wrong_type");
    with("labels: [^7]", "wrong_type");
    let finding = with("^label: [gpu]", "unknown_key");
    assert_eq!(finding.severity, Severity::Error);
    let list = |count: usize| vec!["a"; count].join(", ");
    with(&format!("^labels: [{}]", list(65)), "out_of_range");
    let most = format!("where: {{labels: [{}]}}\n      agent:", list(64));
    let text = minimal_with(&[("agents:\n", ENGINE), ("agent:", &most)]);
    assert_eq!(load(&text).diagnostics, []);
}
