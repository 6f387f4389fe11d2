//! The only access to the buffer: every text is made safe and cut here.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Clear, Widget as _};
use unicode_width::UnicodeWidthChar as _;

use super::theme::Theme;
use crate::table::{CellText, Tone};
use crate::text;

pub(super) struct Paint<'a> {
    buffer: &'a mut Buffer,
    pub(super) theme: Theme,
}

impl<'a> Paint<'a> {
    pub(super) fn new(buffer: &'a mut Buffer, theme: Theme) -> Self {
        Self { buffer, theme }
    }

    /// Writes a text of at most `width` columns, and returns the number of columns it took.
    pub(super) fn put(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let area = self.buffer.area;
        if y >= area.bottom() || x >= area.right() {
            return 0;
        }
        let width = width.min(area.right() - x);
        let safe = text::fit(text, usize::from(width));
        // Character by character, as the text was measured: joined characters differ between
        // terminals.
        let (mut end, mut last) = (x, x);
        for c in safe.chars() {
            let columns = u16::try_from(c.width().unwrap_or(0)).unwrap_or(0);
            if columns == 0 {
                if let Some(cell) = self.buffer.cell_mut((last, y)) {
                    let marked = format!("{}{c}", cell.symbol());
                    cell.set_symbol(&marked);
                }
                continue;
            }
            if let Some(cell) = self.buffer.cell_mut((end, y)) {
                cell.set_char(c).set_style(style);
            }
            for hidden in end + 1..end + columns {
                if let Some(cell) = self.buffer.cell_mut((hidden, y)) {
                    cell.reset();
                    cell.set_style(style);
                }
            }
            last = end;
            end += columns;
        }
        end - x
    }

    pub(super) fn tone(&mut self, x: u16, y: u16, width: u16, text: &str, tone: Tone) -> u16 {
        let style = self.theme.tone(tone);
        self.put(x, y, width, text, style)
    }

    /// Writes pieces one after the other.
    pub(super) fn line(&mut self, x: u16, y: u16, width: u16, pieces: &[CellText]) -> u16 {
        let mut used = 0;
        for piece in pieces {
            if used >= width {
                break;
            }
            used += self.tone(x + used, y, width - used, &piece.text, piece.tone);
        }
        used
    }

    /// Writes a text aligned to the right.
    pub(super) fn put_right(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        let safe = text::fit(text, usize::from(width));
        let takes = u16::try_from(text::width(&safe)).unwrap_or(width).min(width);
        self.put(x + (width - takes), y, takes, &safe, style);
    }

    /// Applies a style to an area.
    pub(super) fn set_style(&mut self, area: Rect, style: Style) {
        self.buffer.set_style(area.intersection(self.buffer.area), style);
    }

    pub(super) fn clear(&mut self, area: Rect) {
        Clear.render(area.intersection(self.buffer.area), self.buffer);
    }

    /// Draws a horizontal line with a name in it.
    pub(super) fn rule(&mut self, x: u16, y: u16, width: u16, name: &[CellText]) {
        let line = "─".repeat(usize::from(width));
        self.tone(x, y, width, &line, Tone::Faint);
        if width > 8 && !name.is_empty() {
            let mut used = 3 + self.tone(x + 2, y, 1, " ", Tone::Plain) - 1;
            used += self.line(x + used, y, width - used - 2, name);
            self.tone(x + used, y, 1, " ", Tone::Plain);
        }
    }

    /// Returns a bar of which a share is filled.
    pub(super) fn gauge(share: f64, width: usize) -> String {
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            1.0
        };
        let full = (share * width as f64).round() as usize;
        format!("{}{}", "█".repeat(full), "░".repeat(width - full))
    }

    /// Draws a box with a frame, and returns the area within it.
    pub(super) fn frame(&mut self, area: Rect, name: &str) -> Rect {
        self.clear(area);
        let inner = usize::from(area.width.saturating_sub(2));
        let (left, right, last) = (
            area.x,
            area.right().saturating_sub(1),
            area.bottom().saturating_sub(1),
        );
        let bar = "─".repeat(inner);
        self.tone(left, area.y, area.width, &format!("┌{bar}┐"), Tone::Plain);
        for y in area.y + 1..last {
            self.tone(left, y, 1, "│", Tone::Plain);
            self.tone(right, y, 1, "│", Tone::Plain);
        }
        self.tone(left, last, area.width, &format!("└{bar}┘"), Tone::Plain);
        let room = area.width.saturating_sub(4);
        self.tone(left + 2, area.y, room, &format!(" {name} "), Tone::Strong);
        Rect {
            x: area.x + 2,
            y: area.y + 1,
            width: area.width.saturating_sub(4),
            height: area.height.saturating_sub(2),
        }
    }
}

/// Returns a part for [`side_by_side`] with one text.
pub(super) fn part(rank: u8, text: impl Into<String>, tone: Tone) -> (u8, Vec<CellText>) {
    (rank, vec![CellText::new(text, tone)])
}

/// Joins pieces with two columns between them. Those with the greatest number are left out first.
pub(super) fn side_by_side(width: usize, mut parts: Vec<(u8, Vec<CellText>)>) -> Vec<CellText> {
    let size = |part: &[CellText]| part.iter().map(|piece| text::width(&piece.text)).sum::<usize>();
    parts.retain(|(_, part)| part.iter().any(|piece| !piece.text.is_empty()));
    loop {
        let taken: usize = parts.iter().map(|(_, part)| size(part) + 2).sum();
        if taken <= width + 2 || parts.len() <= 1 {
            break;
        }
        let least = parts.iter().map(|(rank, _)| *rank).max().unwrap_or(0);
        match parts.iter().rposition(|(rank, _)| *rank == least) {
            Some(at) => drop(parts.remove(at)),
            None => break,
        }
    }
    let mut line = Vec::new();
    for (_, part) in parts {
        if !line.is_empty() {
            line.push(CellText::plain("  "));
        }
        line.extend(part);
    }
    line
}
