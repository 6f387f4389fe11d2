//! A window that moves over lines.

/// Which of many lines are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scroll {
    /// The first line that is seen.
    pub(crate) top: usize,
    /// How many lines there are.
    pub(crate) lines: usize,
    /// How many are seen at a time.
    pub(crate) rows: usize,
}

impl Scroll {
    /// The last place it can go to.
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

    /// Almost a whole window: one line stays to hold on to.
    pub(crate) fn page(&self) -> isize {
        isize::try_from(self.rows.saturating_sub(1).max(1)).unwrap_or(1)
    }

    /// Other lines or another window.
    pub(crate) fn fit(&mut self, lines: usize, rows: usize) {
        self.lines = lines;
        self.rows = rows;
        self.scroll_to(self.top);
    }

    /// How far down it is, in percent.
    pub(crate) fn percent(&self) -> usize {
        match self.last_top() {
            0 => 100,
            last => self.top * 100 / last,
        }
    }
}
