//! The details of the selected row.

use ratatui::layout::Rect;
use vik_api::{ApprovalView, Explained, HoldView, SessionView, WorkerView};
use vik_core::plural::count;
use vik_text::{optional, short};

use super::paint::Paint;
use crate::app::{App, Tab, life, spent};
use crate::rows::{activity, budget_share, issue_status, share_tone, stage_state, starts_in, worker_state};
use crate::table::{CellText, Tone};
use crate::text::{duration, fit_end, humanize, reason_text, seconds_between, short_duration, wrap};

/// The minimum number of columns for two halves.
const TWO_HALVES_MIN_COLUMNS: u16 = 120;
/// The width of the labels.
const LABEL: usize = 9;

struct Lines {
    lines: Vec<Vec<CellText>>,
    columns: usize,
}

impl Lines {
    fn put(&mut self, label: &str, text: &str, tone: Tone, max_lines: usize) {
        if text.is_empty() {
            return;
        }
        let (lines, _) = wrap(text, self.columns.saturating_sub(LABEL), max_lines);
        let mut label = format!("{label:<LABEL$}");
        for line in lines {
            let lead = std::mem::replace(&mut label, " ".repeat(LABEL));
            self.lines
                .push(vec![CellText::new(lead, Tone::Faint), CellText::new(line, tone)]);
        }
    }
}

pub(super) fn draw(app: &App, area: Rect, paint: &mut Paint<'_>) {
    if let Some(worker) = app.workers.current().filter(|_| app.tab == Tab::Workers) {
        return draw_worker(app, worker, area, paint);
    }
    let Some(issue) = app.current_issue() else {
        paint.rule(area.x, area.y, area.width, &[]);
        return;
    };
    let mut name = vec![CellText::new(issue.as_str(), Tone::Strong)];
    if let Some(title) = app.title_of(issue) {
        name.push(CellText::plain("  "));
        name.push(CellText::plain(title));
    }
    if app.is_taken_over(issue) {
        name.push(CellText::new("  taken over", Tone::Warn));
    }
    if app.paused_issues().contains(issue) {
        name.push(CellText::new("  paused", Tone::Warn));
    }
    paint.rule(area.x, area.y, area.width, &name);
    let inner = below_rule(area);
    let known = app.explained_for(issue);
    let two = area.width >= TWO_HALVES_MIN_COLUMNS;
    let left_width = if two { inner.width / 2 - 1 } else { inner.width };
    let mut left = Lines {
        lines: Vec::new(),
        columns: usize::from(left_width),
    };
    row_details(app, known, &mut left);
    let mut right = Lines {
        lines: Vec::new(),
        columns: usize::from(if two {
            inner.width - left_width - 2
        } else {
            inner.width
        }),
    };
    if let Some(known) = known {
        decisions(app, known, &mut right);
    }
    if two {
        write(
            &left.lines,
            Rect {
                width: left_width,
                ..inner
            },
            paint,
        );
        let x = inner.x + left_width + 2;
        let width = inner.width - left_width - 2;
        write(&right.lines, Rect { x, width, ..inner }, paint);
    } else {
        left.lines.append(&mut right.lines);
        write(&left.lines, inner, paint);
    }
}

/// Draws the details of a worker: its state, and the attempts on it.
fn draw_worker(app: &App, worker: &WorkerView, area: Rect, paint: &mut Paint<'_>) {
    let name = CellText::new(worker.name.as_str(), Tone::Strong);
    paint.rule(area.x, area.y, area.width, &[name]);
    let inner = below_rule(area);
    let mut out = Lines {
        lines: Vec::new(),
        columns: usize::from(inner.width),
    };
    let state = worker_state(worker);
    out.put("state", &state.text, state.tone, 1);
    out.put("labels", &worker.label_list(), Tone::Plain, 2);
    out.put("version", &worker.version, Tone::Faint, 1);
    let rows = app.sessions.rows().iter();
    for row in rows.filter(|row| row.worker.as_ref() == Some(&worker.name)) {
        let time = duration(seconds_between(row.since, app.now));
        let text = format!(
            "{} {}, attempt {}, for {time}",
            row.issue_id, row.stage, row.attempt
        );
        out.put("runs", &text, Tone::Plain, 1);
    }
    write(&out.lines, inner, paint);
}

