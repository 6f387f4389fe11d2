//! The text of notifications, and which facts follow from events.

use std::path::Path;

use jiff::Timestamp;
use vik_control::figures::{self, Window};
use vik_core::ids::{IssueId, RunId};
use vik_core::issue::Pull;
use vik_core::machine::ParkReason;
use vik_core::workflow::NotifyEvent;
use vik_orchestrator::Parked;

use super::debounce::{Batch, Debounce, LISTED};
use super::fact::Fact;
use super::message;

const ALL: [NotifyEvent; 5] = [
    NotifyEvent::Parked,
    NotifyEvent::Failed,
    NotifyEvent::OverBudget,
    NotifyEvent::WaitingForPerson,
    NotifyEvent::Trouble,
];

fn now() -> Timestamp {
    "2026-03-04T12:00:00Z".parse().unwrap()
}

fn parked(id: &str, title: &str, reason: ParkReason, detail: &str) -> Fact {
    parked_with_dependents(id, title, reason, detail, &[])
}

/// A parked issue that blocks others.
fn parked_with_dependents(
    id: &str,
    title: &str,
    reason: ParkReason,
    detail: &str,
    dependents: &[IssueId],
) -> Fact {
    let issue = serde_json::json!([{"id": id, "title": title, "state": "todo"}]);
    let issues = Pull::parse(issue.to_string().as_bytes()).unwrap().issues;
    Fact::parked(&Parked {
        dependents,
        issue: &issues[0],
        run: RunId(uuid::Uuid::from_u64_pair(1, 2)),
        stage: &"work".into(),
        since: now(),
        reason,
        detail,
    })
}

fn batch(facts: Vec<Fact>) -> Batch {
    Batch {
        facts,
        more: 0,
        lost: 0,
    }
}

fn shown(on: &[NotifyEvent], batch: &Batch) -> vik_api::Notification {
    let mut notification = message::of_batch("team", on, Path::new("/w/workflow.yml"), now(), batch).unwrap();
    notification.delivery_id = "ID".to_owned();
    notification
}

#[test]
fn parked_issue_is_rendered_as_json() {
    let fact = parked(
        "7",
        "Fix \u{1b}[31mit\nnow",
        ParkReason::Auth,
        "the key was refused",
    );
    insta::assert_json_snapshot!(shown(&ALL, &batch(vec![fact])));
}

#[test]
fn facts_are_rendered_as_text() {
    let limit = vik_core::limits::LimitHit {
        scope: vik_core::limits::LimitScope::Day,
        unit: vik_core::limits::LimitUnit::Tokens,
        spent: 120,
        limit: 100,
    };
    let facts = vec![
        parked("7", "Fix it", ParkReason::AttemptsUsedUp, "exit code 1"),
        parked("8\u{202e}", &"long ".repeat(100), ParkReason::OverBudget, ""),
        Fact::day_limit(now(), "2026-03-04".parse().unwrap(), &limit),
        Fact::trouble(
            now(),
            "edit_rejected",
            "workflow.yml:3:5: error: unknown agent `x`",
        ),
        Fact::trouble(now(), "ledger", "the disk is full"),
    ];
    let mut texts: Vec<_> = facts
        .iter()
        .map(|fact| shown(&ALL, &batch(vec![fact.clone()])).text)
        .collect();
    texts.push(
        shown(
            &ALL,
            &Batch {
                more: 12,
                lost: 3,
                ..batch(facts)
            },
        )
        .text,
    );
    texts.push(
        shown(
            &ALL,
            &Batch {
                lost: 3,
                ..batch(Vec::new())
            },
        )
        .text,
    );
    insta::assert_snapshot!(texts.join("\n---\n"));
}

#[test]
fn parked_issue_names_its_dependents() {
    let text = |dependents: &[String]| {
        let ids: Vec<_> = dependents.iter().map(|id| IssueId::new(id.as_str())).collect();
        let fact = parked_with_dependents("7", "Fix it", ParkReason::AttemptsUsedUp, "exit code 1", &ids);
        shown(&ALL, &batch(vec![fact])).text
    };
    let many: Vec<_> = (10..100).map(|number| number.to_string()).collect();
    let texts = [&[], &["8\u{202e}\n9".to_owned()][..], &many[..2], &many].map(text);
    insta::assert_snapshot!(texts.join("\n---\n"));
}

#[test]
fn daily_summary_is_rendered_as_text() {
    let window = Window::new("2026-03-03T08:00:00Z".parse().unwrap(), now(), None);
    let report = figures::report(None, window).unwrap();
    let notification = message::of_day("team", Path::new("/w/workflow.yml"), now(), report);
    insta::assert_snapshot!(notification.text);
}

#[test]
fn fact_is_sent_as_its_first_subscribed_event() {
    let fact = parked("7", "Fix it", ParkReason::OverBudget, "");
    let event = |on: &[NotifyEvent]| fact.item(on).map(|item| item.event);
    assert_eq!(event(&ALL).as_deref(), Some("parked"));
    assert_eq!(event(&[NotifyEvent::OverBudget]).as_deref(), Some("over_budget"));
    assert_eq!(
        event(&[NotifyEvent::WaitingForPerson]).as_deref(),
        Some("waiting_for_person")
    );
    assert_eq!(event(&[NotifyEvent::Failed, NotifyEvent::Trouble]), None);
    let nothing = message::of_batch(
        "a",
        &[NotifyEvent::Failed],
        Path::new("/w"),
        now(),
        &batch(vec![fact]),
    );
    assert_eq!(nothing, None);
}

#[test]
fn flood_of_facts_is_listed_up_to_a_limit() {
    let mut debounce = Debounce::default();
    for id in 0..LISTED + 20 {
        let fact = parked(&id.to_string(), "t", ParkReason::Lost, "");
        debounce.push(fact, std::time::Duration::ZERO);
    }
    let batch = debounce
        .take(std::time::Duration::ZERO, std::time::Duration::ZERO)
        .unwrap();
    let notification = shown(&ALL, &batch);
    assert_eq!((notification.items.len(), notification.more), (LISTED, 20));
    assert_eq!(notification.title, "Vik: 100 parked, 20 more");
}
