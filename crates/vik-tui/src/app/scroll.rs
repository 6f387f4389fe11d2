//! A window that scrolls over lines.

/// The visible part of many lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scroll {
    /// The first visible line.
    pub(crate) top: usize,
    /// The number of lines.
    pub(crate) lines: usize,
    /// The number of visible lines.
    pub(crate) rows: usize,
}

impl Scroll {
    /// Returns the maximum of `top`.
    pub(crate) fn last_top(&self) -> usize {
        self.lines.saturating_sub(self.rows)
    }

    pub(crate) fn at_end(&self) -> bool {
        self.top >= self.last_top()
    }

    pub(crate) fn scroll_to(&mut self, top: usize) {
        self.top = top.min(self.last_top());
    }

    pub(crate) fn scroll_by(&mut self, lines: isize) {
        self.scroll_to(self.top.saturating_add_signed(lines));
    }

    /// Returns almost a whole window: one line stays visible for orientation.
    pub(crate) fn page(&self) -> isize {
        isize::try_from(self.rows.saturating_sub(1).max(1)).unwrap_or(1)
    }

    /// Sets the number of lines and the size of the window.
    pub(crate) fn fit(&mut self, lines: usize, rows: usize) {
        self.lines = lines;
        self.rows = rows;
        self.scroll_to(self.top);
    }

    /// Returns the scroll position in percent.
    pub(crate) fn percent(&self) -> usize {
        match self.last_top() {
            0 => 100,
            last => self.top * 100 / last,
        }
    }
}
