//! Data of a daemon for tests.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use vik_api::{
    ApprovalView, DiffView, EventsPage, Explained, Explanation, IssuesPage, ParkedView, SessionView, Status,
    WaitingView,
};

use crate::app::App;
use crate::msg::{Command, Msg};

pub(crate) fn now() -> Timestamp {
    "2026-03-04T12:00:00Z".parse().unwrap()
}

pub(crate) fn later(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

fn ago(seconds: i64) -> String {
    later(-seconds).to_string()
}

pub(crate) fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn pick(n: usize, of: &[&'static str]) -> &'static str {
    of[n % of.len()]
}

const TITLES: [&str; 5] = [
    "Fix the flaky test in the parser of durations",
    "Add --json to the report",
    "Crash when the workspace is on another disk",
    "日本語のタイトルを正しく表示する",
    "Speed up the scan of large logs by reading them backwards from their end, block by block",
];

pub(crate) fn session(n: usize) -> SessionView {
    let doing = [
        "Bash: cargo test --all-targets",
        "Edit src/parser/duration.rs",
        "thinking",
        "Read docs/reference.md",
    ];
    let cost = [Some(0.42), None, Some(4.4), Some(0.0031), None][n % 5];
    let issue = if n % 2 == 1 {
        format!("{}", 40 + n)
    } else {
        format!("PROJ-{}", 100 + n)
    };
    from_json(json!({
        "session_id": format!("0198a7c2-1111-7000-8000-{n:012}"),
        "issue_id": issue, "issue_title": TITLES[n % 5],
        "stage": pick(n, &["plan", "implement", "review"]), "agent": pick(n, &["codex", "claude", "vex"]),
        "model": pick(n, &["gpt-5-codex", "claude-opus-4", "local"]), "attempt": 1 + n % 2,
        "phase": pick(n, &["running", "running", "verifying", "running", "preparing"]),
        "since": ago(785 + n as i64 * 977), "last_event_at": (n % 5 != 4).then(|| ago(3 + n as i64 * 71)),
        "activity": (n % 5 != 4).then(|| doing[n % 4]), "events": 1200 + n,
        "usage": {"input_tokens": 123_400 * (n + 1), "cached_input_tokens": 100_000, "output_tokens": 12_000},
        "cost_usd": cost,
        "charged": {"tokens": 135_400 * (n + 1), "cost_usd": cost.unwrap_or(0.0)},
        "budget": {"tokens": (n == 1).then_some(1_000_000), "usd": matches!(n % 5, 0 | 2).then_some(5.0)},
        "adopted": n == 2, "resumed_from": (n == 0).then_some("0198a7c2-0000-7000-8000-000000000001"),
        "log": "/home/me/project/.vik/workflows/-home-me-project-workflow.yml/sessions/40/plan-0198a7c2.jsonl",
    }))
}

pub(crate) fn parked(issue: &str) -> ParkedView {
    from_json(json!({
        "run_id": "0198a7c2-3333-7000-8000-000000000001", "issue_id": issue, "stage": "implement",
        "since": ago(4_000), "reason": "no_progress",
        "detail": "3 attempts ended well, yet no commit and no file changed and the state stayed `ready`",
        "freed_by": format!("a change of title, description or state, or `vik retry {issue}`"),
    }))
}

pub(crate) fn approval(issue: &str, gate: &str) -> ApprovalView {
    let is_call = gate == "call";
    from_json(json!({
        "run_id": "0198a7c2-3333-7000-8000-000000000001", "session_id": null, "issue_id": issue, "issue_title": TITLES[1],
        "stage": "implement", "id": format!("{issue}.{gate}"), "gate": gate,
        "call": is_call.then(|| json!({"tool": "Bash", "command": "git push --force origin main"})),
        "since": ago(if is_call { 90 } else { 4_000 }), "until": later(if is_call { 810 } else { 82_400 }),
        "on_timeout": "deny",
        "detail": if is_call { "a person must approve a call of `Bash`: git push --force origin main" }
            else { "a person must approve the start" },
    }))
}

pub(crate) fn waiting(n: usize) -> WaitingView {
    let details = [
        "10 of 10 slots are taken",
        "the last attempt failed (overloaded)",
        "blocked by 42, which is open",
    ];
    from_json(json!({
        "run_id": null, "issue_id": format!("{}", 60 + n), "stage": pick(n, &["plan", "implement"]),
        "reason": pick(n, &["slot", "backoff", "blocked"]), "detail": details[n % 3],
        "until": (n % 3 == 1).then(|| later(42).to_string()), "attempts": n % 3,
    }))
}

pub(crate) fn explanation(issue: &str, n: usize) -> Explanation {
    from_json(json!({
        "issue_id": issue, "issue_title": TITLES[n % 5], "issue_state": "ready", "present": n % 4 != 3, "paused": false,
        "hold": null,
        "stages": [{
            "stage": "implement", "state": pick(n, &["held", "running", "waiting"]), "run_id": "r", "session_id": null,
            "last_outcome": "failed", "last_class": "verify", "attempts": 3, "max_attempts": 3,
            "hold": {"reason": "attempts_used_up", "detail": "3 of 3 attempts failed", "since": ago(300),
                "until": null, "freed_by": format!("`vik retry {issue}`")},
        }],
        "life": {"attempts": 3, "max_attempts": 15, "spent": {"tokens": 400_000, "cost_usd": 1.2},
            "limit": {"tokens": null, "usd": 10.0}},
        "day": null,
    }))
}

pub(crate) fn explained(issue: &str) -> Explained {
    let attempt = |n: i64| {
        json!({
            "attempt": n, "session_id": format!("0198a7c2-2222-7000-8000-00000000000{n}"), "outcome": "failed",
            "failure_class": "verify", "reason": "`cargo test` exited with 101", "exit_code": 0,
            "started_at": ago(900 - n * 200), "ended_at": ago(800 - n * 200), "duration_ms": 100_000,
            "usage": {"input_tokens": 120_000, "output_tokens": 3_000}, "cost_usd": 0.4, "log": "/l",
        })
    };
    from_json(json!({
        "schema": 1, "daemon": {"state": "running", "pid": 1, "workflow_path": "/w"}, "issue_id": issue,
        "now": explanation(issue, 0),
        "decisions": [
            {"at": ago(900), "stage": "implement", "kind": "started", "detail": "attempt 1 with codex"},
            {"at": ago(700), "stage": "implement", "kind": "failed", "detail": "verify: `cargo test` exited with 101"},
        ],
        "runs": [{"run_id": "r", "issue_id": issue, "issue_title": TITLES[0], "stage": "implement", "state": "parked",
            "outcome": "failed", "attempts": [attempt(1), attempt(2)]}],
    }))
}

pub(crate) fn status(sessions: usize) -> Status {
    from_json(json!({
        "schema": 1, "state": "running", "pid": 4242, "started_at": ago(7_985), "version": "0.2.0",
        "workflow_path": "/home/me/projects/very/deep/project/workflow.yml", "home": "/home/me/project/.vik",
        "last_pull": {"at": ago(4), "ok": true, "issues": 17, "skipped": 1, "duration_ms": 200},
        "pulls": {"ok": 10, "failed": 1, "failed_in_a_row": 0},
        "sessions": (0..sessions).map(session).collect::<Vec<_>>(),
        "approvals": [approval("31", "before"), approval("PROJ-102", "call")],
        "parked": [parked("31"), parked("PROJ-7")], "waiting": (0..5).map(waiting).collect::<Vec<_>>(),
        "day": {"date": "2026-03-04", "spent": {"tokens": 4_200_000, "cost_usd": 3.2},
            "limit": {"tokens": null, "usd": 20.0}},
        "workflow": {"loaded_at": ago(5_000), "rejected": null},
        "ledger": {"path": "/x/vik.db", "error": null}, "api": {"address": "127.0.0.1:8080"},
    }))
}

pub(crate) fn issues() -> IssuesPage {
    let issues: Vec<_> = (0..17).map(|n| explanation(&format!("{}", 30 + n), n)).collect();
    from_json(json!({"schema": 1, "issues": issues, "next": null, "total": 17}))
}

pub(crate) fn page(events: &[Value], last_seq: u64, ended: bool) -> EventsPage {
    let text =
        json!({"schema": 1, "session_id": "s", "events": events, "last_seq": last_seq, "ended": ended});
    // `RawValue` can be read from text only.
    serde_json::from_str(&text.to_string()).unwrap()
}

pub(crate) fn event(seq: u64, kind: &str, mut fields: Value) -> Value {
    fields["seq"] = seq.into();
    fields["at"] = ago(1_000 - seq as i64).into();
    fields["kind"] = kind.into();
    fields
}

pub(crate) fn log() -> Vec<Value> {
    let output = "running 2 tests\ntest one ... ok\ntest two ... FAILED\nerror: test failed\n";
    let thought = "The test fails only when the clock is between two seconds, so the span must be rounded somewhere before \
                   it is compared. I should look at how it is read, and what is done with what is left over.";
    vec![
        event(
            1,
            "session_started",
            json!({"agent_version": "0.50.0", "model": "gpt-5-codex"}),
        ),
        event(2, "reasoning", json!({"text": thought})),
        event(
            3,
            "message",
            json!({"text": "I look at how durations are read.\n\n- first the parser\n- then its tests"}),
        ),
        event(
            4,
            "tool_call",
            json!({"call_id": "a", "tool": "Read", "input": {"file_path": "src/duration.rs"}}),
        ),
        event(
            5,
            "tool_result",
            json!({"call_id": "a", "is_error": false, "output": "fn parse() {}\n"}),
        ),
        event(6, "token_usage", json!({"usage": {"input_tokens": 10}})),
        event(
            7,
            "tool_call",
            json!({"call_id": "b", "tool": "Bash", "input": {"command": "cargo test", "cwd": "/w"}}),
        ),
        event(
            8,
            "tool_result",
            json!({"call_id": "b", "is_error": true, "exit_code": 101, "output": output}),
        ),
        event(
            9,
            "error",
            json!({"message": "Reconnecting... 2/5", "fatal": false}),
        ),
        event(
            10,
            "limit",
            json!({"scope": "attempt", "unit": "usd", "spent": 4_000_000, "limit": 5_000_000, "percent": 80}),
        ),
        event(11, "unknown", json!({"raw": {"type": "news"}})),
        event(
            12,
            "tool_call",
            json!({"call_id": "c", "tool": "Bash", "input": {"command": ["cargo", "fmt"]}}),
        ),
    ]
}

pub(crate) fn diff() -> DiffView {
    let patch = "@@ -10,4 +10,5 @@ impl Span {\n fn parse(text: &str) {\n-    let trimmed = text;\n\
                 +    // Spaces around it are not wrong.\n+\tlet trimmed = text.trim();\n \
                 // and a line that is so long that it does not fit into the eighty columns of a small terminal at all\n";
    from_json(json!({
        "schema": 1, "base": "0123456789abcdef0123", "files_left_out": 2, "note": null,
        "files": [
            {"path": "crates/core/src/duration.rs", "change": "modified", "added": 2, "removed": 1, "patch": patch},
            {"path": "tests/durations.rs", "change": "added", "added": 1, "removed": 0, "patch": "@@ -0,0 +1 @@\n+one\n"},
            {"path": "logo.png", "change": "deleted", "added": 0, "removed": 0, "patch": null},
        ],
    }))
}

/// Returns a dashboard before the first message.
pub(crate) fn blank(columns: u16, rows: u16) -> App {
    App::new(now(), (columns, rows), TimeZone::UTC, "/run/vik.sock")
}

/// Returns a dashboard with this number of sessions.
pub(crate) fn app(columns: u16, rows: u16, sessions: usize) -> App {
    let mut app = blank(columns, rows);
    send(&mut app, Msg::State(Ok(Box::new(status(sessions)))));
    answer_issue(&mut app);
    app
}

/// Sends a message and answers the request for an issue.
pub(crate) fn send(app: &mut App, msg: Msg) -> Vec<Command> {
    app.update(now(), msg)
}

/// Answers the request for the current issue.
pub(crate) fn answer_issue(app: &mut App) {
    if let Some(issue) = app.current_issue().cloned() {
        let known = explained(issue.as_str());
        send(app, Msg::Issue(issue, Ok(Box::new(known))));
    }
}
