use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vik_api::{
    ApiView, ApprovalView, ContextView, DaemonState, HubView, LimitView, QuestionView, RetentionView, SCHEMA,
    SessionView, SpendView, Status, StoppingView, WaitingView, WaitsForView,
};
use vik_core::approval::{Call, Gate, OnTimeout, Request};
use vik_core::ids::AttemptId;
use vik_core::question::{DefaultAnswer, PendingQuestion, Question};

use super::text;

fn now() -> Timestamp {
    "2026-03-04T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn session(issue: &str, stage: &str) -> SessionView {
    from_json(json!({
        "session_id": format!("0195-{issue}"), "issue_id": issue, "issue_title": "Fix it", "stage": stage,
        "agent": "codex", "model": "m", "attempt": 2, "phase": "running", "since": ago(754),
        "last_event_at": ago(3), "activity": "command_execution cargo test --workspace --all-targets",
        "events": 40, "usage": {"input_tokens": 11_000, "output_tokens": 1_345}, "cost_usd": 0.42,
        "charged": {"tokens": 12_345, "cost_usd": 0.42}, "log": "/home/u/.vik/x.jsonl",
    }))
}

#[test]
fn live_text_shows_waits_and_the_stop() {
    let mut session = session("42", "implement");
    assert_eq!(session.live_text(now()), None);
    let mut text = |kind: &str, detail: Option<&str>| {
        session.waits_for = Some(WaitsForView {
            kind: kind.to_owned(),
            detail: detail.map(str::to_owned),
            since: ago(200),
        });
        session.live_text(now()).unwrap()
    };
    assert_eq!(text("tool", Some("Bash")), "waits 3m for Bash");
    assert_eq!(text("tool", None), "waits 3m for a tool");
    assert_eq!(text("person", None), "waits 3m for a person");
    assert_eq!(text("model", None), "waits 3m for the model");
    session.waits_for = None;
    session.context = Some(ContextView {
        used: 900,
        window: None,
    });
    let mut stop = |step: &str, next_step_at| {
        session.stopping = Some(StoppingView {
            why: "cancelled".to_owned(),
            step: step.to_owned(),
            next_step_at,
        });
        session.live_text(now()).unwrap()
    };
    let interrupted = stop("interrupt", Some(ago(-4)));
    assert_eq!(
        interrupted,
        "stopping (interrupt, terminate in 4s): cancelled · context 900 tokens"
    );
    assert!(stop("terminate", Some(ago(-1))).starts_with("stopping (terminate, kill in 1s): "));
    assert!(stop("kill", None).starts_with("stopping (kill): cancelled"));
}

fn parked(issue: &str, reason: &str, detail: &str, freed_by: &str) -> Value {
    json!({
        "run_id": "0195-run", "issue_id": issue, "issue_title": "A title", "stage": "implement",
        "since": ago(11_000), "reason": reason, "detail": detail, "freed_by": freed_by,
    })
}

fn waiting(issue: &str, reason: &str, detail: &str, until: Option<i64>) -> WaitingView {
    from_json(json!({
        "issue_id": issue, "issue_title": "A title", "stage": "implement", "reason": reason,
        "detail": detail, "until": until.map(|seconds| ago(-seconds)), "attempts": 1,
    }))
}

fn worker(name: &str, state: &str, labels: &[&str]) -> Value {
    json!({
        "name": name, "labels": labels, "state": state, "running": 1, "capacity": 4,
        "version": "0.2.0\u{1b}[2J",
    })
}

fn approval(issue: &str, gate: Gate, call: Option<Call>) -> ApprovalView {
    let request = Request {
        id: "r".to_owned(),
        gate,
        rule: call.as_ref().map(|_| "command git push".to_owned()),
        call,
        outputs: Vec::new(),
        since: ago(7200),
        until: ago(-3600),
        on_timeout: OnTimeout::Deny,
    };
    ApprovalView {
        run_id: "run".to_owned(),
        session_id: None,
        issue_id: issue.into(),
        issue_title: "Title".to_owned(),
        stage: "implement".into(),
        detail: vik_orchestrator::api_view::describe_request(&request),
        request,
    }
}

fn question(issue: &str, choices: &[&str]) -> QuestionView {
    let question = Question {
        text: "Which format?\u{1b}[2J".to_owned(),
        choices: choices.iter().map(|&choice| choice.to_owned()).collect(),
        default: None,
    };
    let timeout = choices.first().map(|&choice| DefaultAnswer {
        at: ago(-3600),
        answer: choice.to_owned(),
    });
    QuestionView {
        run_id: "run".to_owned(),
        issue_id: issue.into(),
        issue_title: "Title".to_owned(),
        stage: "implement".into(),
        needs_person: choices.is_empty(),
        question: PendingQuestion {
            id: AttemptId(uuid::Uuid::nil()),
            question,
            since: ago(7200),
            timeout,
        },
    }
}

