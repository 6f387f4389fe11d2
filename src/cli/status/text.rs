//! Formats the status for people.

use std::fmt::Write as _;

use jiff::Timestamp;
use vik_api::{
    ApprovalView, DayView, HubView, ParkedView, PullView, QuestionView, SessionView, SpendView, Status,
    WaitingView, WorkerView, WorkflowView,
};
use vik_base::report::{
    NARROW, ago, columns, cost, count, date_time, elapsed_suffix, fitted_table, label, one_line, short,
    spent, table_within, until, when, wrap,
};

use super::{retention, state};

/// The maximum number of waiting issues shown.
const MAX_WAITING: usize = 20;

/// The maximum number of ids in a row of waiting issues.
const MAX_IDS: usize = 4;

/// From this width on, a session fits on one line.
const WIDE: usize = 110;

/// Formats what a daemon does now, in at most `width` columns if possible.
pub fn text(status: &Status, now: Timestamp, width: usize) -> String {
    let mut out = head(status, now, width);
    out.push_str(&notices(status, now, width));
    // Issues that wait for a person are listed above the others.
    let others = |waiting: &&WaitingView| !matches!(waiting.reason.as_str(), "approval" | "question");
    let others: Vec<_> = status.waiting.iter().filter(others).collect();
    push_section(&mut out, &status.sessions, |list| sessions(list, now, width));
    push_section(&mut out, &status.workers, |list| workers(list, width));
    push_section(&mut out, &status.approvals, |list| approvals(list, now, width));
    push_section(&mut out, &status.questions, |list| questions(list, now, width));
    push_section(&mut out, &status.parked, |list| parked(list, now, width));
    push_section(&mut out, &others, |list| {
        waiting(list, status.waiting_more, now, width)
    });
    out
}

/// Appends a section, if there is anything in it.
fn push_section<T>(out: &mut String, list: &[T], text: impl Fn(&[T]) -> String) {
    if !list.is_empty() {
        out.push('\n');
        out.push_str(&text(list));
    }
}

fn head(status: &Status, now: Timestamp, width: usize) -> String {
    let daemon = &status.daemon;
    let since = daemon
        .started_at
        .map(|at| elapsed_suffix(" for ", at, now))
        .unwrap_or_default();
    let summary = format!(
        "vik {}{since} (pid {}) · {} running · {} waiting · {} parked",
        state(daemon.state),
        daemon.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        status.sessions.len(),
        status.waiting.len() + status.waiting_more,
        status.parked.len(),
    );
    let pull = last_pull(status.last_pull.as_ref(), status.pulls.failed_in_a_row, now);
    let mut out = String::new();
    push_wrapped(&mut out, &summary, width);
    let _ = writeln!(out, "workflow {}", daemon.workflow_path.display());
    if let Some(hub) = &status.hub {
        push_wrapped(&mut out, &leading_hub(hub), width);
    }
    for line in pull.lines() {
        push_wrapped(&mut out, line, width);
    }
    out
}

/// Returns which hub leads, and which one follows it and was asked.
fn leading_hub(hub: &HubView) -> String {
    let host = |host: &str| one_line(host, 60);
    let leader = match &hub.leader {
        Some(leader) => format!("{} leads", host(leader)),
        None => "none leads".to_owned(),
    };
    match &hub.follower {
        Some(follower) => format!("hub {leader}; this one, on {}, follows", host(follower)),
        None => format!("hub {leader}"),
    }
}

fn last_pull(pull: Option<&PullView>, failed_in_a_row: u64, now: Timestamp) -> String {
    match pull {
        None => "no pull has completed yet\n".to_owned(),
        Some(pull) if pull.ok => {
            let skipped = if pull.skipped > 0 {
                format!(", {} skipped", pull.skipped)
            } else {
                String::new()
            };
            let issues = count(pull.issues, "issue");
            let mut out = format!("last pull {}: {issues}{skipped}\n", when(pull.at, now));
            for warning in &pull.warnings {
                out.push_str(&format!("  warning: {}\n", one_line(warning, 200)));
            }
            out
        }
        Some(pull) => {
            let next = pull
                .next_at
                .map_or_else(String::new, |at| format!("  next pull {}\n", until(at, now)));
            format!(
                "last pull {} FAILED ({failed_in_a_row} in a row): {}\n{next}",
                when(pull.at, now),
                one_line(pull.error.as_deref().unwrap_or(""), 300)
            )
        }
    }
}

