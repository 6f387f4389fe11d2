use std::path::Path;

use clap::Parser;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;
use uuid::Uuid;
use vik_core::ids::{AttemptId, RunId};
use vik_store::{AttemptFiles, AttemptRecord, PastAttempt};

use super::scripts::{ScriptOutputs, ScriptRun};
use super::style::OutputStyle;
use super::tail::Tail;
use super::transcript::Transcript;
use crate::cli::args::LogsArgs;

const PLAIN: OutputStyle = OutputStyle {
    width: 100,
    color: false,
    full: false,
    timestamps: false,
};

fn record(number: u64) -> AttemptRecord {
    AttemptRecord {
        schema: 2,
        run_id: RunId(Uuid::from_u64_pair(1, number)),
        session_id: AttemptId(Uuid::from_u64_pair(2, number)),
        issue_id: (&*format!("{}", 40 + number)).into(),
        issue_title: "Fix \u{1b}[31mthe\u{202e} login".to_owned(),
        issue_state: "todo".to_owned(),
        stage: "implement".into(),
        agent: "coder".into(),
        runtime: "codex".to_owned(),
        model: Some("gpt-5".to_owned()),
        attempt: 2,
        started_at: "2026-03-04T12:00:00Z".parse().unwrap(),
        workdir: "/w".into(),
        kept: None,
    }
}

/// Returns the transcript of events of one session, one second apart.
fn transcript_text(paper: OutputStyle, events: &[Value]) -> String {
    let mut transcript = Transcript::new(paper);
    let mut text = String::new();
    for (number, event) in events.iter().enumerate() {
        text.push_str(&transcript.line(&record(1), &stamped(number, event)));
    }
    text
}

fn stamped(second: usize, event: &Value) -> Vec<u8> {
    let mut event = event.clone();
    event["at"] = json!(format!(
        "2026-03-04T12:{:02}:{:02}.123Z",
        second / 60,
        second % 60
    ));
    event["seq"] = json!(second + 1);
    event.to_string().into_bytes()
}

/// Returns the text of events without the heading of their session.
fn body(paper: OutputStyle, events: &[Value]) -> String {
    let text = transcript_text(paper, events);
    let mut lines = text.split_inclusive('\n');
    let heading: Vec<_> = lines.by_ref().take(2).collect();
    assert!(heading[0].contains("── 41 implement"), "{heading:?}");
    lines.collect()
}

fn call(id: &str, tool: &str, input: &Value) -> Value {
    json!({"kind": "tool_call", "call_id": id, "tool": tool, "input": input})
}

fn result(id: &str, output: &Value) -> Value {
    json!({"kind": "tool_result", "call_id": id, "is_error": false, "output": output})
}

fn usage(tokens: u64) -> Value {
    json!({"kind": "token_usage", "usage": {"input_tokens": tokens, "output_tokens": 10}, "cost_usd": 0.5})
}

fn lines(count: usize) -> String {
    (1..=count).map(|number| format!("line {number}\n")).collect()
}

