//! Lines with colours, laid out for a terminal.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::report::clean;

/// Where the text of an event begins: after its time and its mark.
const GUTTER: usize = 11;

/// A text never gets less room than this, however narrow the terminal is.
const NARROWEST: usize = 24;

/// What a piece of text is, by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// Of less weight.
    Dim,
    /// Of more weight.
    Bold,
    /// What failed, or was taken away.
    Red,
    /// What went well, or was added.
    Green,
    /// What a person should know.
    Yellow,
    /// Where in a file.
    Cyan,
}

impl Tone {
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

/// One line: pieces of text that are safe for a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    indent: usize,
    pieces: Vec<(Tone, String)>,
}

impl Line {
    /// A line of one piece.
    pub fn of(tone: Tone, text: &str) -> Self {
        Self::default().and(tone, text)
    }

    /// One more piece. The text may be hostile; it is one line, whatever is in it.
    #[must_use]
    pub fn and(mut self, tone: Tone, text: &str) -> Self {
        let text = clean(text).replace('\t', "    ").replace('\n', " ");
        if !text.is_empty() {
            self.pieces.push((tone, text));
        }
        self
    }

    /// The same, so many columns further in.
    #[must_use]
    pub fn indented(mut self, by: usize) -> Self {
        self.indent += by;
        self
    }

    /// Breaks it into lines of at most `room` columns, between words where that wastes little. Blanks stay as they are.
    fn folded(self, room: usize) -> Vec<Vec<(Tone, String)>> {
        let width: usize = self.pieces.iter().map(|(_, text)| text.width()).sum();
        if width <= room {
            return vec![self.pieces];
        }
        let chars = self
            .pieces
            .iter()
            .flat_map(|(tone, text)| text.chars().map(|c| (*tone, c)));
        let mut lines = Vec::new();
        let (mut line, mut taken): (Vec<(Tone, char)>, usize) = (Vec::new(), 0);
        for (tone, c) in chars {
            let wide = c.width().unwrap_or(0);
            if taken + wide > room && !line.is_empty() {
                let blank = line.iter().rposition(|(_, c)| *c == ' ');
                let rest = match blank.filter(|at| *at >= line.len() / 2) {
                    Some(at) => {
                        let rest = line.split_off(at + 1);
                        line.pop();
                        rest
                    }
                    None => Vec::new(),
                };
                lines.push(joined(std::mem::replace(&mut line, rest)));
                taken = line.iter().map(|(_, c)| c.width().unwrap_or(0)).sum();
            }
            line.push((tone, c));
            taken += wide;
        }
        lines.push(joined(line));
        lines
    }
}

/// Characters as pieces of one colour each.
fn joined(chars: Vec<(Tone, char)>) -> Vec<(Tone, String)> {
    let mut pieces: Vec<(Tone, String)> = Vec::new();
    for (tone, c) in chars {
        match pieces.last_mut() {
            Some((last, text)) if *last == tone => text.push(c),
            _ => pieces.push((tone, c.into())),
        }
    }
    pieces
}

/// What a transcript is written on.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// How wide it is.
    pub width: usize,
    /// Whether it takes colours.
    pub color: bool,
    /// Whether nothing is to be shortened.
    pub full: bool,
}

impl Paper {
    /// Lines from the first column on.
    pub fn lines(&self, lines: Vec<Line>) -> String {
        let mut out = String::new();
        for line in lines {
            self.write(&mut out, 0, None, line);
        }
        out
    }

    /// An event: time and mark stand before its first line, the others go on below.
    pub fn event(&self, time: &str, mark: (Tone, char), lines: Vec<Line>) -> String {
        let mut out = String::new();
        for (at, line) in lines.into_iter().enumerate() {
            let head = (at == 0).then(|| {
                let time = self.painted(Tone::Dim, &format!("{time:>8}"));
                let mark = self.painted(mark.0, &mark.1.to_string());
                format!("{time} {mark} ")
            });
            self.write(&mut out, GUTTER, head, line);
        }
        out
    }

    /// What belongs to the event above: the mark stands where the text does.
    pub fn below(&self, mark: (Tone, char), lines: Vec<Line>) -> String {
        let mut out = String::new();
        for (at, line) in lines.into_iter().enumerate() {
            let head = (at == 0).then(|| {
                let mark = self.painted(mark.0, &mark.1.to_string());
                format!("{}{mark} ", " ".repeat(GUTTER))
            });
            self.write(&mut out, GUTTER + 2, head, line);
        }
        out
    }

    /// A line that begins at a column, with something before it in its first row.
    fn write(&self, out: &mut String, column: usize, head: Option<String>, line: Line) {
        let column = column + line.indent;
        let room = self.width.saturating_sub(column).max(NARROWEST);
        let mut head = head.map(|head| head + &" ".repeat(line.indent));
        for pieces in line.folded(room) {
            let mut text = head.take().unwrap_or_else(|| " ".repeat(column));
            for (tone, piece) in pieces {
                text.push_str(&self.painted(tone, &piece));
            }
            let _ = writeln!(out, "{}", text.trim_end());
        }
    }

    fn painted(&self, tone: Tone, text: &str) -> String {
        if self.color && tone != Tone::Plain {
            format!("\x1b[{}m{text}\x1b[0m", tone.code())
        } else {
            text.to_owned()
        }
    }
}
