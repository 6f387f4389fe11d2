//! The text of notifications.

use std::fmt::Write as _;
use std::path::Path;

use jiff::Timestamp;
use vik_api::{LimitView, Notification, NotifiedItem, ReportView, SCHEMA};
use vik_base::report::{cost_text, count, one_line, spent};
use vik_core::workflow::NotifyEvent;

use super::debounce::Batch;

/// The maximum length of an issue's id in a title.
const ID: usize = 60;

/// Returns the notification of a batch for a notifier that subscribes to these events; `None` if
/// the batch contains none of them.
pub(super) fn of_batch(
    name: &str,
    on: &[NotifyEvent],
    workflow: &Path,
    at: Timestamp,
    batch: &Batch,
) -> Option<Notification> {
    let items: Vec<_> = batch.facts.iter().filter_map(|fact| fact.item(on)).collect();
    if items.is_empty() && batch.more == 0 && batch.lost == 0 {
        return None;
    }
    let first = items.first().map(|item| item.event.clone());
    let event = match first {
        Some(event) if items.iter().all(|item| item.event == event) => event,
        Some(_) => "several".to_owned(),
        None => "trouble".to_owned(),
    };
    let title = match &*items {
        [item] if batch.more == 0 => title(item),
        items => titles(items, batch.more, batch.lost),
    };
    let mut text = format!("{title}\n");
    for item in &items {
        text.push_str(&lines(item, items.len() > 1));
    }
    if batch.more > 0 {
        let _ = writeln!(text, "… and {} more; `vik status` shows them", batch.more);
    }
    if batch.lost > 0 {
        let _ = writeln!(
            text,
            "{} not sent: too many at once, or delivery failed",
            count(batch.lost, "thing")
        );
    }
    Some(finish(name, &event, workflow, at, title, text, |notification| {
        notification.items = items;
        notification.more = batch.more;
        notification.lost = batch.lost;
    }))
}

/// Returns the notification of a daily summary.
pub(super) fn of_day(name: &str, workflow: &Path, at: Timestamp, report: ReportView) -> Notification {
    let total = &report.total;
    let title = format!(
        "Daily summary: {} of {} done, {} of {} failed, {}",
        report.issues_succeeded,
        count(report.issues, "issue"),
        total.failed,
        count(total.attempts, "attempt"),
        cost_text(Some(total.spent.cost_usd), total.spent.estimated_usd),
    );
    let mut text = format!("{title}\nfrom {:.0} to {:.0}\n", report.since, report.until);
    for stage in &report.stages {
        let figures = &stage.figures;
        let _ = writeln!(
            text,
            "{}: {}, {} succeeded, {} failed, {}",
            one_line(stage.stage.as_str(), ID),
            count(figures.attempts, "attempt"),
            figures.succeeded,
            figures.failed,
            spent(&figures.spent, &LimitView::default()),
        );
    }
    finish(
        name,
        NotifyEvent::DailySummary.as_str(),
        workflow,
        at,
        title,
        text,
        |notification| {
            notification.summary = Some(Box::new(report));
        },
    )
}

/// Returns the notification of `vik notify test`.
pub fn test(name: &str, workflow: &Path, at: Timestamp) -> Notification {
    let title = "This is a test".to_owned();
    let text = format!("{title}\n`vik notify test` was run for the notifier {name}.\n");
    finish(name, "test", workflow, at, title, text, |_| ())
}

fn finish(
    name: &str,
    event: &str,
    workflow: &Path,
    at: Timestamp,
    title: String,
    mut text: String,
    fill: impl FnOnce(&mut Notification),
) -> Notification {
    let _ = writeln!(text, "workflow {}", one_line(&workflow.to_string_lossy(), 300));
    let mut notification = Notification {
        schema: SCHEMA,
        delivery_id: uuid::Uuid::now_v7().to_string(),
        notifier: name.to_owned(),
        event: event.to_owned(),
        at,
        workflow_path: workflow.to_owned(),
        title,
        text,
        items: Vec::new(),
        more: 0,
        lost: 0,
        summary: None,
    };
    fill(&mut notification);
    notification
}

/// Describes what happened to an issue.
fn event_phrase(item: &NotifiedItem) -> &'static str {
    match &*item.event {
        "parked" => "is parked",
        "failed" => "failed",
        "over_budget" => "is over budget",
        "waiting_for_person" => "is waiting for a person",
        _ => "is in trouble",
    }
}

fn title(item: &NotifiedItem) -> String {
    match (&item.issue_id, &item.stage) {
        (Some(issue), Some(stage)) => {
            let issue = one_line(issue.as_str(), ID);
            format!(
                "Issue {issue} {} at {} ({})",
                event_phrase(item),
                one_line(stage.as_str(), ID),
                item.reason
            )
        }
        _ => match &*item.reason {
            "day_limit" => "The daily limit is reached".to_owned(),
            "edit_rejected" => "The edited workflow is not valid; the previous one stays active".to_owned(),
            "ledger" => "The ledger failed: Vik is shutting down".to_owned(),
            other => format!("Vik: {other}"),
        },
    }
}

fn titles(items: &[NotifiedItem], more: u64, lost: u64) -> String {
    let mut kinds: Vec<(&str, u64)> = Vec::new();
    for item in items {
        match kinds.iter_mut().find(|(event, _)| *event == item.event) {
            Some((_, count)) => *count += 1,
            None => kinds.push((&item.event, 1)),
        }
    }
    let mut phrases: Vec<String> = kinds
        .iter()
        .map(|(event, count)| format!("{count} {}", event.replace('_', " ")))
        .collect();
    if more > 0 {
        phrases.push(format!("{more} more"));
    }
    if phrases.is_empty() {
        phrases.push(format!("{} not sent", count(lost, "thing")));
    }
    format!("Vik: {}", phrases.join(", "))
}

fn lines(item: &NotifiedItem, in_list: bool) -> String {
    let mut out = String::new();
    if in_list {
        let _ = writeln!(out, "- {}", title(item));
    }
    let indent = if in_list { "  " } else { "" };
    for (label, text) in [
        ("title", item.issue_title.as_str()),
        ("because", item.detail.as_str()),
        ("freed by", item.freed_by.as_deref().unwrap_or_default()),
    ] {
        if !text.is_empty() {
            let _ = writeln!(out, "{indent}{label}: {text}");
        }
    }
    out
}