/// Returns notices that a person should see before the lists.
fn notices(status: &Status, now: Timestamp, width: usize) -> String {
    let mut out = String::new();
    if let Some(webhooks) = &status.webhooks {
        let _ = writeln!(
            out,
            "webhooks  http://{}/hooks/",
            one_line(&webhooks.address, 200)
        );
    }
    if let Some(api) = &status.api {
        let _ = writeln!(out, "dashboard http://{}/", one_line(&api.address, 200));
    }
    let has_figures = |day: &&DayView| day.limit.is_some() || day.spent != SpendView::default();
    if let Some(day) = status.day.as_ref().filter(has_figures) {
        let _ = writeln!(
            out,
            "today ({}, UTC): {}",
            day.date,
            spent(&day.spent, &day.limit)
        );
    }
    if status.paused {
        out.push_str("PAUSED: no new attempts start; resume with `vik resume`\n");
    }
    if !status.paused_issues.is_empty() {
        let ids: Vec<_> = status
            .paused_issues
            .iter()
            .map(|id| one_line(id.as_str(), 30))
            .collect();
        push_wrapped(&mut out, &format!("paused issues: {}", ids.join(", ")), width);
    }
    for held in &status.taken_over {
        let since = elapsed_suffix(" for ", held.since, now);
        let id = one_line(held.issue_id.as_str(), 30);
        let busy = if held.busy {
            "; its agent has not ended yet"
        } else {
            ""
        };
        let text = format!(
            "taken over: {id} ({}){since}, by {}{busy}; hand it back with `vik handback {id}`",
            one_line(&held.issue_state, 30),
            one_line(&held.by, 60),
        );
        push_wrapped(&mut out, &text, width);
    }
    for notifier in &status.notify {
        if let Some(since) = notifier.failing_since {
            let undelivered = match notifier.undelivered {
                1 => "1 delivery".to_owned(),
                count => format!("{count} deliveries"),
            };
            let text = format!(
                "notify {}: {undelivered} failing{}: {}",
                one_line(&notifier.name, 64),
                elapsed_suffix(" for ", since, now),
                one_line(notifier.error.as_deref().unwrap_or_default(), 300),
            );
            push_wrapped(&mut out, &text, width);
        }
    }
    if let Some(workflow) = &status.workflow {
        out.push_str(&edits(workflow, now, width));
    }
    if let Some(retention) = &status.retention {
        out.push_str(&retention::text(retention, now, width));
    }
    if let Some(error) = status.ledger.as_ref().and_then(|ledger| ledger.error.as_ref()) {
        push_wrapped(
            &mut out,
            &format!("THE LEDGER CANNOT BE WRITTEN, no new attempts start: {error}"),
            width,
        );
    }
    out
}

fn edits(workflow: &WorkflowView, now: Timestamp, width: usize) -> String {
    let mut out = String::new();
    if let Some(rejected) = &workflow.rejected {
        let text = format!(
            "THE WORKFLOW WAS EDITED {} AND IS INVALID; the version of {} stays active:",
            when(rejected.at, now),
            date_time(workflow.loaded_at),
        );
        push_wrapped(&mut out, &text, width);
        for diagnostic in &rejected.diagnostics {
            push_wrapped(&mut out, &format!("  {}", one_line(diagnostic, 400)), width);
        }
        match rejected.more {
            0 => out.push_str("  run `vik doctor` for details\n"),
            more => {
                let _ = writeln!(out, "  … and {more} more; `vik doctor` shows them");
            }
        }
    }
    if !workflow.needs_restart.is_empty() {
        let text = format!(
            "edited, effective only after `vik restart`: {}",
            workflow.needs_restart.join(", ")
        );
        push_wrapped(&mut out, &text, width);
    }
    out
}