/// Returns a session with events of many kinds.
fn session() -> Vec<Value> {
    vec![
        json!({"kind": "session_started", "model": "gpt-5", "agent_version": "1.2", "provider_session_id": "abc"}),
        json!({"kind": "resumed", "resumed_from": Uuid::from_u64_pair(2, 0), "provider_session_id": "abc"}),
        json!({"kind": "reasoning", "text": "The test fails.\nLook at the parser first."}),
        json!({"kind": "message", "text": "I look at it.\n\n    an indented line\nand the last one"}),
        call(
            "1",
            "Bash",
            &json!({"command": "cargo test --workspace", "description": "Run the tests"}),
        ),
        result("1", &json!(lines(40))),
        usage(500),
        usage(30_000),
        usage(31_000),
        call(
            "2",
            "Edit",
            &json!({"file_path": "src/lib.rs", "old_string": "let a = 1;\nlet b = 2;", "new_string": "let a = 2;"}),
        ),
        result("2", &json!([{"type": "text", "text": "ok"}])),
        call("3", "command_execution", &json!("/bin/bash -lc 'git diff'")),
        result(
            "3",
            &json!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same"),
        ),
        call(
            "4",
            "file_change",
            &json!([{"path": "a.txt", "kind": "add"}, {"path": "b.txt", "kind": "update"}]),
        ),
        result("4", &Value::Null),
        call(
            "5",
            "Write",
            &json!({"file_path": "long.txt", "content": lines(30)}),
        ),
        json!({"kind": "tool_result", "call_id": "5", "is_error": true, "exit_code": 101, "output": lines(30)}),
        call(
            "6",
            "mcp__jira__find",
            &json!({"query": "login", "limit": 5, "note": "two\nlines"}),
        ),
        call("7", "Bash", &json!({"command": ["ls", "-la"]})),
        result("6", &json!({"content": [{"type": "text", "text": "found 3"}]})),
        result("7", &json!("")),
        json!({"kind": "subagent", "id": "s", "status": "started", "description": "look around"}),
        json!({"kind": "rate_limit", "status": "allowed", "utilization": 0.2}),
        json!({"kind": "rate_limit", "status": "allowed_warning", "utilization": 0.93, "resets_at_unix": 1_772_632_800}),
        json!({"kind": "approval", "tool": "Bash", "decision": "denied", "detail": "rm -rf /"}),
        json!({"kind": "error", "message": "Reconnecting... 2/5", "fatal": false, "failure_class": "network"}),
        json!({"kind": "limit", "scope": "attempt", "unit": "tokens", "spent": 85_000, "limit": 100_000, "percent": 85}),
        json!({"kind": "error", "message": "quota\nused up", "fatal": true, "failure_class": "rate_limit", "http_status": 429}),
        json!({"kind": "unknown", "raw": {"type": "new"}}),
        json!({"kind": "malformed", "line": "garbage"}),
        json!({"kind": "completed", "ok": false, "reason": "turn.failed"}),
        json!({"kind": "ended", "outcome": "failed", "failure_class": "rate_limit", "exit_code": 1, "signal": null, "duration_ms": 754_000,
            "usage": {"input_tokens": 31_000, "output_tokens": 1_000}, "cost_usd": 0.75, "cost_source": "price", "reason": "429: the quota\nis used up"}),
    ]
}

#[test]
fn session_is_shown_as_a_transcript() {
    insta::assert_snapshot!("session", transcript_text(PLAIN, &session()));
}

#[test]
fn timestamps_have_the_date_and_the_offset() {
    let paper = OutputStyle {
        timestamps: true,
        ..PLAIN
    };
    let text = body(paper, &[json!({"kind": "message", "text": "a"})]);
    assert_eq!(text, "2026-03-04 12:00:00 +00:00   a\n");
}

#[test]
fn script_is_shown_with_its_output_and_failure() {
    let mut transcript = Transcript::new(PLAIN);
    let mut script = ScriptRun {
        name: "verify".to_owned(),
        started_at: "2026-03-04T12:00:05Z".parse().unwrap(),
        ended_at: "2026-03-04T12:00:06Z".parse().unwrap(),
        failure: None,
    };
    assert_eq!(
        transcript.script(&record(1), &script, ""),
        "",
        "it printed nothing"
    );
    script.failure = Some("exited with 1".to_owned());
    let text = transcript.script(&record(1), &script, "no\u{1b}[2J\nreason\n");
    assert!(
        text.ends_with(
            "12:00:05 $ verify failed: exited with 1\n             no⟦U+001B⟧[2J\n             reason\n"
        ),
        "{text}"
    );
    // The script without output has not used up the heading with the date.
    assert!(text.lines().next().unwrap().contains("2026-"), "{text}");
}

#[test]
fn full_transcript_leaves_nothing_out() {
    let paper = OutputStyle { full: true, ..PLAIN };
    let text = transcript_text(paper, &session());
    insta::assert_snapshot!("session_full", text);
    assert!(!text.contains("omitted"));
}

#[test]
fn transcript_fits_60_columns() {
    let paper = OutputStyle { width: 60, ..PLAIN };
    let text = transcript_text(paper, &session());
    insta::assert_snapshot!("session_60", text);
    for line in text.lines() {
        assert!(line.width() <= 60, "{line}");
    }
}

