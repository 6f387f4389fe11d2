//! The text of a file with the positions of its values.

use super::place::Place;
use super::places::Places;

/// The text of a file, and the positions of its values by their dotted paths.
#[derive(Clone, Debug, Default)]
pub struct Document {
    text: String,
    places: Places,
}

impl Document {
    pub fn new(text: impl Into<String>, places: Places) -> Self {
        Self {
            text: text.into(),
            places,
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the line and column (from 1, in characters) of the value at a dotted path such as
    /// `issue.stages.plan.hooks.before_run`; list items count from 0. Returns the position of the
    /// key if it has no value.
    pub fn position(&self, path: &str) -> Option<(u32, u32)> {
        self.places.position(path)
    }

    /// Returns the position in the file of line `line` (from 1) of the text at `path`: its line,
    /// and the column of the text's first column. Known for literal blocks (`|`) and for plain text
    /// on one line; `None` for other texts.
    pub fn block_line(&self, path: &str, line: u32) -> Option<(u32, u32)> {
        self.places.block_line(path, line)
    }

    /// Returns the position of the value at a path, or of the nearest enclosing key.
    pub fn nearest(&self, path: &str) -> Option<Place> {
        Some(self.places.nearest(path)?.clamped(&self.text))
    }
}
