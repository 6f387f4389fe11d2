//! The daemon in two lines, and the important notices.

use vik_api::{DaemonState, DayView, Status};
use vik_core::plural::count;
use vik_text::{cost, cost_text, short};

use super::paint::{Paint, part, side_by_side};
use crate::app::{App, ScreenLayout, notices};
use crate::rows::share_tone;
use crate::table::{CellText, Tone};
use crate::text::{duration, fit_end, money_limit, seconds_between, short_duration, width};

pub(super) fn draw(app: &App, rows: &ScreenLayout, paint: &mut Paint<'_>) {
    let columns = app.size.0;
    let room = usize::from(columns.saturating_sub(2));
    let lines = match &app.status {
        None => [
            vec![
                CellText::new("vik", Tone::Strong),
                CellText::plain("  connecting to "),
                CellText::plain(app.target.as_str()),
            ],
            Vec::new(),
        ],
        Some(status) => [daemon(app, status, room), work(app, status, room)],
    };
    for (y, line) in (0..).zip(&lines) {
        paint.line(1, y, columns.saturating_sub(2), line);
    }
    for (y, (text, tone)) in (2..2 + rows.notices).zip(notices(app)) {
        let style = paint.theme.tone(tone);
        paint.put(1, y, columns.saturating_sub(2), &text, style);
    }
}

fn state(status: &Status) -> (&'static str, Tone) {
    match status.daemon.state {
        DaemonState::Running if status.paused => ("PAUSED", Tone::Warn),
        DaemonState::Running => ("running", Tone::Good),
        DaemonState::Following => ("follows", Tone::Good),
        DaemonState::Draining => ("DRAINING", Tone::Warn),
        DaemonState::Stopping => ("STOPPING", Tone::Warn),
        DaemonState::NotRunning => ("NOT RUNNING", Tone::Bad),
        DaemonState::Dead => ("DEAD", Tone::Bad),
    }
}

fn daemon(app: &App, status: &Status, room: usize) -> Vec<CellText> {
    let (name, tone) = match app.stale_seconds() {
        Some(age) => (format!("stale for {}", duration(age)), Tone::Bad),
        None => {
            let (name, tone) = state(status);
            (name.to_owned(), tone)
        }
    };
    let mut parts = vec![part(0, "vik", Tone::Strong), part(0, name, tone)];
    if let Some(started) = status.daemon.started_at {
        let time = duration(seconds_between(started, app.now));
        parts.push(part(1, format!("up {time}"), Tone::Plain));
    }
    let mut ends = Vec::new();
    if let Some(version) = &status.daemon.version {
        ends.push(part(4, format!("version {version}"), Tone::Faint));
    }
    if let Some(pid) = status.daemon.pid {
        ends.push(part(3, format!("pid {pid}"), Tone::Faint));
    }
    if let Some(api) = &status.api {
        ends.push(part(5, format!("http://{}", api.address), Tone::Faint));
    }
    // The path takes the remaining space; its end is the most informative.
    let path = status.daemon.workflow_path.display().to_string();
    let enough = width(&path).min(48);
    let size = |parts: &[(u8, Vec<CellText>)]| {
        parts
            .iter()
            .flat_map(|(_, part)| part)
            .map(|piece| width(&piece.text) + 2)
            .sum::<usize>()
    };
    while size(&parts) + size(&ends) + enough > room && !ends.is_empty() {
        let last = ends.iter().map(|(rank, _)| *rank).max();
        ends.retain(|(rank, _)| Some(*rank) != last);
    }
    let left = room.saturating_sub(size(&parts) + size(&ends));
    if left >= 8 {
        parts.push(part(2, fit_end(&path, left), Tone::Plain));
    }
    parts.extend(ends);
    side_by_side(room, parts)
}

