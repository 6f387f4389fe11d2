//! Coloured lines, laid out for a terminal.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use vik_base::report::clean;

/// The column where the text of an event starts: after its time and mark.
const GUTTER: usize = 11;

/// The minimum width of a text, whatever the width of the terminal.
const NARROWEST: usize = 24;

/// The meaning of a piece of text, shown by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextStyle {
    Plain,
    Dim,
    Bold,
    /// A failure, or removed text.
    Red,
    /// A success, or added text.
    Green,
    Yellow,
    /// A position in a file.
    Cyan,
}

impl TextStyle {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "2",
            Self::Bold => "1",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Cyan => "36",
        }
    }
}

/// One line of pieces of text that are safe for a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    indent: usize,
    pieces: Vec<(TextStyle, String)>,
}

impl Line {
    /// Creates a line of one piece.
    pub fn of(tone: TextStyle, text: &str) -> Self {
        Self::default().and(tone, text)
    }

    /// Appends a piece. The text may be hostile; its newlines are replaced.
    #[must_use]
    pub fn and(mut self, tone: TextStyle, text: &str) -> Self {
        let text = clean(text).replace('\t', "    ").replace('\n', " ");
        if !text.is_empty() {
            self.pieces.push((tone, text));
        }
        self
    }

    /// Indents the line by more columns.
    #[must_use]
    pub fn indented(mut self, by: usize) -> Self {
        self.indent += by;
        self
    }

    /// Breaks the line into lines of at most `max_width` columns, at spaces unless that wastes much
    /// space. Spaces are kept.
    fn folded(self, max_width: usize) -> Vec<Vec<(TextStyle, String)>> {
        let width: usize = self.pieces.iter().map(|(_, text)| text.width()).sum();
        if width <= max_width {
            return vec![self.pieces];
        }
        let chars = self
            .pieces
            .iter()
            .flat_map(|(tone, text)| text.chars().map(|c| (*tone, c)));
        let mut lines = Vec::new();
        let (mut line, mut used): (Vec<(TextStyle, char)>, usize) = (Vec::new(), 0);
        for (tone, c) in chars {
            let char_width = c.width().unwrap_or(0);
            if used + char_width > max_width && !line.is_empty() {
                let blank = line.iter().rposition(|(_, c)| *c == ' ');
                let tail = match blank.filter(|at| *at >= line.len() / 2) {
                    Some(at) => {
                        let tail = line.split_off(at + 1);
                        line.pop();
                        tail
                    }
                    None => Vec::new(),
                };
                lines.push(joined(std::mem::replace(&mut line, tail)));
                used = line.iter().map(|(_, c)| c.width().unwrap_or(0)).sum();
            }
            line.push((tone, c));
            used += char_width;
        }
        lines.push(joined(line));
        lines
    }
}

/// Joins characters into pieces of one colour each.
fn joined(chars: Vec<(TextStyle, char)>) -> Vec<(TextStyle, String)> {
    let mut pieces: Vec<(TextStyle, String)> = Vec::new();
    for (tone, c) in chars {
        match pieces.last_mut() {
            Some((last, text)) if *last == tone => text.push(c),
            _ => pieces.push((tone, c.into())),
        }
    }
    pieces
}

/// The output medium of a transcript.
#[derive(Clone, Copy, Debug)]
pub struct OutputStyle {
    /// The width, in columns.
    pub width: usize,
    /// Whether the output has colours.
    pub color: bool,
    /// Whether texts are printed without shortening.
    pub full: bool,
}

impl OutputStyle {
    /// Formats lines from the first column.
    pub fn lines(&self, lines: Vec<Line>) -> String {
        let mut out = String::new();
        for line in lines {
            self.write(&mut out, 0, None, line);
        }
        out
    }

    /// Formats an event: time and mark before its first line, further lines below.
    pub fn event(&self, time: &str, mark: (TextStyle, char), lines: Vec<Line>) -> String {
        let mut out = String::new();
        for (index, line) in lines.into_iter().enumerate() {
            let head = (index == 0).then(|| {
                let time = self.painted(TextStyle::Dim, &format!("{time:>8}"));
                let mark = self.painted(mark.0, &mark.1.to_string());
                format!("{time} {mark} ")
            });
            self.write(&mut out, GUTTER, head, line);
        }
        out
    }

    /// Formats lines that belong to the event above: the mark is in the column of its text.
    pub fn below(&self, mark: (TextStyle, char), lines: Vec<Line>) -> String {
        let mut out = String::new();
        for (index, line) in lines.into_iter().enumerate() {
            let head = (index == 0).then(|| {
                let mark = self.painted(mark.0, &mark.1.to_string());
                format!("{}{mark} ", " ".repeat(GUTTER))
            });
            self.write(&mut out, GUTTER + 2, head, line);
        }
        out
    }

    /// Writes a line that starts at a column, with `head` before it in its first row.
    fn write(&self, out: &mut String, column: usize, head: Option<String>, line: Line) {
        let column = column + line.indent;
        let text_width = self.width.saturating_sub(column).max(NARROWEST);
        let mut head = head.map(|head| head + &" ".repeat(line.indent));
        for pieces in line.folded(text_width) {
            let mut text = head.take().unwrap_or_else(|| " ".repeat(column));
            for (tone, piece) in pieces {
                text.push_str(&self.painted(tone, &piece));
            }
            let _ = writeln!(out, "{}", text.trim_end());
        }
    }

    fn painted(&self, tone: TextStyle, text: &str) -> String {
        if self.color && tone != TextStyle::Plain {
            format!("\x1b[{}m{text}\x1b[0m", tone.code())
        } else {
            text.to_owned()
        }
    }
}
