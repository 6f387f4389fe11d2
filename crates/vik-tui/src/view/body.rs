//! The screens over the lists: a transcript, a diff, an issue.

use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use vik_text::{cost, tokens};

use super::paint::{Paint, part, side_by_side};
use crate::app;
use crate::app::{App, DiffScreen, IssueScreen, LineKind, ScreenLayout, Scroll, Transcript, change_name};
use crate::rows::activity;
use crate::table::{CellText, Tone};
use crate::text::{duration, fit_at, fit_end, seconds_between, short_duration, wrap};

/// The minimum number of columns for the file list beside a diff.
const FILES_MIN_COLUMNS: u16 = 120;
const FILES_COLUMNS: u16 = 42;

/// Draws the bar with the name of the screen.
fn bar(rows: &ScreenLayout, left: &str, right: &str, paint: &mut Paint<'_>) {
    let width = rows.body.width;
    let style = Style::new().add_modifier(Modifier::BOLD);
    let end = u16::try_from(crate::text::width(right))
        .unwrap_or(0)
        .min(width / 2);
    paint.put(1, rows.bar, width.saturating_sub(end + 4), left, style);
    paint.put_right(width.saturating_sub(end + 1), rows.bar, end, right, Style::new());
    let chosen = paint.theme.selected();
    paint.set_style(Rect::new(0, rows.bar, width, 1), chosen);
}

fn scroll_position(scroll: &Scroll) -> String {
    match scroll.lines {
        0 => String::new(),
        lines if lines <= scroll.rows => "all".to_owned(),
        lines => {
            let last = (scroll.top + scroll.rows).min(lines);
            format!("{}-{last} of {lines}, {}%", scroll.top + 1, scroll.percent())
        }
    }
}

fn lines(lines: &[Vec<CellText>], scroll: &Scroll, body: Rect, paint: &mut Paint<'_>) {
    let visible = lines.iter().skip(scroll.top);
    for (y, line) in (body.top()..body.bottom()).zip(visible) {
        paint.line(body.x + 1, y, body.width.saturating_sub(2), line);
    }
}

/// Draws a text in place of missing content.
pub(super) fn placeholder(text: &str, tone: Tone, body: Rect, paint: &mut Paint<'_>) {
    let (lines, _) = wrap(
        text,
        usize::from(body.width.saturating_sub(4)),
        usize::from(body.height),
    );
    for (y, line) in (body.top() + u16::from(body.height > 2)..body.bottom()).zip(&lines) {
        paint.tone(body.x + 2, y, body.width.saturating_sub(4), line, tone);
    }
}

fn titled(app: &App, issue: &vik_core::ids::IssueId) -> String {
    match app.title_of(issue) {
        None => issue.to_string(),
        Some(title) => format!("{issue}  {title}"),
    }
}

pub(super) fn transcript(app: &App, screen: &Transcript, rows: &ScreenLayout, paint: &mut Paint<'_>) {
    let left = match screen.label.as_str() {
        "" => titled(app, &screen.issue_id),
        label => format!("{}  ({label})", titled(app, &screen.issue_id)),
    };
    let right = match (screen.ended, screen.tail) {
        _ if screen.error.is_some() => "cannot be read, retrying".to_owned(),
        (true, true) => "ended".to_owned(),
        (false, true) => "following".to_owned(),
        (_, false) if screen.scroll.top == 0 && screen.first_seq() > 1 => "loading earlier events".to_owned(),
        (_, false) => format!("{}, G to the end", scroll_position(&screen.scroll)),
    };
    bar(rows, &left, &right, paint);
    let mut body = rows.body;
    if let Some(live) = app.session(&screen.session_id)
        && app::live_rows(app, screen, body.height) > 0
    {
        // The current activity, if the last lines do not show it.
        let last_event = live
            .last_event_at
            .map(|at| format!("last event {} ago", short_duration(seconds_between(at, app.now))));
        let total = tokens(live.usage.total().max(live.charged.tokens));
        let time = duration(seconds_between(live.since, app.now));
        let mut parts = vec![
            part(0, activity(live), Tone::Good),
            part(2, format!("for {time}"), Tone::Faint),
            part(2, last_event.unwrap_or_default(), Tone::Faint),
        ];
        // In a narrow terminal the first one remains.
        let facts = (1..).zip(live.live_facts(app.now));
        parts.extend(facts.map(|(rank, fact)| part(rank, fact, Tone::Faint)));
        parts.push(part(3, format!("{total} tokens"), Tone::Faint));
        parts.push(part(3, cost(live.cost_usd), Tone::Faint));
        body.height -= 1;
        let width = body.width.saturating_sub(2);
        let line = side_by_side(usize::from(width), parts);
        paint.line(1, body.bottom(), width, &line);
    }
    if let Some(error) = screen.error.as_deref().filter(|_| screen.lines.is_empty()) {
        placeholder(&format!("Cannot read the log: {error}"), Tone::Bad, body, paint);
    } else if screen.lines.is_empty() {
        let text = match (screen.loaded, screen.events()) {
            (false, _) => "Loading the log.",
            (true, 0) => "The log is empty.",
            (true, _) => "All entries of the log are folded. Press t to unfold them.",
        };
        placeholder(text, Tone::Faint, body, paint);
    } else {
        lines(&screen.lines, &screen.scroll, body, paint);
    }
}