/// Appends a notice. Wrapped lines are indented.
pub(super) fn push_wrapped(out: &mut String, text: &str, width: usize) {
    let indent = if text.starts_with("  ") { "    " } else { "  " };
    let first = if text.starts_with("  ") { "  " } else { "" };
    let text_width = width.saturating_sub(indent.len());
    for (index, line) in wrap(text, text_width).iter().enumerate() {
        let _ = writeln!(out, "{}{line}", if index == 0 { first } else { indent });
    }
}

/// Lists what waits for a person: the only list that asks the reader to act.
fn approvals(approvals: &[ApprovalView], now: Timestamp, width: usize) -> String {
    let heading = "WAITING FOR APPROVAL: `vik approve ISSUE` or `vik deny ISSUE`";
    let mut out = String::new();
    push_wrapped(&mut out, heading, width);
    for approval in approvals {
        let request = &approval.request;
        let text = format!(
            "  {} {}{}: {} ({} {})",
            one_line(approval.issue_id.as_str(), 30),
            approval.stage,
            elapsed_suffix(" for ", request.since, now),
            one_line(&approval.detail, 400),
            request.on_timeout.done(),
            until(request.until, now),
        );
        push_wrapped(&mut out, &text, width);
    }
    out
}

fn questions(questions: &[QuestionView], now: Timestamp, width: usize) -> String {
    let heading = "QUESTIONS OF AGENTS: `vik answer ISSUE TEXT` or `vik answer ISSUE --choice N`";
    let mut out = String::new();
    push_wrapped(&mut out, heading, width);
    for open in questions {
        let question = &open.question;
        let text = format!(
            "  {} {}{}: {}",
            one_line(open.issue_id.as_str(), 30),
            open.stage,
            elapsed_suffix(" for ", question.since, now),
            one_line(&question.message(), 1_000),
        );
        push_wrapped(&mut out, &text, width);
        for (at, choice) in question.question.choices.iter().enumerate() {
            push_wrapped(
                &mut out,
                &format!("    {}. {}", at + 1, one_line(choice, 200)),
                width,
            );
        }
        if let Some(timeout) = &question.timeout {
            let answer = one_line(&timeout.answer, 200);
            push_wrapped(
                &mut out,
                &format!("    answered with `{answer}` {}", until(timeout.at, now)),
                width,
            );
        }
    }
    out
}

fn sessions(sessions: &[SessionView], now: Timestamp, width: usize) -> String {
    let facts: Vec<_> = sessions.iter().map(|session| facts(session, now)).collect();
    let header = [
        "ISSUE", "STAGE", "AGENT", "ATTEMPT", "SINCE", "IDLE", "TOKENS", "COST", "NOW",
    ];
    // The activity has its own line if the terminal is not wide.
    let table = if width >= WIDE {
        return table_within(width, header, &facts);
    } else if width < NARROW {
        let names = ["ISSUE", "STAGE", "ATTEMPT", "SINCE", "TOKENS", "COST"];
        fitted_table(width, names, &columns(names, header, &facts))
    } else {
        let names = [
            "ISSUE", "STAGE", "AGENT", "ATTEMPT", "SINCE", "IDLE", "TOKENS", "COST",
        ];
        fitted_table(width, names, &columns(names, header, &facts))
    };
    let mut out = String::new();
    for (index, line) in table.lines().enumerate() {
        let _ = writeln!(out, "{line}");
        if let Some([.., doing]) = index.checked_sub(1).and_then(|row| facts.get(row)) {
            for line in wrap(doing, width.saturating_sub(4)) {
                let _ = writeln!(out, "    {line}");
            }
        }
    }
    out
}

fn facts(session: &SessionView, now: Timestamp) -> [String; 9] {
    [
        one_line(session.issue_id.as_str(), 30),
        session.stage.to_string(),
        session.agent.to_string(),
        session.attempt.to_string(),
        ago(session.since, now),
        session
            .last_event_at
            .map_or_else(|| "-".to_owned(), |at| ago(at, now)),
        tokens_of(session),
        cost_of(session),
        doing(session, now),
    ]
}

fn doing(session: &SessionView, now: Timestamp) -> String {
    let mut doing = match &session.activity {
        Some(activity) => one_line(activity, 60),
        None => label(&session.phase),
    };
    if session.resumed_from.is_some() {
        doing = format!("resumed · {doing}");
    }
    if session.adopted {
        doing = format!("adopted · {doing}");
    }
    if let Some(worker) = &session.worker {
        doing = format!("on {worker} · {doing}");
    }
    if let Some(live) = session.live_text(now) {
        doing = format!("{doing} · {}", one_line(&live, 200));
    }
    doing
}

