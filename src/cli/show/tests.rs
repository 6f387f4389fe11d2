use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;
use uuid::Uuid;
use vik_api::{Explained, SCHEMA};
use vik_core::changes::Decision;
use vik_core::decision_kind::DecisionKind;
use vik_core::ids::AttemptId;
use vik_core::outcome::{FailureClass, Outcome};

use super::timeline::{TimelineInput, timeline};

fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-03-03T23:50:00Z".parse().unwrap();
    start + SignedDuration::from_secs(seconds)
}

fn session(number: u64) -> AttemptId {
    AttemptId(Uuid::from_u64_pair(2, number))
}

fn outputs() -> Value {
    let key = "0123456789abcdef0123456789abcdef";
    json!([
        {"kind": "pull_request", "progress": "applied", "key": key, "summary": "Show\u{202e} the total"},
        {"kind": "label", "progress": "unknown", "key": key, "summary": "area/ui",
         "detail": "`outputs.label.run` did not\u{1b}[31m end within 5m"},
    ])
}

fn attempt(number: u64, from: i64, to: Option<i64>, outcome: Outcome) -> Value {
    let has_failed = outcome == Outcome::Failed;
    json!({
        "attempt": number, "session_id": session(number), "outcome": to.map(|_| outcome),
        "failure_class": has_failed.then_some(FailureClass::RateLimit),
        "reason": has_failed.then_some("429: the quota\u{1b}[31m\nis used up"),
        "exit_code": 1, "started_at": at(from), "ended_at": to.map(at),
        "duration_ms": to.map(|to| (to - from) * 1000),
        "usage": {"input_tokens": 11_000, "output_tokens": 1_000}, "cost_usd": 0.42, "cost_source": "price",
        "charged": to.map(|_| json!({"tokens": 20_000, "cost_usd": 0.5})),
        "resumed_from": (number == 2).then(|| session(1)), "proof": to.map(|_| "subreaper"),
        "outputs": if number == 2 { outputs() } else { json!([]) },
        "log": format!("/home/u/.vik/sessions/42/implement-{number}.jsonl"),
    })
}

fn decision(
    seconds: i64,
    stage: Option<&str>,
    attempt: Option<u64>,
    kind: DecisionKind,
    detail: &str,
) -> Decision {
    Decision {
        at: at(seconds),
        issue: Some("42".into()),
        stage: stage.map(Into::into),
        run: None,
        attempt_id: attempt.map(session),
        kind,
        detail: detail.to_owned(),
    }
}

fn all(seconds: i64, kind: DecisionKind) -> Decision {
    Decision {
        issue: None,
        ..decision(seconds, None, None, kind, "about all of them")
    }
}

fn explained(attempts: &[Value]) -> Explained {
    let running = attempts.iter().any(|attempt| attempt["outcome"].is_null());
    let title = "Fix the\u{202e} login";
    let hold = json!({
        "reason": "parked", "detail": "parked (attempts_used_up): 2 attempts",
        "freed_by": "a change of the issue, or `vik retry`",
    });
    let explained = json!({
        "schema": SCHEMA,
        "daemon": {"state": "running", "workflow_path": "/w.yml"},
        "issue_id": "42",
        "issue_title": title,
        "now": {
            "issue_id": "42", "issue_title": title, "issue_state": "todo",
            "issue_url": "https://tracker.example/42", "labels": ["bug"], "present": true, "paused": false,
            "stages": [{
                "stage": "implement", "state": if running { "running" } else { "held" },
                "attempts": 2, "max_attempts": 3, "hold": (!running).then_some(hold),
            }],
            "life": {
                "attempts": 1, "max_attempts": 15, "spent": {"tokens": 40_000, "cost_usd": 1.0}, "limit": {},
            },
        },
        "decisions": [],
        "runs": [{
            "run_id": "0195-run", "issue_id": "42", "issue_title": "Fix the login", "stage": "implement",
            "state": if running { "running" } else { "parked" }, "attempts": attempts,
        }],
    });
    serde_json::from_value(explained).unwrap()
}

fn decisions() -> Vec<Decision> {
    let stage = Some("implement");
    vec![
        all(-100, DecisionKind::Pause),
        decision(0, None, None, DecisionKind::Blocked, "waits for 7"),
        all(10, DecisionKind::Pause),
        all(20, DecisionKind::Resume),
        all(30, DecisionKind::Reloaded),
        decision(
            40,
            None,
            None,
            DecisionKind::Unblocked,
            "nothing that it waits for is open",
        ),
        decision(
            60,
            stage,
            Some(1),
            DecisionKind::Started,
            "attempt 1; it came first by its priority",
        ),
        decision(300, stage, Some(1), DecisionKind::Ended, "failed: 429"),
        decision(
            300,
            stage,
            None,
            DecisionKind::Quota,
            "1 attempt used; the next one waits 20m",
        ),
        decision(1500, stage, Some(2), DecisionKind::Started, "attempt 2"),
        decision(1900, stage, Some(2), DecisionKind::Ended, "failed: 429"),
        decision(
            1900,
            stage,
            None,
            DecisionKind::Parked,
            "attempts_used_up; freed by a change of the issue's title or description, or `vik retry`",
        ),
        decision(
            2000,
            stage,
            Some(9),
            DecisionKind::Ended,
            "lost: of this one\u{1b}[31m no file is left",
        ),
    ]
}

fn timeline_text(explained: &Explained, decisions: &[Decision], width: usize) -> String {
    let agents = HashMap::from([(session(1).to_string(), "coder".into())]);
    let life = TimelineInput {
        explained,
        decisions,
        agents: &agents,
        max_decisions: 2000,
    };
    let text = timeline(&life, at(4000), width);
    assert!(!text.contains('\x1b') && !text.contains('\u{202e}'));
    text
}

#[test]
fn timeline_fits_60_and_100_columns() {
    let explained = explained(&[
        attempt(1, 60, Some(300), Outcome::Failed),
        attempt(2, 1500, Some(1900), Outcome::Failed),
    ]);
    for width in [60, 100] {
        let text = timeline_text(&explained, &decisions(), width);
        insta::assert_snapshot!(format!("life_{width}"), text);
        for line in text.lines().skip(1).filter(|line| !line.contains(".jsonl")) {
            assert!(line.width() <= width, "{line}");
        }
    }
    insta::assert_snapshot!("life", timeline_text(&explained, &decisions(), usize::MAX));
}

#[test]
fn timeline_shows_a_running_attempt() {
    let explained = explained(&[attempt(1, 60, None, Outcome::Succeeded)]);
    insta::assert_snapshot!("running", timeline_text(&explained, &decisions()[..7], 100));
}

#[test]
fn timeline_works_without_attempts_or_ledger() {
    let mut none = explained(&[]);
    none.runs.clear();
    insta::assert_snapshot!("no_attempt", timeline_text(&none, &decisions()[1..2], 100));
    // Without decisions, the attempts are the only source.
    let mut past = explained(&[attempt(1, 60, Some(300), Outcome::Succeeded)]);
    past.now = None;
    insta::assert_snapshot!("no_ledger", timeline_text(&past, &[], 100));
}
