//! Tests the output for people.

use std::path::Path;

use jiff::Timestamp;
use serde_json::json;
use vik_api::{
    Author, BlameView, BlamedLines, BrokenRecord, IntentView, TraceCheck, TraceEntry, TracedAttempt,
};

use super::text;

fn attempt(seq: u64, agent: &str, model: Option<&str>) -> serde_json::Value {
    json!({
        "seq": seq, "at": Timestamp::UNIX_EPOCH, "issue_id": "42", "intent": "Say \u{1b}[31mhello\nto all",
        "stage": "build", "run_id": uuid::Uuid::nil(), "attempt": 2, "session_id": uuid::Uuid::nil(),
        "agent": agent, "runtime": "codex", "model": model, "revision": null,
    })
}

fn entry() -> TraceEntry {
    let file = |path: &str, change: &str, from: Option<&str>, whole: bool, class: Option<&str>| json!({"path": path, "change": change, "from": from, "added": 3, "removed": 1, "whole": whole, "class": class});
    let mut value = attempt(3, "coder", Some("opus"));
    let files = [
        file("src/main.rs", "modified", None, false, Some("AST_REFACTOR")),
        file("new\u{7}name", "renamed", Some("old"), false, None),
        file("logo.png", "added", None, true, None),
        file("gone", "deleted", None, false, None),
    ];
    let more = json!({"hash": "ab", "added": 9, "removed": 3, "files": files, "unseen": ["closed"]});
    value
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

fn attempt_author(seq: u64, agent: &str, model: Option<&str>) -> Author {
    let attempt: TracedAttempt = serde_json::from_value(attempt(seq, agent, model)).unwrap();
    Author::Attempt(Box::new(attempt))
}

#[test]
fn log_lists_changes_with_their_author() {
    insta::assert_snapshot!(text::log(&[entry(), entry()]));
}

#[test]
fn blame_names_the_author_of_each_line() {
    let lines = |start, end, author| BlamedLines { start, end, author };
    let mut view = BlameView {
        schema: 1,
        path: "src/main.rs".to_owned(),
        issue_id: None,
        lines: vec![
            lines(1, 2, Author::Outside),
            lines(3, 3, attempt_author(3, "coder", Some("anthropic/opus"))),
            lines(4, 4, attempt_author(12, "b", None)),
            lines(5, 5, Author::Unknown),
        ],
        whole: None,
    };
    insta::assert_snapshot!(text::blame(&view, b"one\r\n\ntwo\x1b[31m\nthree\nfour"));
    view.whole = Some(attempt_author(3, "coder", None));
    insta::assert_snapshot!(text::blame(&view, b"\0"));
}

#[test]
fn check_names_the_broken_line() {
    let mut check = TraceCheck {
        schema: 1,
        ok: true,
        records: 1,
        removed: 2,
        head: None,
        broken: None,
        cut_off: true,
    };
    let mut report = text::check(&check, Path::new("/t/trace.jsonl"));
    check.broken = Some(BrokenRecord {
        line: 2,
        problem: "its content does not match its hash".to_owned(),
    });
    report.push_str(&text::check(&check, Path::new("/t/trace.jsonl")));
    insta::assert_snapshot!(report);
}

#[test]
fn map_lists_files_with_their_changes() {
    let intent: IntentView = serde_json::from_value(json!({
        "issue_id": "42", "intent": "Say hello", "attempts": 2, "agents": ["coder", "reviewer"], "models": [],
        "files": [
            {"path": "src/main.rs", "changes": 2, "added": 10, "removed": 2, "classes": {"AST_REFACTOR": 1, "null": 1}, "deleted": false},
            {"path": "gone", "changes": 1, "added": 0, "removed": 2, "classes": {"INTENT_EVOLUTION": 1}, "deleted": true},
        ],
    }))
    .unwrap();
    insta::assert_snapshot!(text::map(&[intent.clone(), intent]));
}
