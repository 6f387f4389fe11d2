//! The geometry of the screen, and the notices above it.

use ratatui::layout::Rect;
use vik_api::Status;

use super::{App, Screen, Transcript};
use crate::table::Tone;

/// The parts of the screen, from top to bottom.
pub(crate) struct ScreenLayout {
    pub(crate) notices: u16,
    /// The tabs, or the name of the screen.
    pub(crate) bar: u16,
    /// The list or the screen.
    pub(crate) body: Rect,
    /// The details of the selected row, with the rule above them.
    pub(crate) details: Option<Rect>,
    pub(crate) last_row: u16,
}

impl ScreenLayout {
    /// Lays out the current screen.
    pub(crate) fn of(app: &App) -> Self {
        let (columns, height) = app.size;
        let notices = notices(app).len() as u16;
        let head = 2 + notices;
        let on_list = app.screens.is_empty();
        let top = head + 1 + u16::from(on_list);
        let foot = height.saturating_sub(1);
        let room = foot.saturating_sub(top);
        let details = match height {
            _ if !on_list => 0,
            // As many notices as there are, but most of the space for the list.
            20..30 => (room / 2).min(7),
            30.. => (room * 2 / 5).min(18),
            _ => 0,
        };
        let body = Rect::new(0, top, columns, room.saturating_sub(details));
        Self {
            notices,
            bar: head,
            body,
            details: (details > 1).then(|| Rect::new(0, body.bottom(), columns, details)),
            last_row: foot,
        }
    }
}

/// Returns the number of visible rows of a list.
pub(crate) fn list_rows(app: &App) -> usize {
    usize::from(ScreenLayout::of(app).body.height)
}

/// Returns the columns and rows for the lines of a screen.
pub(crate) fn screen_size(app: &App) -> (usize, usize) {
    let body = ScreenLayout::of(app).body;
    let mut lines = usize::from(body.height);
    if let Some(Screen::Transcript(screen)) = app.screens.last() {
        lines -= live_rows(app, screen, body.height);
    }
    (usize::from(body.width.saturating_sub(2)), lines)
}

/// Returns the number of rows for the current activity of the session.
pub(crate) fn live_rows(app: &App, screen: &Transcript, height: u16) -> usize {
    usize::from(height > 5 && app.session(&screen.session_id).is_some())
}

/// Returns the notices that fit, most important first.
pub(crate) fn notices(app: &App) -> Vec<(String, Tone)> {
    let mut all = Vec::new();
    if let Some(error) = &app.connection_error {
        all.push((format!("CONNECTION LOST, reconnecting: {error}"), Tone::Bad));
    }
    if let Some(status) = &app.status {
        daemon_notices(status, &mut all);
    }
    let max_notices = match app.size.1 {
        ..16 => 1,
        16..30 => 2,
        _ => 5,
    };
    let left_out = all.len().saturating_sub(max_notices);
    all.truncate(max_notices);
    if left_out > 0
        && let Some((text, _)) = all.last_mut()
    {
        // At the start, because the end of a long notice is cut.
        *text = format!("(+{left_out} more) {text}");
    }
    all
}

fn daemon_notices(status: &Status, all: &mut Vec<(String, Tone)>) {
    if let Some(error) = status.ledger.as_ref().and_then(|ledger| ledger.error.as_deref()) {
        all.push((format!("CANNOT WRITE THE LEDGER: {error}"), Tone::Bad));
    }
    if let Some(pull) = status.last_pull.as_ref().filter(|pull| !pull.ok) {
        let times = status.pulls.failed_in_a_row;
        let times = if times > 1 {
            format!(" {times} times in a row")
        } else {
            String::new()
        };
        let why = pull.error.as_deref().unwrap_or("unknown reason");
        all.push((format!("PULL FAILED{times}: {why}"), Tone::Bad));
    }
    for notifier in &status.notify {
        if notifier.failing_since.is_some() {
            let why = notifier.error.as_deref().unwrap_or("unknown reason");
            let text = format!(
                "NOTIFIER FAILING: {} ({} undelivered): {why}",
                notifier.name, notifier.undelivered
            );
            all.push((text, Tone::Warn));
        }
    }
    let workflow = status.workflow.as_ref();
    if let Some(rejected) = workflow.and_then(|workflow| workflow.rejected.as_ref()) {
        let first = rejected.diagnostics.first().map_or("", String::as_str);
        let others = rejected.diagnostics.len().saturating_sub(1) + rejected.more;
        let more = if others > 0 {
            format!(" (+{others} more)")
        } else {
            String::new()
        };
        let text = format!("INVALID WORKFLOW EDIT, the previous version stays in force{more}: {first}");
        all.push((text, Tone::Warn));
    }
    if status.paused {
        let text = "PAUSED: no new attempts start, running ones continue; press p to resume";
        all.push((text.to_owned(), Tone::Warn));
    }
    let keys = workflow.map_or(&[][..], |workflow| &workflow.needs_restart);
    if !keys.is_empty() {
        all.push((
            format!("takes effect after a restart: {}", keys.join(", ")),
            Tone::Faint,
        ));
    }
}
