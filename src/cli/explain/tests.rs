use std::collections::BTreeSet;
use std::slice::from_ref;

use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vik_api::{DaemonState, Explained, HoldView, SCHEMA, StageState, StageView};
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::{Hold, NoWorker};
use vik_core::worker::WorkerLabel;

use super::text::text;

fn now() -> Timestamp {
    "2026-03-04T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn hold(reason: &str, detail: &str) -> HoldView {
    from_json(json!({"reason": reason, "detail": detail}))
}

fn stage(name: &str, state: StageState, hold: Option<HoldView>) -> StageView {
    let stage: StageView =
        from_json(json!({"stage": name, "state": state, "attempts": 1, "max_attempts": 3}));
    StageView { hold, ..stage }
}

fn explained(state: DaemonState, stages: &[StageView]) -> Explained {
    let title = "Fix the\u{202e} login";
    from_json(json!({
        "schema": SCHEMA,
        "daemon": {"state": state, "workflow_path": "/home/u/project/workflow.yml"},
        "issue_id": "42",
        "issue_title": title,
        "now": {
            "issue_id": "42", "issue_title": title, "issue_state": "todo",
            "issue_url": "https://tracker.example/42", "labels": ["bug"],
            "present": true, "paused": false, "stages": stages,
            "life": {
                "attempts": 4, "max_attempts": 15, "spent": {"tokens": 1_200_000, "cost_usd": 3.2},
                "limit": {"usd": 10.0},
            },
            "day": {
                "date": "2026-03-04", "spent": {"tokens": 2_000_000, "cost_usd": 12.0},
                "limit": {"tokens": 5_000_000},
            },
            "workspace": "kept, as found at 2026-03-04T11:00:00Z: it contains unpushed commits",
        },
        "decisions": [
            {"at": ago(900), "stage": "implement", "kind": "started",
             "detail": "attempt 1; it came first by its priority"},
            {"at": ago(600), "stage": "implement", "kind": "waits_for_quota",
             "detail": "429: the quota is used up; the window opens at 12:02"},
        ],
        "runs": [{
            "run_id": "0195-run", "issue_id": "42", "issue_title": "Fix the login", "stage": "implement",
            "state": "waiting", "outcome": "failed",
            "attempts": [{
                "attempt": 1, "session_id": "0195-a", "outcome": "failed", "failure_class": "rate_limit",
                "reason": "429: the quota\u{1b}[31m is used up", "exit_code": 1,
                "started_at": ago(900), "ended_at": ago(600), "duration_ms": 300_000,
                "usage": {"input_tokens": 11_000, "output_tokens": 1_000},
                "cost_usd": 0.42, "cost_source": "price", "charged": {"tokens": 20_000, "cost_usd": 0.5},
                "resumed_from": "0195-before", "proof": "subreaper", "hooks_run_twice": ["before_run"],
                "log": "/home/u/.vik/sessions/42/implement-0195-a.jsonl",
            }],
        }],
    }))
}

fn waits() -> Explained {
    let mut quota = hold("quota", "the provider's quota is used up");
    quota.until = Some(ago(-130));
    let mut stage = stage("implement", StageState::Waiting, Some(quota));
    stage.last_outcome = Some(Outcome::Failed);
    stage.last_class = Some(FailureClass::RateLimit);
    explained(DaemonState::Running, &[stage])
}

#[test]
fn waiting_issue_is_explained_as_text() {
    let text = text(&waits(), now(), 100);
    insta::assert_snapshot!("waits", text);
    assert!(!text.contains('\x1b') && !text.contains('\u{202e}'));
}

#[test]
fn waiting_issue_is_explained_as_json() {
    insta::assert_json_snapshot!("waits_json", waits());
}

/// Returns the answer: the second line, which is all that many people read.
fn answer(explained: &Explained) -> String {
    text(explained, now(), usize::MAX)
        .lines()
        .nth(1)
        .unwrap()
        .to_owned()
}

