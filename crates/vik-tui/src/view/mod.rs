//! Draws the [`App`]. It decides nothing, and builds only what is visible.

mod body;
mod details;
mod header;
mod list;
mod overlay;
mod paint;
mod theme;

use ratatui::Frame;
use ratatui::layout::{Position, Rect};

use crate::app::{App, Mode, Screen};
use crate::table::Tone;
use crate::text::wrap;
pub(crate) use overlay::help_scroll;
use paint::Paint;
pub(crate) use theme::Theme;

/// The minimum size of the terminal.
const MIN_SIZE: (u16, u16) = (40, 10);

/// The parts of the screen, from top to bottom.
struct ScreenLayout {
    notices: u16,
    /// The tabs, or the name of the screen.
    bar: u16,
    /// The list or the screen.
    body: Rect,
    /// The details of the selected row, with the rule above them.
    details: Option<Rect>,
    last_row: u16,
}

fn rows(app: &App) -> ScreenLayout {
    let (columns, height) = app.size;
    let notices = header::notices(app).len() as u16;
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
    ScreenLayout {
        notices,
        bar: head,
        body,
        details: (details > 1).then(|| Rect::new(0, body.bottom(), columns, details)),
        last_row: foot,
    }
}

/// Returns the number of visible rows of a list.
pub(crate) fn list_rows(app: &App) -> usize {
    usize::from(rows(app).body.height)
}

/// Returns the columns and rows for the lines of a screen.
pub(crate) fn screen_size(app: &App) -> (usize, usize) {
    let body = rows(app).body;
    let mut lines = usize::from(body.height);
    if let Some(Screen::Transcript(screen)) = app.screens.last() {
        lines -= body::live_rows(app, screen, body.height);
    }
    (usize::from(body.width.saturating_sub(2)), lines)
}

pub(crate) fn view(app: &App, theme: Theme, frame: &mut Frame<'_>) {
    let area = frame.area();
    let mut paint = Paint::new(frame.buffer_mut(), theme);
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        too_small(area, &mut paint);
        return;
    }
    let rows = rows(app);
    header::draw(app, &rows, &mut paint);
    match app.screens.last() {
        None => list::draw(app, &rows, &mut paint),
        Some(Screen::Transcript(screen)) => body::transcript(app, screen, &rows, &mut paint),
        Some(Screen::Diff(screen)) => body::diff(app, screen, &rows, &mut paint),
        Some(Screen::Issue(screen)) => body::issue(app, screen, &rows, &mut paint),
    }
    let cursor = overlay::last_line(app, &rows, &mut paint);
    match &app.mode {
        Mode::Help(top) => overlay::help(*top, area, &mut paint),
        Mode::Confirm(action) => overlay::confirm(app, action, area, &mut paint),
        Mode::Normal | Mode::Filter(_) | Mode::Answer(..) => {}
    }
    if let Some(x) = cursor {
        frame.set_cursor_position(Position::new(x, rows.last_row));
    }
}

fn too_small(area: Rect, paint: &mut Paint<'_>) {
    let text = format!(
        "This terminal has {}x{}; the dashboard needs {}x{}. q quits.",
        area.width, area.height, MIN_SIZE.0, MIN_SIZE.1
    );
    let (lines, _) = wrap(&text, usize::from(area.width), usize::from(area.height));
    for (y, line) in lines.iter().enumerate() {
        paint.tone(area.x, area.y + y as u16, area.width, line, Tone::Plain);
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
