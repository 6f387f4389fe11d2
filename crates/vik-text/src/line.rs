//! Lines of styled text.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::clean;

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

/// A piece of text in one style.
pub type Piece = (TextStyle, String);

/// One line of pieces of text that are safe for a terminal.
///
/// # Examples
///
/// ```
/// use vik_text::{Line, TextStyle};
///
/// let line = Line::of(TextStyle::Bold, "some words").and(TextStyle::Plain, " more");
/// let rows = line.folded(10);
/// assert_eq!(rows[0], [(TextStyle::Bold, "some words".to_owned())]);
/// assert_eq!(rows.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The number of columns before the text.
    pub indent: usize,
    pieces: Vec<Piece>,
}

impl Line {
    /// Creates a line of one piece.
    pub fn of(style: TextStyle, text: &str) -> Self {
        Self::default().and(style, text)
    }

    /// Creates one line per line of a text, at least one.
    pub fn block(style: TextStyle, text: &str) -> Vec<Self> {
        let lines: Vec<_> = text
            .trim_end()
            .lines()
            .map(|line| Self::of(style, line))
            .collect();
        if lines.is_empty() {
            vec![Self::default()]
        } else {
            lines
        }
    }

    /// Appends a piece. The text may be hostile; its newlines are replaced.
    #[must_use]
    pub fn and(mut self, style: TextStyle, text: &str) -> Self {
        let text = clean(text).replace('\t', "    ").replace('\n', " ");
        if !text.is_empty() {
            self.pieces.push((style, text));
        }
        self
    }

    /// Indents the line by more columns.
    #[must_use]
    pub fn indented(mut self, by: usize) -> Self {
        self.indent += by;
        self
    }

    /// Returns whether the line has no text.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Breaks the line into rows of at most `max_width` columns, at spaces unless that wastes much
    /// space. Spaces are kept.
    pub fn folded(self, max_width: usize) -> Vec<Vec<Piece>> {
        let width: usize = self.pieces.iter().map(|(_, text)| text.width()).sum();
        if width <= max_width {
            return vec![self.pieces];
        }
        let chars = self
            .pieces
            .iter()
            .flat_map(|(style, text)| text.chars().map(|c| (*style, c)));
        let mut rows = Vec::new();
        let (mut row, mut used): (Vec<(TextStyle, char)>, usize) = (Vec::new(), 0);
        for (style, c) in chars {
            let char_width = c.width().unwrap_or(0);
            if used + char_width > max_width && !row.is_empty() {
                let blank = row.iter().rposition(|(_, c)| *c == ' ');
                let tail = match blank.filter(|at| *at >= row.len() / 2) {
                    Some(at) => {
                        let tail = row.split_off(at + 1);
                        row.pop();
                        tail
                    }
                    None => Vec::new(),
                };
                rows.push(joined(std::mem::replace(&mut row, tail)));
                used = row.iter().map(|(_, c)| c.width().unwrap_or(0)).sum();
            }
            row.push((style, c));
            used += char_width;
        }
        rows.push(joined(row));
        rows
    }
}

/// Joins characters into pieces of one style each.
fn joined(chars: Vec<(TextStyle, char)>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (style, c) in chars {
        match pieces.last_mut() {
            Some((last, text)) if *last == style => text.push(c),
            _ => pieces.push((style, c.into())),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wrap_between_words_and_inside_overlong_words() {
        let line = Line::of(
            TextStyle::Plain,
            "some words that do not fit 京京京京京京京京京京京京京京京京 end",
        );
        let rows: Vec<_> = line.folded(24).into_iter().map(|row| row[0].1.clone()).collect();
        assert_eq!(
            rows,
            [
                "some words that do not",
                "fit 京京京京京京京京京京",
                "京京京京京京 end"
            ]
        );
    }
}
