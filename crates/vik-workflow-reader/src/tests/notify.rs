//! Tests of notifiers: errors, warnings and edits.

use vik_core::workflow::edits;

use super::*;

fn with(notify: &str) -> Loaded {
    load(&format!("{MINIMAL}notify:\n  team: {{{notify}}}\n"))
}

#[track_caller]
fn one(notify: &str, code: &str) -> Diagnostic {
    let finding = only(&with(notify), code);
    assert!(finding.line > 13, "{finding:?}");
    finding
}

#[test]
fn notifier_errors_have_positions() {
    assert_eq!(
        one("kind: comand", "unknown_value").hint.unwrap(),
        "did you mean `command`? Expected `command` or `webhook`"
    );
    for (keys, code) in [
        ("command: x", "missing_key"),
        ("kind: command", "missing_key"),
        ("kind: command, command: 5", "wrong_type"),
        ("kind: webhook", "missing_key"),
        ("kind: webhook, url: 'ftp://x'", "webhook_url"),
        ("kind: webhook, url: 'https:///x'", "webhook_url"),
        ("kind: webhook, url: 'https://x', url_env: X", "webhook_url"),
        ("kind: webhook, url: 'https://x', secret_env: A=B", "bad_env_name"),
        ("kind: webhook, url: 'https://x', secret: s3", "unknown_key"),
        ("kind: webhook, url: 'https://x', command: x", "unused_key"),
        ("kind: command, command: x, secret_env: X", "unused_key"),
        ("kind: command, command: x, daily_at: '09:00'", "unused_key"),
        ("kind: command, command: x, on: []", "empty_value"),
    ] {
        one(keys, code);
    }
    let finding = one("kind: command, command: x, on: [parkd]", "unknown_value");
    assert_eq!(finding.path, "notify.team.on");
    for time in ["24:00", "8", "8:5", "08:60", "x", "0800"] {
        let daily = format!("kind: command, command: x, on: [daily_summary], daily_at: '{time}'");
        one(&daily, "bad_time");
    }
}

#[test]
fn edit_never_shows_a_notifier_address() {
    let webhook = |keys: &str| with(&format!("kind: webhook, {keys}")).workflow.unwrap();
    let old = webhook("url: 'https://hooks.example/secret-one'");
    let new = webhook("url: 'https://hooks.example/secret-two', debounce: 5s");
    let shown: Vec<_> = edits(&old, &new).iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        ["notify.team.url: changed", "notify.team.debounce: 30s -> 5s"]
    );
    let none = load(MINIMAL).workflow.unwrap();
    let shown: Vec<_> = edits(&none, &new).iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["notify.team: added"]);
}
