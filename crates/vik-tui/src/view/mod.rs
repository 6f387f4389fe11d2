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

use crate::app::{App, Mode, Screen, ScreenLayout};
use crate::table::Tone;
use crate::text::wrap;
pub(crate) use overlay::help_scroll;
use paint::Paint;
pub(crate) use theme::Theme;

/// The minimum size of the terminal.
const MIN_SIZE: (u16, u16) = (40, 10);

pub(crate) fn view(app: &App, theme: Theme, frame: &mut Frame<'_>) {
    let area = frame.area();
    let mut paint = Paint::new(frame.buffer_mut(), theme);
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        too_small(area, &mut paint);
        return;
    }
    let rows = ScreenLayout::of(app);
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
        Mode::Normal | Mode::Filter(_) | Mode::Answer(..) | Mode::Question(..) | Mode::Message(_) => {}
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
mod tests;