/// Returns the status of a daemon in which every part has content.
fn eventful() -> Status {
    let mut first = session("42", "implement");
    first.budget = from_json(json!({"tokens": 50_000, "usd": 2.5}));
    first.adopted = true;
    first.waits_for = from_json(json!({"kind": "model", "detail": "thinking", "since": ago(42)}));
    first.tokens_per_second = Some(47.6);
    first.context = from_json(json!({"used": 12_345, "window": 200_000}));
    first.rate_limit = from_json(json!({"used_percent": 92.0}));
    first.resumed_from = Some("0195-before".to_owned());
    first.worker = Some("gpu-1".parse().unwrap());
    let push = Call {
        tool: "Bash\u{202e}".to_owned(),
        command: Some("git push\n--force".to_owned()),
        paths: Vec::new(),
    };
    let freed_by = "a change of the issue's title or description, or `vik retry`";
    from_json(json!({
        "schema": SCHEMA, "state": "draining", "pid": 4711, "started_at": ago(93_600), "version": "0.2.0",
        "workflow_path": "/home/u/project/workflow.yml", "home": "/home/u/project/.vik",
        "last_pull": {
            "at": ago(2), "ok": false, "issues": 0, "skipped": 0, "duration_ms": 60_000,
            "error": "the command did not end within 60s", "next_at": ago(-18),
        },
        "pulls": {"ok": 812, "failed": 5, "failed_in_a_row": 3},
        "sessions": [first, session("京都-7", "review")],
        "questions": [question("51", &["old", "new"]), question("52", &[])],
        "approvals": [
            approval("43", Gate::Before, None),
            approval("44", Gate::After, None),
            approval("45", Gate::Call, Some(push)),
        ],
        "parked": [
            parked("7", "no_progress", "3 attempts succeeded, yet the issue kept its state", freed_by),
            parked(
                "8", "auth",
                "401: the key\u{1b}[31m is not valid, or has been revoked; see https://example.com/keys for \
                 the keys of this account",
                "a login or key that works, then `vik retry`",
            ),
        ],
        "waiting": [
            waiting("9", "quota", "the provider's quota is used up", Some(7_530)),
            waiting("10", "blocked", "issues 42 and 7 come first", None),
            waiting("11", "slot", "", None),
        ],
        "waiting_more": 9_980,
        "paused": true,
        "paused_issues": ["3", "5"],
        "workflow": {
            "loaded_at": ago(93_600),
            "rejected": {
                "at": ago(60), "more": 2,
                "diagnostics": ["workflow.yml:3:14: error: `codx` is no runtime; did you mean `codex`?"],
            },
            "needs_restart": ["workspace.root"],
        },
        "workers": [
            worker("build-2", "mismatched_workflow", &[]),
            worker("gpu-1", "ready", &["cuda-12", "gpu", "linux"]),
        ],
        "day": {
            "date": "2026-03-04", "spent": {"tokens": 1_234_567, "cost_usd": 12.5}, "limit": {"usd": 50.0},
        },
        "ledger": {
            "path": "/home/u/project/.vik/workflows/x/service/vik.db",
            "error": "the disk of /home/u/project/.vik/workflows/x/service/vik.db is full",
        },
        "notify": [
            {"name": "well", "undelivered": 0, "failures_in_a_row": 0, "given_up": 0},
            {"name": "team", "undelivered": 3, "failures_in_a_row": 5, "given_up": 0,
             "failing_since": ago(600), "error": "hooks.example answered 503 Service Unavailable"},
        ],
        "retention": {
            "unlisted": "7d", "ledger": "keep", "trace": "keep", "scratch": "7d", "sessions": "90d",
            "last_scan_at": ago(1800), "problems": ["sessions: permission denied"], "unlisted_issues": 3,
            "removed": {
                "workspaces": 12, "scratch": 0, "sessions": 1, "attempts": 0, "trace_records": 0,
                "bytes": 3_500_000,
            },
            "kept": [{
                "issue_id": "9\u{202e}", "data": "workspace", "reason": "it contains uncommitted changes",
                "at": ago(1800),
            }],
            "kept_more": 4,
        },
    }))
}