/// Formats tokens as `12.3k`, or `12.3k/50.0k` with a limit.
fn tokens_of(session: &SessionView) -> String {
    let used = session.usage.total().max(session.charged.tokens);
    match (used, session.budget.tokens) {
        (0, None) => "-".to_owned(),
        (used, None) => short(used),
        (used, Some(max)) => format!("{}/{}", short(used), short(max)),
    }
}

fn cost_of(session: &SessionView) -> String {
    let used = session
        .cost_usd
        .or((session.charged.cost_usd > 0.0).then_some(session.charged.cost_usd));
    match session.budget.usd {
        None => cost(used),
        Some(max) => format!("{}/{}", cost(used), cost(Some(max))),
    }
}

fn workers(workers: &[WorkerView], width: usize) -> String {
    let rows: Vec<_> = workers
        .iter()
        .map(|worker| {
            let labels = worker.label_list();
            [
                worker.name.to_string(),
                label(worker.state.as_str()),
                format!("{} of {}", worker.running, worker.capacity),
                one_line(&worker.version, 30),
                if labels.is_empty() { "-".to_owned() } else { labels },
            ]
        })
        .collect();
    table_within(width, ["WORKER", "STATE", "RUNNING", "VERSION", "LABELS"], &rows)
}

fn parked(parked: &[ParkedView], now: Timestamp, width: usize) -> String {
    let rows: Vec<_> = parked
        .iter()
        .map(|parked| {
            [
                one_line(parked.issue_id.as_str(), 30),
                parked.stage.to_string(),
                ago(parked.since, now),
                format!(
                    "{}: {}\nfreed by {}",
                    label(&parked.reason),
                    one_line(&parked.detail, 300),
                    parked.freed_by
                ),
            ]
        })
        .collect();
    table_within(width, ["PARKED", "STAGE", "SINCE", "WHY"], &rows)
}

/// Lists waiting issues. Those that wait for the same reason, without a time, share a row.
fn waiting(waiting: &[&WaitingView], more: usize, now: Timestamp, width: usize) -> String {
    let mut groups: Vec<Vec<&WaitingView>> = Vec::new();
    for one in waiting {
        let cause = |view: &WaitingView| (view.stage.clone(), view.reason.clone(), view.detail.clone());
        let same = groups
            .iter_mut()
            .find(|group| one.until.is_none() && group[0].until.is_none() && cause(group[0]) == cause(one));
        match same {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    let rows: Vec<_> = groups
        .iter()
        .take(MAX_WAITING)
        .map(|group| {
            let first = group[0];
            let is_same = group.iter().all(|one| one.attempts == first.attempts);
            [
                ids(group),
                first.stage.to_string(),
                first
                    .until
                    .map_or_else(|| "-".to_owned(), |until| ago(now, until)),
                if is_same {
                    first.attempts.to_string()
                } else {
                    "-".to_owned()
                },
                why(first),
            ]
        })
        .collect();
    let mut out = table_within(width, ["WAITING", "STAGE", "IN", "ATTEMPTS", "WHY"], &rows);
    let more = groups.iter().skip(MAX_WAITING).map(Vec::len).sum::<usize>() + more;
    if more > 0 {
        let _ = writeln!(out, "… and {more} more");
    }
    out
}

/// Returns the ids of a group, and the number of those that are left out.
fn ids(group: &[&WaitingView]) -> String {
    let ids = group.iter().take(MAX_IDS);
    let ids: Vec<_> = ids.map(|one| one_line(one.issue_id.as_str(), 30)).collect();
    match group.len().saturating_sub(MAX_IDS) {
        0 => ids.join(", "),
        more => format!("{} and {more} more", ids.join(", ")),
    }
}

fn why(waiting: &WaitingView) -> String {
    let (reason, detail) = (label(&waiting.reason), one_line(&waiting.detail, 200));
    if detail.is_empty() {
        reason
    } else if detail.starts_with(&reason) {
        detail
    } else {
        format!("{reason}: {detail}")
    }
}