/// Returns the area of the details below their rule.
fn below_rule(area: Rect) -> Rect {
    Rect {
        x: area.x + 2,
        y: area.y + 1,
        width: area.width.saturating_sub(3),
        height: area.height - 1,
    }
}

fn write(lines: &[Vec<CellText>], area: Rect, paint: &mut Paint<'_>) {
    for (y, line) in (area.top()..area.bottom()).zip(lines) {
        paint.line(area.x, y, area.width, line);
    }
}

fn row_details(app: &App, known: Option<&Explained>, out: &mut Lines) {
    match app.tab {
        Tab::Sessions => {
            if let Some(row) = app.sessions.current() {
                session(app, row, known, out);
            }
        }
        Tab::Parked => {
            if let Some(row) = app.parked.current() {
                let reason = format!("{}: {}", humanize(&row.reason), row.detail);
                out.put("reason", &reason, Tone::Plain, 4);
                out.put("freed by", &row.freed_by, Tone::Good, 3);
                let ago = duration(seconds_between(row.since, app.now));
                out.put(
                    "parked",
                    &format!("{ago} ago, in stage {}", row.stage),
                    Tone::Plain,
                    1,
                );
                issue_life(known, out);
                out.put("run", &row.run_id, Tone::Faint, 1);
            }
        }
        Tab::Waiting => {
            if let Some(row) = app.waiting.current() {
                let reason = reason_text(&row.reason, &row.detail);
                out.put("waits", &format!("for {reason}"), Tone::Plain, 4);
                let when = match starts_in(row, &app.row_context()).as_str() {
                    "-" => "time unknown".to_owned(),
                    "now" => "now".to_owned(),
                    span => format!("in {span}"),
                };
                out.put("starts", &when, Tone::Plain, 1);
                let text = format!("{}, {} so far", row.stage, count(row.attempts, "attempt"));
                out.put("stage", &text, Tone::Plain, 1);
                issue_life(known, out);
                out.put("run", row.run_id.as_deref().unwrap_or_default(), Tone::Faint, 1);
            }
        }
        Tab::Approvals => {
            if let Some(row) = app.approvals.current() {
                approval(app, row, out);
                issue_life(known, out);
            }
        }
        Tab::Issues => {
            if let Some(row) = app.issues.current() {
                let (name, _) = issue_status(row);
                let mut text = format!("{}, in Vik: {name}", row.issue_state);
                if !row.present {
                    text.push_str("; not in the last pull");
                }
                out.put("state", &text, Tone::Plain, 1);
                if let Some(hold) = &row.hold {
                    held("held by", hold, out);
                }
                for stage in &row.stages {
                    let (name, tone) = stage_state(stage);
                    let text = format!(
                        "{}: {name}, attempts {} of {}",
                        stage.stage, stage.attempts, stage.max_attempts
                    );
                    out.put("stage", &text, tone, 1);
                    if let Some(hold) = &stage.hold {
                        held("", hold, out);
                    }
                }
                out.put("life", &life(&row.life), Tone::Plain, 1);
            }
        }
        // A worker has details of its own.
        Tab::Workers => {}
    }
}