#[test]
fn eventful_status_is_shown_at_80_columns() {
    let text = text(&eventful(), now(), 80);
    insta::assert_snapshot!("eventful_80", text);
    assert!(!text.contains('\x1b'));
}

#[test]
fn eventful_status_is_shown_at_120_columns() {
    insta::assert_snapshot!("eventful_120", text(&eventful(), now(), 120));
}

#[test]
fn status_lines_fit_the_terminal_width() {
    for width in [66, 80, 100, 120, 200] {
        for line in text(&eventful(), now(), width).lines() {
            assert!(
                unicode_width::UnicodeWidthStr::width(line) <= width,
                "{width}: {line}"
            );
        }
    }
}

#[test]
fn eventful_status_is_shown_as_json() {
    insta::assert_json_snapshot!("eventful", eventful());
}

#[test]
fn quiet_status_shows_the_dashboard_and_today_if_spent() {
    let mut status = eventful();
    status.daemon.state = DaemonState::Running;
    (
        status.sessions,
        status.parked,
        status.waiting,
        status.waiting_more,
    ) = (Vec::new(), Vec::new(), Vec::new(), 0);
    (status.paused, status.workflow, status.ledger) = (false, None, None);
    status.paused_issues.clear();
    let pull = json!({"at": ago(2), "ok": true, "issues": 1, "skipped": 0, "duration_ms": 10});
    status.last_pull = from_json(pull);
    status.notify.clear();
    status.workers.clear();
    status.retention = Some(RetentionView::default());
    status.api = Some(ApiView {
        address: "127.0.0.1:8080".to_owned(),
    });
    // Spending is shown without a limit too, unless it is zero.
    let day = status.day.as_mut().unwrap();
    day.limit = LimitView::default();
    let with = text(&status, now(), 80);
    status.day.as_mut().unwrap().spent = SpendView::default();
    let without = text(&status, now(), 80);
    insta::assert_snapshot!("quiet", with);
    assert!(with.contains("\ntoday ") && !without.contains("today "));
}

#[test]
fn status_of_an_older_daemon_is_read() {
    let text = r#"{"schema":1,"state":"running","pid":1,"started_at":null,"version":"0.1.0","workflow_path":"/w.yml",
        "home":null,"last_pull":null,"pulls":{"ok":0,"failed":0,"failed_in_a_row":0},"parked":[],
        "waiting":[{"run_id":null,"issue_id":"1","stage":"s","reason":"slot","until":null,"attempts":0}],
        "sessions":[{"session_id":"a","issue_id":"1","issue_title":"t","stage":"s","agent":"a","model":null,
        "attempt":1,"phase":"running","since":"2026-03-04T11:00:00Z","last_event_at":null,"activity":null,"events":0,
        "usage":{},"cost_usd":null,"log":"/l"}]}"#;
    let status: Status = serde_json::from_str(text).unwrap();
    assert!(status.ledger.is_none() && status.sessions[0].budget == LimitView::default());
}

#[test]
fn issues_that_wait_for_one_cause_share_a_row() {
    let mut status = eventful();
    status.waiting = (1..=9)
        .map(|number| waiting(&number.to_string(), "no_slot", "10 of 10 slots are taken", None))
        .collect();
    status.waiting[2].attempts += 1;
    status
        .waiting
        .push(waiting("10", "backoff", "the last attempt failed", Some(60)));
    status
        .waiting
        .push(waiting("11", "backoff", "the last attempt failed", Some(90)));
    let text = text(&status, now(), 120);
    let (_, rows) = text.split_once("WAITING  ").unwrap();
    let rows: Vec<_> = rows.lines().skip(1).collect();
    assert!(rows[0].starts_with("1, 2, 3, 4 and 5 more  "), "{text}");
    assert!(rows[0].ends_with("no slot: 10 of 10 slots are taken"), "{text}");
    assert!(
        rows[1].starts_with("10  ") && rows[2].starts_with("11  "),
        "{text}"
    );
}

#[test]
fn hub_that_leads_is_named_on_itself_and_on_its_followers() {
    let mut status = eventful();
    let mut shown = |follower: Option<&str>| {
        status.hub = Some(HubView {
            leader: Some("build-1\u{1b}[2J".to_owned()),
            follower: follower.map(str::to_owned),
        });
        let json = serde_json::to_value(&status).unwrap()["hub"].to_string();
        let text = text(&status, now(), 80);
        let line = text.lines().find(|line| line.starts_with("hub ")).unwrap();
        format!("{line}\n{json}")
    };
    insta::assert_snapshot!("hub_leads", shown(None));
    insta::assert_snapshot!("hub_follows", shown(Some("build-2")));
}
