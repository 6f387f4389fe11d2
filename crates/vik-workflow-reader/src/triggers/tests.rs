//! Tests of the sections `webhooks` and `schedule`, and of errors in them.

use vik_core::duration::Span;

use crate::{Severity, load};

const MINIMAL: &str = "agents: {a: {runtime: codex, model: m}}\nissues: {pull: {command: x}}\n\
                    issue: {stages: {s: {when: {state: t}, agent: a, prompt: p}}}\n";

fn found(text: &str) -> Vec<(&'static str, String, u32, u32)> {
    let loaded = load(&format!("{text}\n{MINIMAL}"));
    let diagnostics = loaded.diagnostics.iter();
    diagnostics
        .map(|one| (one.code, one.message.clone(), one.line, one.column))
        .collect()
}

fn codes(text: &str) -> Vec<(&'static str, u32, u32)> {
    found(text)
        .into_iter()
        .map(|(code, _, line, column)| (code, line, column))
        .collect()
}

#[test]
fn triggers_are_absent_by_default() {
    let workflow = load(MINIMAL).workflow.unwrap();
    assert_eq!(workflow.webhooks, vik_core::workflow::Webhooks::default());
    assert!(workflow.schedule.is_empty());
}

#[test]
fn defaults_are_filled_in() {
    let text = "webhooks:\n  listen: 127.0.0.1:1\n  hooks: {a: {kind: github, secret_env: X}}\n\
                schedule:\n  n: {cron: '@daily', command: x}\n  p: {cron: '* * * * * *', pull: true}\n";
    let loaded = load(&format!("{text}{MINIMAL}"));
    assert_eq!(loaded.diagnostics, []);
    let workflow = loaded.workflow.unwrap();
    assert_eq!(workflow.webhooks.min_gap, Span::secs(2));
    let entry = &workflow.schedule["n"];
    assert_eq!((entry.time_zone.as_str(), entry.catch_up), ("UTC", false));
    assert_eq!(entry.job.as_ref().unwrap().timeout, Span::secs(60));
    assert_eq!(workflow.schedule["p"].job, None);
}

#[test]
fn mistakes_in_hooks_have_their_places() {
    let hooks = |text: &str| format!("webhooks:\n  listen: 127.0.0.1:1\n  hooks:\n    h: {text}");
    assert_eq!(codes(&hooks("{kind: github, secret_env: A}")), []);
    for (hook, code, column) in [
        ("{kind: githob, secret_env: A}", "unknown_value", 15),
        ("{kind: hmac, secret_env: A}", "missing_key", 5),
        ("{kind: hmac, secret_env: A, header: 'X: y'}", "bad_header", 44),
        ("{kind: linear, secret_env: A, header: X-A}", "unused_key", 38),
        ("{kind: linear, secret_env: 'A=b'}", "bad_env_name", 35),
    ] {
        assert_eq!(codes(&hooks(hook)), [(code, 4, column)], "{hook}");
    }
    let secret = found(&hooks("{kind: github, secret: s3cret, secret_env: A}"));
    assert_eq!((secret[0].0, secret.len()), ("unknown_key", 1));
    assert!(!secret[0].1.contains("s3cret"));
    assert_eq!(codes("webhooks: {hooks: {}}"), [("missing_key", 1, 1)]);
    assert_eq!(
        codes("webhooks: {listen: localhost, hooks: {}}"),
        [("bad_address", 1, 20)]
    );
    let open = load(&format!(
        "webhooks: {{listen: '0.0.0.0:1', hooks: {{}}}}\n{MINIMAL}"
    ));
    assert_eq!(open.diagnostics[0].code, "open_listener");
    assert_eq!(open.diagnostics[0].severity, Severity::Warning);
    assert!(open.workflow.is_some());
}

#[test]
fn mistakes_in_the_schedule_have_their_places() {
    let entry = |text: &str| format!("schedule:\n  n: {text}");
    let berlin = "{cron: '0 3 * * *', command: x, time_zone: Europe/Berlin}";
    assert_eq!(codes(&entry(berlin)), []);
    let long = "1,".repeat(9999);
    for bad in [
        "0 3 * *",
        "61 * * * *",
        "0 0 30 2 *",
        "@never",
        "x y z a b",
        &long,
    ] {
        let found = codes(&entry(&format!("{{cron: '{bad}', pull: true}}")));
        assert_eq!(found, [("bad_cron", 2, 13)], "{bad}");
    }
    let zone = load(&format!(
        "schedule: {{n: {{cron: '@daily', pull: true, time_zone: Europe/Berln}}}}\n{MINIMAL}"
    ));
    assert_eq!(zone.diagnostics[0].code, "unknown_time_zone");
    assert_eq!(
        zone.diagnostics[0].hint.as_deref(),
        Some("did you mean `Europe/Berlin`?")
    );
    for (keys, code, column) in [
        ("", "schedule_job", 3),
        (", pull: true, command: x", "schedule_job", 3),
        (", pull: true, timeout: 5", "unused_key", 35),
    ] {
        let found = codes(&entry(&format!("{{cron: '@daily'{keys}}}")));
        assert_eq!(found, [(code, 2, column)], "{keys}");
    }
}