fn approval(app: &App, row: &ApprovalView, out: &mut Lines) {
    let request = &row.request;
    out.put("asks", &row.detail, Tone::Warn, 6);
    if let Some(call) = request.call.as_ref().filter(|call| !call.paths.is_empty()) {
        out.put("paths", &call.paths.join(" "), Tone::Plain, 4);
    }
    let left = duration(seconds_between(app.now, request.until));
    let then = request.on_timeout.done();
    out.put(
        "answer",
        &format!("a approves, x denies; {then} in {left}"),
        Tone::Good,
        2,
    );
    let ago = duration(seconds_between(request.since, app.now));
    out.put(
        "since",
        &format!("{ago} ago, in stage {}", row.stage),
        Tone::Plain,
        1,
    );
    out.put("run", &row.run_id, Tone::Faint, 1);
}

fn held(label: &str, hold: &HoldView, out: &mut Lines) {
    out.put(label, &reason_text(&hold.reason, &hold.detail), Tone::Warn, 2);
    if let Some(freed_by) = &hold.freed_by {
        out.put("", &format!("freed by: {freed_by}"), Tone::Plain, 2);
    }
}

fn session(app: &App, row: &SessionView, known: Option<&Explained>, out: &mut Lines) {
    let model = optional(" (", row.model.as_ref(), ")");
    out.put("activity", &activity(row), Tone::Plain, 2);
    if let Some(live) = row.live_text(app.now) {
        out.put("agent", &live, Tone::Faint, 2);
    }
    let worker = optional(" on ", row.worker.as_ref(), "");
    let stage = format!(
        "{}, attempt {}, by {}{model}{worker}",
        row.stage, row.attempt, row.agent
    );
    out.put("stage", &stage, Tone::Plain, 1);
    let last_event = match row.last_event_at {
        None => "no event yet".to_owned(),
        Some(at) => format!("last event {} ago", duration(seconds_between(at, app.now))),
    };
    let started = format!(
        "{} ago, {last_event}, {}",
        duration(seconds_between(row.since, app.now)),
        count(row.events, "event")
    );
    out.put("started", &started, Tone::Plain, 1);
    let share = budget_share(row);
    let gauge = share.map(|share| {
        format!(
            "  {} {:.0}%",
            Paint::gauge(share, 10),
            (share * 100.0).min(9_999.0)
        )
    });
    let text = format!(
        "{}{}",
        spent(&row.charged, &row.budget),
        gauge.unwrap_or_default()
    );
    out.put("spent", &text, share.map_or(Tone::Plain, share_tone), 2);
    issue_life(known, out);
    let usage = row.usage;
    let cached = match usage.cached_input_tokens {
        0 => String::new(),
        count => format!(" ({} cached)", short(count)),
    };
    let text = format!(
        "{} in{cached}, {} out",
        short(usage.input_tokens),
        short(usage.output_tokens)
    );
    out.put("tokens", &text, Tone::Plain, 1);
    if let Some(before) = &row.resumed_from {
        out.put(
            "resumes",
            &format!("the conversation of {before}"),
            Tone::Plain,
            1,
        );
    }
    if row.adopted {
        out.put("adopted", "from an earlier daemon", Tone::Plain, 1);
    }
    out.put("session", &row.session_id, Tone::Faint, 1);
    let log = fit_end(&row.log.display().to_string(), out.columns.saturating_sub(LABEL));
    out.put("log", &log, Tone::Faint, 1);
}

fn issue_life(known: Option<&Explained>, out: &mut Lines) {
    if let Some(now) = known.and_then(|known| known.now.as_ref()) {
        out.put("issue", &life(&now.life), Tone::Plain, 1);
    }
}

fn decisions(app: &App, known: &Explained, out: &mut Lines) {
    for decision in known.decisions.iter().rev().take(20) {
        let ago = short_duration(seconds_between(decision.at, app.now));
        let stage = optional("", decision.stage.as_ref(), ": ");
        let detail = match decision.detail.as_str() {
            "" => String::new(),
            detail => format!(", {detail}"),
        };
        let text = format!("{stage}{}{detail}", humanize(&decision.kind));
        out.put(&format!("{ago} ago"), &text, Tone::Faint, 2);
    }
}