#[test]
fn issue_that_a_person_has_taken_over_is_not_called_parked() {
    let mut taken_over = hold("taken_over", "taken over by a person (uid 1000)");
    taken_over.freed_by = Some("`vik handback ISSUE`".to_owned());
    let stage = stage("implement", StageState::Held, Some(taken_over));
    assert_eq!(stage.state_label(), "taken over");
    let explained = explained(DaemonState::Running, &[stage]);
    let text = text(&explained, now(), usize::MAX);
    assert!(!text.contains("parked"), "{text}");
    // No stage takes it any more, and no daemon runs.
    let mut finished = self::explained(DaemonState::NotRunning, &[]);
    if let Some(explanation) = &mut finished.now {
        explanation.hold = Some(hold("taken_over", "taken over by a person (uid 1000)"));
    }
    let answer = answer(&finished);
    assert!(answer.contains("taken over by a person"), "{answer}");
}

#[test]
fn issue_that_waits_for_a_worker_is_explained() {
    let missing = NoWorker::MissingLabels {
        labels: BTreeSet::from(["gpu".parse::<WorkerLabel>().unwrap()]),
    };
    let full = NoWorker::WorkspaceFull {
        worker: "gpu-1".parse().unwrap(),
    };
    for (reason, expected) in [
        (NoWorker::NoneReady, "no worker is ready"),
        (missing, "no ready worker has the label `gpu`"),
        (NoWorker::AllFull, "all workers that fit are full"),
        (full, "the worker `gpu-1`, which has the workspace, is full"),
    ] {
        let hold = vik_orchestrator::api_view::hold(&Hold::NoWorker { reason });
        let explained = explained(
            DaemonState::Running,
            &[stage("implement", StageState::Waiting, Some(hold))],
        );
        let answer = answer(&explained);
        assert!(answer.contains(expected), "{answer}");
        let json = serde_json::to_value(&explained).unwrap();
        let hold = &json["now"]["stages"][0]["hold"];
        assert_eq!(
            (&hold["reason"], &hold["detail"]),
            (&json!("no_worker"), &json!(expected))
        );
    }
}

#[test]
fn answer_covers_all_states_of_an_issue() {
    let mut parked = hold("parked", "parked (auth): the key is not valid");
    parked.since = Some(ago(11_000));
    parked.freed_by = Some("a login or key that works, then `vik retry`".to_owned());
    let parked = stage("implement", StageState::Held, Some(parked));
    let slot = stage(
        "implement",
        StageState::Waiting,
        Some(hold("slot", "as many run as may be")),
    );
    let running = stage("implement", StageState::Running, None);
    let ready = stage("implement", StageState::Ready, None);
    let mut no_stage = explained(DaemonState::Running, &[]);
    if let Some(explanation) = &mut no_stage.now {
        explanation.hold = Some(hold("no_stage", "no stage handles this state"));
    }
    let mut done = no_stage.clone();
    done.daemon.state = DaemonState::NotRunning;
    let mut past = explained(DaemonState::Running, &[]);
    past.now = None;
    let mut answers = String::new();
    for explained in [
        explained(DaemonState::Running, &[running.clone(), slot.clone()]),
        explained(DaemonState::Running, &[ready]),
        explained(DaemonState::Running, from_ref(&slot)),
        explained(DaemonState::Running, from_ref(&parked)),
        no_stage,
        done,
        past,
        explained(DaemonState::NotRunning, &[parked]),
        explained(DaemonState::Dead, &[running]),
        explained(DaemonState::Dead, &[slot]),
        explained(DaemonState::NotRunning, &waits().now.unwrap().stages),
    ] {
        answers.push_str(&answer(&explained));
        answers.push('\n');
    }
    insta::assert_snapshot!("answers", answers);
}

#[test]
fn answer_lines_fit_the_terminal_width() {
    for width in [60, 80, 120] {
        let text = text(&waits(), now(), width);
        let answer = text.split("\nAttempts\n").next().unwrap();
        for line in answer.lines().skip(1) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn waiting_messages_are_counted() {
    let mut known = explained(DaemonState::Running, &[]);
    let none = text(&known, now(), 100);
    assert!(!none.contains("messages:"), "{none}");
    known.now.as_mut().unwrap().messages_waiting = 2;
    let some = text(&known, now(), 100);
    let expected = "messages: 2 wait for an agent; see them with `vik message 42 --list`\n";
    assert!(some.contains(expected), "{some}");
}
