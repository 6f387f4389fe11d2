use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use unicode_width::UnicodeWidthStr;
use uuid::Uuid;
use vik_api::{
    AttemptView, Daemon, DaemonState, Explained, Explanation, HoldView, LifeView, LimitView, OutputView,
    RunState, RunView, SCHEMA, SpendView, StageState, StageView,
};
use vik_core::changes::Decision;
use vik_core::decision_kind::DecisionKind;
use vik_core::ids::AttemptId;
use vik_core::outcome::{CostSource, FailureClass, Outcome, Usage};

use super::timeline::{TimelineInput, timeline};

fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-03-03T23:50:00Z".parse().unwrap();
    start + SignedDuration::from_secs(seconds)
}

fn session(number: u64) -> AttemptId {
    AttemptId(Uuid::from_u64_pair(2, number))
}

fn outputs() -> Vec<OutputView> {
    let output = |kind: &str, progress: &str, summary: &str, detail: Option<&str>| OutputView {
        kind: kind.to_owned(),
        progress: progress.to_owned(),
        key: "0123456789abcdef0123456789abcdef".to_owned(),
        summary: summary.to_owned(),
        detail: detail.map(str::to_owned),
    };
    vec![
        output("pull_request", "applied", "Show\u{202e} the total", None),
        output(
            "label",
            "unknown",
            "area/ui",
            Some("`outputs.label.run` did not\u{1b}[31m end within 5m"),
        ),
    ]
}

fn attempt(number: u64, from: i64, to: Option<i64>, outcome: Outcome) -> AttemptView {
    AttemptView {
        turn: None,
        attempt: u32::try_from(number).unwrap(),
        session_id: session(number).to_string(),
        outcome: to.map(|_| outcome),
        failure_class: (outcome == Outcome::Failed).then_some(FailureClass::RateLimit),
        reason: (outcome == Outcome::Failed).then(|| "429: the quota\u{1b}[31m\nis used up".to_owned()),
        hand_over_failure: None,
        exit_code: Some(1),
        started_at: at(from),
        ended_at: to.map(at),
        duration_ms: to.map(|to| u64::try_from(to - from).unwrap() * 1000),
        usage: Usage {
            input_tokens: 11_000,
            output_tokens: 1_000,
            ..Usage::default()
        },
        cost_usd: Some(0.42),
        cost_source: CostSource::Price,
        charged: to.map(|_| SpendView {
            tokens: 20_000,
            cost_usd: 0.5,
            ..SpendView::default()
        }),
        resumed_from: (number == 2).then(|| session(1).to_string()),
        proof: to.map(|_| "subreaper".to_owned()),
        hooks_run_twice: Vec::new(),
        outputs: if number == 2 { outputs() } else { Vec::new() },
        log: format!("/home/u/.vik/sessions/42/implement-{number}.jsonl").into(),
        files_removed: false,
    }
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

fn explained(attempts: Vec<AttemptView>) -> Explained {
    let running = attempts.iter().any(|attempt| attempt.outcome.is_none());
    Explained {
        schema: SCHEMA,
        daemon: Daemon {
            state: DaemonState::Running,
            pid: None,
            started_at: None,
            version: None,
            workflow_path: "/w.yml".into(),
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
            stages: vec![StageView {
                turn: None,
                intent: None,
                stage: "implement".into(),
                state: if running {
                    StageState::Running
                } else {
                    StageState::Held
                },
                run_id: None,
                session_id: None,
                last_outcome: None,
                last_class: None,
                attempts: 2,
                max_attempts: 3,
                hold: (!running).then(|| HoldView {
                    root_cause: None,
                    reason: "parked".to_owned(),
                    detail: "parked (attempts_used_up): 2 attempts".to_owned(),
                    since: None,
                    until: None,
                    freed_by: Some("a change of the issue, or `vik retry`".to_owned()),
                }),
            }],
            life: LifeView {
                attempts: 1,
                max_attempts: Some(15),
                spent: SpendView {
                    tokens: 40_000,
                    cost_usd: 1.0,
                    ..SpendView::default()
                },
                limit: LimitView::default(),
            },
            day: None,
            workspace: None,
            messages_waiting: 0,
        }),
        decisions: Vec::new(),
        runs: vec![RunView {
            run_id: "0195-run".to_owned(),
            issue_id: "42".into(),
            issue_title: "Fix the login".to_owned(),
            stage: "implement".into(),
            state: if running {
                RunState::Running
            } else {
                RunState::Parked
            },
            outcome: None,
            attempts,
        }],
    }
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
    let explained = explained(vec![
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
    let explained = explained(vec![attempt(1, 60, None, Outcome::Succeeded)]);
    insta::assert_snapshot!("running", timeline_text(&explained, &decisions()[..7], 100));
}

#[test]
fn timeline_works_without_attempts_or_ledger() {
    let mut none = explained(Vec::new());
    none.runs.clear();
    insta::assert_snapshot!("no_attempt", timeline_text(&none, &decisions()[1..2], 100));
    // Without decisions, the attempts are the only source.
    let mut past = explained(vec![attempt(1, 60, Some(300), Outcome::Succeeded)]);
    past.now = None;
    insta::assert_snapshot!("no_ledger", timeline_text(&past, &[], 100));
}
