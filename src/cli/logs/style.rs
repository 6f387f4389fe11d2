//! Lays lines out for a terminal.

use std::fmt::Write as _;

use jiff::Timestamp;
use vik_base::report::{clock_time, date_time};
use vik_text::transcript::Mark;
use vik_text::{Line, TextStyle};

/// The minimum width of a text, whatever the width of the terminal.
const NARROWEST: usize = 24;

/// The output medium of a transcript.
#[derive(Clone, Copy, Debug)]
pub struct OutputStyle {
    /// The width, in columns.
    pub width: usize,
    /// Whether the output has colours.
    pub color: bool,
    /// Whether texts are printed without shortening.
    pub full: bool,
    /// Whether each event has its date and time zone.
    pub timestamps: bool,
}

impl OutputStyle {
    /// Formats the time of an event.
    pub fn time(&self, at: Timestamp) -> String {
        if self.timestamps {
            date_time(at)
        } else {
            clock_time(at)
        }
    }

    fn time_width(&self) -> usize {
        if self.timestamps {
            "2026-03-01 12:00:00 +00:00".len()
        } else {
            "12:00:00".len()
        }
    }

    /// Returns the column where the text of an event starts: after its time and mark.
    fn gutter(&self) -> usize {
        self.time_width() + 3
    }

    /// Formats lines from the first column.
    pub fn lines(&self, lines: Vec<Line>) -> String {
        self.block(0, None, lines)
    }

    /// Formats an event: time and mark before its first line, further lines below.
    pub fn event(&self, time: &str, mark: Mark, lines: Vec<Line>) -> String {
        let time = self.painted(TextStyle::Dim, &format!("{time:>0$}", self.time_width()));
        let mark = self.painted(mark.0, &mark.1.to_string());
        self.block(self.gutter(), Some(format!("{time} {mark} ")), lines)
    }

    /// Formats lines that belong to the event above: the mark is in the column of its text.
    pub fn below(&self, mark: Mark, lines: Vec<Line>) -> String {
        let mark = self.painted(mark.0, &mark.1.to_string());
        let head = format!("{}{mark} ", " ".repeat(self.gutter()));
        self.block(self.gutter() + 2, Some(head), lines)
    }

    /// Formats lines that start at a column, with `head` before the first row.
    fn block(&self, column: usize, mut head: Option<String>, lines: Vec<Line>) -> String {
        let mut out = String::new();
        for line in lines {
            let column = column + line.indent;
            let text_width = self.width.saturating_sub(column).max(NARROWEST);
            let mut head = head.take().map(|head| head + &" ".repeat(line.indent));
            for pieces in line.folded(text_width) {
                let mut text = head.take().unwrap_or_else(|| " ".repeat(column));
                for (tone, piece) in pieces {
                    text.push_str(&self.painted(tone, &piece));
                }
                let _ = writeln!(out, "{}", text.trim_end());
            }
        }
        out
    }

    fn painted(&self, tone: TextStyle, text: &str) -> String {
        if self.color && tone != TextStyle::Plain {
            format!("\x1b[{}m{text}\x1b[0m", code(tone))
        } else {
            text.to_owned()
        }
    }
}

/// Returns the colour of a style as the parameter of an escape sequence.
fn code(style: TextStyle) -> &'static str {
    match style {
        TextStyle::Plain => "",
        TextStyle::Dim => "2",
        TextStyle::Bold => "1",
        TextStyle::Red => "31",
        TextStyle::Green => "32",
        TextStyle::Yellow => "33",
        TextStyle::Cyan => "36",
    }
}