#[test]
fn colours_mark_the_kind_of_a_line() {
    let paper = OutputStyle { color: true, ..PLAIN };
    let text = transcript_text(paper, &session());
    insta::assert_snapshot!("session_colours", text.replace('\x1b', "␛"));
    for (tone, shown) in [
        ("2", "The test fails."),
        ("32", "+new"),
        ("31", "-old"),
        ("36", "@@ -1 +1 @@"),
        ("31", "quota"),
        ("31", "-let a = 1;"),
    ] {
        assert!(
            text.contains(&format!("\x1b[{tone}m{shown}\x1b[0m")),
            "{shown}: {text}"
        );
    }
    // Colours are the only difference.
    let mut bare = text;
    for code in ["0", "1", "2", "31", "32", "33", "36"] {
        bare = bare.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(bare, transcript_text(PLAIN, &session()));
}

#[test]
fn transcript_of_several_sessions_names_the_session() {
    let mut transcript = Transcript::new(PLAIN);
    let mut text = String::new();
    let message = |text: &str| json!({"kind": "message", "text": text});
    for (second, (number, event)) in [
        (1, message("first")),
        (1, call("1", "Bash", &json!({"command": "make check"}))),
        (2, message("second")),
        (1, result("1", &json!("done\nand well"))),
        (1, usage(1)),
        (2, usage(1)),
        (1, message("again")),
        (2, message("and the other one")),
    ]
    .into_iter()
    .enumerate()
    {
        text.push_str(&transcript.line(&record(number), &stamped(second, &event)));
    }
    insta::assert_snapshot!("several", text);
}

#[test]
fn transcript_escapes_hostile_agent_text() {
    let hostile = "a\u{1b}[2Jb\u{202e}\r\u{7}\u{9b}31m";
    let events = [
        json!({"kind": "session_started", "model": hostile}),
        json!({"kind": "message", "text": hostile}),
        json!({"kind": "reasoning", "text": hostile}),
        call(hostile, hostile, &json!({"command": hostile, hostile: hostile})),
        json!({"kind": "message", "text": "between"}),
        json!({"kind": "tool_result", "call_id": hostile, "is_error": true, "output": hostile}),
        call(
            "2",
            "Edit",
            &json!({"path": hostile, "old_string": hostile, "new_string": hostile}),
        ),
        result("2", &json!({"stdout": hostile})),
        json!({"kind": "error", "message": hostile, "fatal": true}),
        json!({"kind": "error", "message": hostile, "fatal": true, "failure_class": hostile}),
        json!({"kind": "approval", "tool": hostile, "decision": hostile, "detail": hostile}),
        json!({"kind": "subagent", "status": hostile, "description": hostile}),
        json!({"kind": "rate_limit", "status": hostile}),
        json!({"kind": "resumed", "resumed_from": Uuid::nil(), "provider_session_id": hostile}),
        json!({"kind": "resume_failed", "resumed_from": Uuid::nil(), "reason": hostile}),
        json!({"kind": "output", "output": hostile, "status": hostile, "summary": hostile, "reason": hostile}),
        json!({"kind": "completed", "ok": false, "reason": hostile}),
        json!({"kind": "malformed", "line": hostile}),
        json!({"kind": hostile, hostile: hostile}),
        json!({"kind": "ended", "outcome": hostile, "failure_class": hostile}),
    ];
    for full in [false, true] {
        let text = transcript_text(OutputStyle { full, ..PLAIN }, &events);
        let hostile = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(hostile), "{text:?}");
    }
    let mut transcript = Transcript::new(PLAIN);
    let text = transcript.line(&record(1), b"\xff\x1b[2J no json");
    assert!(text.contains("? ") && !text.contains('\x1b'), "{text:?}");
}

#[test]
fn output_events_show_status_and_reason() {
    let output = |kind: &str, status: &str, summary: Option<&str>, reason: Option<&str>| json!({"kind": "output", "output": kind, "status": status, "summary": summary, "reason": reason});
    let events = [
        output("comment", "applied", Some("Done."), None),
        output("pull_request", "skipped", Some("Fix it"), None),
        output(
            "label",
            "failed",
            Some("area/ui"),
            Some("`outputs.label.run` exited with 7"),
        ),
        output("", "refused", None, Some("line 2: not valid JSON (not_json)")),
    ];
    insta::assert_snapshot!(body(PLAIN, &events));
}

