//! Tests of notifiers: errors, warnings and edits.

use vik_core::workflow::edits;

use super::*;

fn with(notify: &str) -> Loaded {
    load(&format!("{MINIMAL}notify:\n  team:\n{notify}"))
}

#[track_caller]
fn one(notify: &str, code: &str) -> Diagnostic {
    let loaded = with(notify);
    let text = loaded.render("workflow.yml", false);
    assert_eq!(loaded.diagnostics.len(), 1, "{text}");
    assert_eq!(loaded.diagnostics[0].code, code, "{text}");
    assert!(loaded.diagnostics[0].line > 13, "{text}");
    loaded.diagnostics[0].clone()
}

#[test]
fn notifier_errors_have_positions() {
    assert_eq!(
        one("    kind: comand\n", "unknown_value").hint.unwrap(),
        "did you mean `command`? Expected `command` or `webhook`"
    );
    one("    command: x\n", "missing_key");
    one("    kind: command\n", "missing_key");
    one("    kind: command\n    command: 5\n", "wrong_type");
    one("    kind: webhook\n", "missing_key");
    one("    kind: webhook\n    url: ftp://x\n", "webhook_url");
    one("    kind: webhook\n    url: https:///x\n", "webhook_url");
    one(
        "    kind: webhook\n    url: https://x\n    url_env: X\n",
        "webhook_url",
    );
    one(
        "    kind: webhook\n    url: https://x\n    secret_env: A=B\n",
        "bad_env_name",
    );
    one(
        "    kind: webhook\n    url: https://x\n    secret: s3\n",
        "unknown_key",
    );
    one(
        "    kind: webhook\n    url: https://x\n    command: x\n",
        "unused_key",
    );
    one(
        "    kind: command\n    command: x\n    secret_env: X\n",
        "unused_key",
    );
    one(
        "    kind: command\n    command: x\n    daily_at: \"09:00\"\n",
        "unused_key",
    );
    one("    kind: command\n    command: x\n    on: []\n", "empty_value");
    assert_eq!(
        one(
            "    kind: command\n    command: x\n    on: [parkd]\n",
            "unknown_value"
        )
        .path,
        "notify.team.on"
    );
    for time in ["24:00", "8", "8:5", "08:60", "x", "0800"] {
        one(
            &format!(
                "    kind: command\n    command: x\n    on: [daily_summary]\n    daily_at: \"{time}\"\n"
            ),
            "bad_time",
        );
    }
}

#[test]
fn edit_never_shows_a_notifier_address() {
    let old = with("    kind: webhook\n    url: https://hooks.example/secret-one\n")
        .workflow
        .unwrap();
    let new = with("    kind: webhook\n    url: https://hooks.example/secret-two\n    debounce: 5s\n")
        .workflow
        .unwrap();
    let shown: Vec<_> = edits(&old, &new).iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        ["notify.team.url: changed", "notify.team.debounce: 30s -> 5s"]
    );
    let none = load(MINIMAL).workflow.unwrap();
    let shown: Vec<_> = edits(&none, &new).iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["notify.team: added"]);
}