fn work(app: &App, status: &Status, room: usize) -> Vec<CellText> {
    let number = |count: usize, name: &str, tone: Tone| {
        let tone = if count == 0 { Tone::Faint } else { tone };
        vec![
            CellText::new(count.to_string(), tone),
            CellText::plain(format!(" {name}")),
        ]
    };
    let waiting = app.waiting.total() + status.waiting_more;
    let mut parts = vec![
        (0, number(app.sessions.total(), "running", Tone::Strong)),
        (0, number(waiting, "waiting", Tone::Strong)),
        (0, number(app.parked.total(), "parked", Tone::Warn)),
    ];
    if app.approvals.total() > 0 {
        parts.push((0, number(app.approvals.total(), "for you", Tone::Warn)));
    }
    if !status.questions.is_empty() {
        parts.push(part(1, count(status.questions.len(), "question"), Tone::Warn));
    }
    if !status.taken_over.is_empty() {
        let text = format!("{} taken over", count(status.taken_over.len(), "issue"));
        parts.push(part(3, text, Tone::Warn));
    }
    if !status.paused_issues.is_empty() {
        let text = format!("{} paused", count(status.paused_issues.len(), "issue"));
        parts.push(part(3, text, Tone::Warn));
    }
    parts.push((2, pull(app, status, room)));
    if let Some(day) = &status.day {
        parts.push((1, today(day, room)));
        let tokens = match day.limit.tokens {
            None => format!("{} tokens", short(day.spent.tokens)),
            Some(limit) => format!("{} of {} tokens", short(day.spent.tokens), short(limit)),
        };
        let tone = day
            .limit
            .tokens
            .filter(|&limit| limit > 0)
            .map_or(Tone::Faint, |limit| {
                match share_tone(day.spent.tokens as f64 / limit as f64) {
                    Tone::Plain => Tone::Faint,
                    other => other,
                }
            });
        // A reached limit is always shown, even if there is little space.
        let rank = if tone == Tone::Bad { 1 } else { 4 };
        parts.push(part(rank, tokens, tone));
    }
    side_by_side(room, parts)
}

fn pull(app: &App, status: &Status, room: usize) -> Vec<CellText> {
    match &status.last_pull {
        None => vec![CellText::new("no pull yet", Tone::Faint)],
        Some(pull) => {
            let ago = short_duration(seconds_between(pull.at, app.now));
            if pull.ok {
                if room < 100 {
                    return vec![CellText::plain(format!("pull {ago} ago"))];
                }
                let mut text = format!("pull {ago} ago: {}", count(pull.issues, "issue"));
                if pull.skipped > 0 {
                    text.push_str(&format!(", {} bad", pull.skipped));
                }
                vec![CellText::plain(text)]
            } else {
                let mut text = format!("pull FAILED {ago} ago");
                if let Some(next) = pull.next_at.filter(|_| room >= 100) {
                    text.push_str(&format!(
                        ", next in {}",
                        short_duration(seconds_between(app.now, next))
                    ));
                }
                vec![CellText::new(text, Tone::Bad)]
            }
        }
    }
}

fn today(day: &DayView, room: usize) -> Vec<CellText> {
    // A narrow terminal has no room for the zone; the details of an issue show it at any width.
    let name = if room >= 110 { "today (UTC)" } else { "today" };
    let parts = cost_text(Some(day.spent.cost_usd), day.spent.estimated_usd);
    let Some(limit) = day.limit.usd else {
        return vec![CellText::plain(format!("{name} {parts}"))];
    };
    let spent = cost(Some(day.spent.cost_usd));
    let parts = if parts == spent {
        String::new()
    } else {
        format!("({parts}) ")
    };
    let share = if limit > 0.0 {
        day.spent.cost_usd / limit
    } else {
        1.0
    };
    let tone = share_tone(share);
    let bar = Paint::gauge(share, if room >= 110 { 20 } else { 6 });
    vec![
        CellText::new(format!("{name} {spent} of {} {parts}", money_limit(limit)), tone),
        CellText::new(bar, if tone == Tone::Plain { Tone::Good } else { tone }),
        CellText::new(format!(" {:.0}%", (share * 100.0).min(9_999.0)), tone),
    ]
}