#[test]
fn message_keeps_its_lines_and_blanks() {
    assert_eq!(
        body(PLAIN, &[json!({"kind": "message", "text": "a\n\n    b  c\n"})]),
        "12:00:00   a\n\n               b  c\n"
    );
}

#[test]
fn long_texts_are_shortened_with_the_omitted_count() {
    let events = [call("1", "Bash", &json!("echo")), result("1", &json!(lines(9)))];
    let text = body(PLAIN, &events);
    assert!(
        text.contains("line 4\n             … 2 lines omitted\n             line 7\n"),
        "{text}"
    );
    // A single line above the maximum is shown, since leaving it out would save nothing.
    let text = body(
        PLAIN,
        &[call("1", "Bash", &json!("echo")), result("1", &json!(lines(8)))],
    );
    assert!(!text.contains("omitted"), "{text}");
    let wide = OutputStyle {
        width: usize::MAX,
        ..PLAIN
    };
    let text = body(wide, &[call("1", "Bash", &json!("x".repeat(450)))]);
    assert!(text.len() < 600, "{text}");
    let text = body(
        wide,
        &[
            call("1", "Bash", &json!("echo")),
            result("1", &json!("y".repeat(450))),
        ],
    );
    assert!(text.contains(" … 50 characters omitted"), "{text}");
}

#[test]
fn usage_is_shown_only_after_large_changes() {
    let usages: Vec<_> = [100, 19_000, 21_000, 25_000, 40_000, 50_000, 51_000, 80_000]
        .into_iter()
        .map(usage)
        .collect();
    let text = transcript_text(PLAIN, &usages);
    let printed: Vec<_> = text.lines().filter(|line| line.contains("tokens")).collect();
    assert_eq!(printed.len(), 3, "{printed:?}");
    assert!(
        printed[0].contains("21.0k") && printed[1].contains("50.0k") && printed[2].contains("80.0k"),
        "{printed:?}"
    );
}

#[derive(Debug, Parser)]
struct Logs {
    #[command(flatten)]
    args: LogsArgs,
}

fn raw_tail(tail: &mut Tail, attempt: &PastAttempt, unmasked: bool) -> String {
    let flags: &[&str] = if unmasked {
        &["logs", "--raw", "--unmasked"]
    } else {
        &["logs", "--raw"]
    };
    let Logs { args } = Logs::parse_from(flags);
    let mut transcript = Transcript::new(PLAIN);
    let outputs = ScriptOutputs::new(Path::new("workflow.yml"));
    let mut out = Vec::new();
    let path = attempt.files.raw();
    tail.print(
        &path,
        attempt,
        &args,
        (&mut transcript, &outputs),
        (&mut out, false),
    )
    .unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn raw_output_is_followed_when_the_parts_of_answers_leave_it() {
    const PART: &str = "{\"type\":\"stream_event\",\"event\":{}}\n";
    let folder = tempfile::tempdir().unwrap();
    let record = AttemptRecord {
        runtime: "claude_code".to_owned(),
        ..record(1)
    };
    let attempt = PastAttempt {
        files: AttemptFiles::new(folder.path(), &record.stage, record.session_id),
        record,
        ended: None,
        ended_at: None,
    };
    let raw = attempt.files.raw();
    let (mut masked, mut unmasked) = (Tail::default(), Tail::default());
    let mut last = Tail::new(Some(1), None);
    std::fs::write(&raw, format!("one\n{PART}{PART}two\n")).unwrap();
    assert_eq!(raw_tail(&mut masked, &attempt, false), "one\ntwo\n");
    assert_eq!(
        raw_tail(&mut unmasked, &attempt, true),
        format!("one\n{PART}{PART}two\n")
    );
    assert_eq!(raw_tail(&mut last, &attempt, false), "two\n");
    let kept = folder.path().join("kept");
    std::fs::write(&kept, "one\ntwo\nthree\nend\n").unwrap();
    std::fs::rename(&kept, &raw).unwrap();
    for (tail, unmasked) in [(&mut masked, false), (&mut unmasked, true), (&mut last, false)] {
        assert_eq!(raw_tail(tail, &attempt, unmasked), "three\nend\n");
    }
}
