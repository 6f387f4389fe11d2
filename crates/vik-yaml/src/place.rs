//! Positions in a file.

use super::text;

/// A position on one line of the file; an `end_column` of 0 is the end of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: u32,
    pub column: u32,
    pub end_column: u32,
}

impl Place {
    pub fn point(line: usize, column: usize) -> Self {
        let column = column as u32;
        Self {
            line: line as u32,
            column,
            end_column: column + 1,
        }
    }

    /// Returns the position clamped to the text: on an existing line, at most one past its end,
    /// with a real end column.
    pub fn clamped(self, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut last = (1, "");
        for (index, line) in text::lines(text).enumerate() {
            last = (index as u32 + 1, line);
            if last.0 == self.line {
                break;
            }
        }
        let length = last.1.chars().count() as u32;
        let column = if last.0 == self.line {
            self.column.clamp(1, length + 1)
        } else {
            length + 1
        };
        let end = if self.end_column == 0 || last.0 != self.line {
            length + 1
        } else {
            self.end_column
        };
        Self {
            line: last.0,
            column,
            end_column: end.min(length + 1).max(column + 1),
        }
    }
}