pub(super) fn issue(app: &App, screen: &IssueScreen, rows: &ScreenLayout, paint: &mut Paint<'_>) {
    bar(
        rows,
        &titled(app, &screen.issue_id),
        &scroll_position(&screen.scroll),
        paint,
    );
    match &screen.error {
        Some(error) if screen.lines.is_empty() => {
            placeholder(
                &format!("Cannot load this issue: {error}"),
                Tone::Bad,
                rows.body,
                paint,
            );
        }
        _ if screen.lines.is_empty() => {
            placeholder("Loading the issue.", Tone::Faint, rows.body, paint);
        }
        _ => lines(&screen.lines, &screen.scroll, rows.body, paint),
    }
}

pub(super) fn diff(app: &App, screen: &DiffScreen, rows: &ScreenLayout, paint: &mut Paint<'_>) {
    let left = match (screen.summary.as_str(), app.title_of(&screen.issue_id)) {
        ("", _) => format!("diff of {}", titled(app, &screen.issue_id)),
        (summary, None) => format!("diff of {}: {summary}", screen.issue_id),
        (summary, Some(title)) => format!("diff of {}: {summary}  {title}", screen.issue_id),
    };
    let mut right = scroll_position(&screen.scroll);
    if screen.loading {
        right = "loading".to_owned();
    }
    bar(rows, &left, &right, paint);
    let mut body = rows.body;
    if let Some(error) = &screen.error {
        placeholder(&format!("Cannot show the diff: {error}"), Tone::Bad, body, paint);
        return;
    }
    if screen.lines.is_empty() {
        placeholder("Loading the diff.", Tone::Faint, body, paint);
        return;
    }
    if body.width >= FILES_MIN_COLUMNS && screen.files.len() > 1 {
        files(
            screen,
            Rect {
                width: FILES_COLUMNS,
                ..body
            },
            paint,
        );
        body.x += FILES_COLUMNS + 1;
        body.width -= FILES_COLUMNS + 1;
    }
    let visible = screen.lines.iter().skip(screen.scroll.top);
    for (y, line) in (body.top()..body.bottom()).zip(visible) {
        let style = diff_style(line.kind, paint.theme.color);
        let width = body.width.saturating_sub(1);
        let skip = if line.kind == LineKind::File {
            0
        } else {
            screen.skip
        };
        let text = fit_at(&line.text, skip, usize::from(width));
        paint.put(body.x + 1, y, width, &text, style);
    }
}

fn diff_style(kind: LineKind, color: bool) -> Style {
    let plain = Style::new();
    match (kind, color) {
        (LineKind::File, true) => plain.fg(Color::Cyan).add_modifier(Modifier::BOLD),
        (LineKind::File, false) => plain.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        (LineKind::Hunk, true) => plain.fg(Color::Magenta),
        (LineKind::Added, true) => plain.fg(Color::Green),
        (LineKind::Removed, true) => plain.fg(Color::Red),
        (LineKind::Added, false) => plain.add_modifier(Modifier::BOLD),
        (LineKind::Note | LineKind::Hunk, _) => plain.add_modifier(Modifier::DIM),
        (LineKind::Context | LineKind::Removed, _) => plain,
    }
}

fn files(screen: &DiffScreen, area: Rect, paint: &mut Paint<'_>) {
    let here = screen.file().unwrap_or(0);
    let rows = usize::from(area.height);
    let from = here
        .saturating_sub(rows / 2)
        .min(screen.files.len().saturating_sub(rows));
    for (y, at) in (area.top()..area.bottom()).zip(from..screen.files.len()) {
        let file = &screen.files[at];
        let figures = format!("+{} -{}", file.added, file.removed);
        let letter = change_name(file.change).get(..1).unwrap_or(" ").to_uppercase();
        let taken = figures.len() + 5;
        let path = fit_end(&file.path, usize::from(area.width).saturating_sub(taken));
        paint.tone(area.x + 1, y, 2, &letter, Tone::Name);
        paint.tone(area.x + 3, y, area.width.saturating_sub(4), &path, Tone::Plain);
        let style = paint.theme.tone(Tone::Faint);
        paint.put_right(area.x + 3, y, area.width.saturating_sub(4), &figures, style);
        if at == here {
            let chosen = paint.theme.selected();
            paint.set_style(Rect::new(area.x, y, area.width, 1), chosen);
        }
    }
    for y in area.top()..area.bottom() {
        paint.tone(area.right(), y, 1, "│", Tone::Faint);
    }
}
