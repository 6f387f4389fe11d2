use jiff::{SignedDuration, Timestamp};
use vik_api::{
    AttemptView, Daemon, DaemonState, DayView, DecisionView, Explained, Explanation, HoldView, LifeView,
    LimitView, RunState, RunView, SCHEMA, SpendView, StageState, StageView,
};
use vik_core::outcome::{CostSource, FailureClass, Outcome, Usage};

use super::text::text;

fn now() -> Timestamp {
    "2026-03-04T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn hold(reason: &str, detail: &str) -> HoldView {
    HoldView {
        root_cause: None,
        reason: reason.to_owned(),
        detail: detail.to_owned(),
        since: None,
        until: None,
        freed_by: None,
    }
}

fn stage(name: &str, state: StageState, hold: Option<HoldView>) -> StageView {
    StageView {
        turn: None,
        intent: None,
        stage: name.into(),
        state,
        run_id: None,
        session_id: None,
        last_outcome: None,
        last_class: None,
        attempts: 1,
        max_attempts: 3,
        hold,
    }
}

fn decision(seconds: i64, kind: &str, detail: &str) -> DecisionView {
    DecisionView {
        at: ago(seconds),
        stage: Some("implement".into()),
        run_id: None,
        session_id: None,
        kind: kind.to_owned(),
        detail: detail.to_owned(),
    }
}

fn attempt() -> AttemptView {
    AttemptView {
        turn: None,
        attempt: 1,
        session_id: "0195-a".to_owned(),
        outcome: Some(Outcome::Failed),
        failure_class: Some(FailureClass::RateLimit),
        reason: Some("429: the quota\u{1b}[31m is used up".to_owned()),
        hand_over_failure: None,
        exit_code: Some(1),
        started_at: ago(900),
        ended_at: Some(ago(600)),
        duration_ms: Some(300_000),
        usage: Usage {
            input_tokens: 11_000,
            output_tokens: 1_000,
            ..Usage::default()
        },
        cost_usd: Some(0.42),
        cost_source: CostSource::Price,
        charged: Some(SpendView {
            tokens: 20_000,
            cost_usd: 0.5,
            ..SpendView::default()
        }),
        resumed_from: Some("0195-before".to_owned()),
        proof: Some("subreaper".to_owned()),
        hooks_run_twice: vec!["before_run".to_owned()],
        outputs: Vec::new(),
        log: "/home/u/.vik/sessions/42/implement-0195-a.jsonl".into(),
        files_removed: false,
    }
}

fn explained(state: DaemonState, stages: Vec<StageView>) -> Explained {
    Explained {
        schema: SCHEMA,
        daemon: Daemon {
            state,
            pid: None,
            started_at: None,
            version: None,
            workflow_path: "/home/u/project/workflow.yml".into(),
            home: None,
        },
        issue_id: "42".into(),
        issue_title: "Fix the\u{202e} login".to_owned(),
        issue: None,
        now: Some(Explanation {
            issue_id: "42".into(),
            issue_title: "Fix the\u{202e} login".to_owned(),
            issue_state: "todo".to_owned(),
            issue_url: Some("https://tracker.example/42".to_owned()),
            labels: vec!["bug".to_owned()],
            trust: vik_api::TrustView::Trusted,
            present: true,
            paused: false,
            hold: None,
            stages,
            life: LifeView {
                attempts: 4,
                max_attempts: Some(15),
                spent: SpendView {
                    tokens: 1_200_000,
                    cost_usd: 3.2,
                    ..SpendView::default()
                },
                limit: LimitView {
                    tokens: None,
                    usd: Some(10.0),
                },
            },
            day: Some(DayView {
                date: "2026-03-04".parse().unwrap(),
                spent: SpendView {
                    tokens: 2_000_000,
                    cost_usd: 12.0,
                    ..SpendView::default()
                },
                limit: LimitView {
                    tokens: Some(5_000_000),
                    usd: None,
                },
            }),
            workspace: Some(
                "kept, as found at 2026-03-04T11:00:00Z: it contains unpushed commits".to_owned(),
            ),
            messages_waiting: 0,
        }),
        decisions: vec![
            decision(900, "started", "attempt 1; it came first by its priority"),
            decision(
                600,
                "waits_for_quota",
                "429: the quota is used up; the window opens at 12:02",
            ),
        ],
        runs: vec![RunView {
            run_id: "0195-run".to_owned(),
            issue_id: "42".into(),
            issue_title: "Fix the login".to_owned(),
            stage: "implement".into(),
            state: RunState::Waiting,
            outcome: Some(Outcome::Failed),
            attempts: vec![attempt()],
        }],
    }
}

fn waits() -> Explained {
    let mut quota = hold("quota", "the provider's quota is used up");
    quota.until = Some(ago(-130));
    let mut stage = stage("implement", StageState::Waiting, Some(quota));
    stage.last_outcome = Some(Outcome::Failed);
    stage.last_class = Some(FailureClass::RateLimit);
    explained(DaemonState::Running, vec![stage])
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
    let explained = explained(DaemonState::Running, vec![stage]);
    let text = text(&explained, now(), usize::MAX);
    assert!(!text.contains("parked"), "{text}");
    // No stage takes it any more, and no daemon runs.
    let mut finished = self::explained(DaemonState::NotRunning, Vec::new());
    if let Some(explanation) = &mut finished.now {
        explanation.hold = Some(hold("taken_over", "taken over by a person (uid 1000)"));
    }
    let answer = answer(&finished);
    assert!(answer.contains("taken over by a person"), "{answer}");
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
    let mut no_stage = explained(DaemonState::Running, Vec::new());
    if let Some(explanation) = &mut no_stage.now {
        explanation.hold = Some(hold("no_stage", "no stage handles this state"));
    }
    let mut done = no_stage.clone();
    done.daemon.state = DaemonState::NotRunning;
    let mut past = explained(DaemonState::Running, Vec::new());
    past.now = None;
    let mut answers = String::new();
    for explained in [
        explained(DaemonState::Running, vec![running.clone(), slot.clone()]),
        explained(DaemonState::Running, vec![ready]),
        explained(DaemonState::Running, vec![slot.clone()]),
        explained(DaemonState::Running, vec![parked.clone()]),
        no_stage,
        done,
        past,
        explained(DaemonState::NotRunning, vec![parked]),
        explained(DaemonState::Dead, vec![running]),
        explained(DaemonState::Dead, vec![slot]),
        explained(DaemonState::NotRunning, waits().now.unwrap().stages),
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
    let mut known = explained(DaemonState::Running, Vec::new());
    let none = text(&known, now(), 100);
    assert!(!none.contains("messages:"), "{none}");
    known.now.as_mut().unwrap().messages_waiting = 2;
    let some = text(&known, now(), 100);
    let expected = "messages: 2 wait for an agent; see them with `vik message 42 --list`\n";
    assert!(some.contains(expected), "{some}");
}
