//! Tables with filter, order and selection. The view decides which rows it draws.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use jiff::Timestamp;
use vik_core::ids::IssueId;

use crate::text;

/// The context for formatting a cell.
pub(crate) struct RowContext {
    pub(crate) now: Timestamp,
    /// Issues that are paused.
    pub(crate) paused: Vec<IssueId>,
}

impl RowContext {
    /// Returns the seconds since a time; negative for a future time.
    pub(crate) fn elapsed(&self, since: Timestamp) -> f64 {
        self.now.duration_since(since).as_secs_f64()
    }

    /// Returns the cell of the time since a start.
    pub(crate) fn since(&self, start: Timestamp, tone: Tone) -> Cell {
        let seconds = text::seconds_between(start, self.now);
        CellText::new(text::duration(seconds), tone).ranked(self.elapsed(start))
    }
}

/// How a cell is highlighted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    /// The subject of the row.
    Strong,
    Faint,
    Good,
    Warn,
    Bad,
    Name,
}

/// The text of a cell; not yet safe for a terminal.
#[derive(Clone, Debug, Default)]
pub(crate) struct CellText {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl CellText {
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Tone::Plain)
    }

    /// Creates a cell that is ordered by a number.
    pub(crate) fn ranked(self, rank: f64) -> Cell {
        Cell {
            content: self,
            rank: Some(rank),
        }
    }
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) content: CellText,
    /// The value for the order of the column; `None` orders by the text.
    rank: Option<f64>,
}

impl From<CellText> for Cell {
    fn from(content: CellText) -> Self {
        Self { content, rank: None }
    }
}

impl Cell {
    fn compare(&self, other: &Self) -> Ordering {
        match (self.rank, other.rank) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => text::natural_order(&self.content.text, &other.content.text),
        }
    }
}

/// The width of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    Fixed(usize),
    /// As wide as its contents, within these limits.
    Fit(usize, usize),
    /// At least this width, and a share of the remaining space.
    Fill(usize, usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) width: Width,
    /// The minimum number of terminal columns for showing it.
    pub(crate) min_terminal_width: u16,
    /// Whether the text is aligned to the right.
    pub(crate) is_right: bool,
}

/// Creates a column that is shown from a width of the terminal on.
pub(crate) const fn column(name: &'static str, width: Width, min_terminal_width: u16) -> Column {
    Column {
        name,
        width,
        min_terminal_width,
        is_right: false,
    }
}

impl Column {
    /// Aligns the text to the right.
    pub(crate) const fn right(self) -> Self {
        Self {
            is_right: true,
            ..self
        }
    }
}

/// A row of a table.
pub(crate) trait Row: Sized + 'static {
    const COLUMNS: &'static [Column];
    /// The column of the initial order, and whether it is reversed.
    const SORT: (usize, bool);

    /// Returns the key that identifies the row after a refresh.
    fn key(&self) -> String;

    /// Returns the issue that the row is about.
    fn issue(&self) -> Option<&IssueId>;

    /// Returns one cell for each column.
    fn cells(&self, context: &RowContext) -> Vec<Cell>;
}

/// Rows with their order and selection.
pub(crate) struct Table<T: Row> {
    rows: Vec<T>,
    /// The indices of the visible rows, in order.
    order: Vec<usize>,
    /// An index of `order`.
    selected: usize,
    /// The key of the selected row.
    key: Option<String>,
    /// The column of the order, and whether it is reversed.
    pub(crate) sort: (usize, bool),
    /// The content width of each column.
    pub(crate) content_widths: Vec<usize>,
}

impl<T: Row> Table<T> {
    pub(crate) fn new() -> Self {
        Self {
            rows: Vec::new(),
            order: Vec::new(),
            selected: 0,
            key: None,
            sort: T::SORT,
            content_widths: vec![0; T::COLUMNS.len()],
        }
    }

    /// Returns the number of rows.
    pub(crate) fn total(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of visible rows.
    pub(crate) fn shown(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn rows(&self) -> &[T] {
        &self.rows
    }

    /// Returns the row at an index of the order.
    pub(crate) fn row_at(&self, place: usize) -> Option<&T> {
        self.order.get(place).and_then(|&row| self.rows.get(row))
    }

    pub(crate) fn selected(&self) -> usize {
        self.selected
    }

    pub(crate) fn current(&self) -> Option<&T> {
        self.row_at(self.selected)
    }

    /// Replaces all rows and keeps the selection if possible.
    pub(crate) fn set(&mut self, rows: Vec<T>, filter: &str, context: &RowContext) {
        self.rows = rows;
        self.arrange(filter, context);
    }

    /// Replaces or adds rows.
    pub(crate) fn upsert(&mut self, rows: Vec<T>, filter: &str, context: &RowContext) {
        let mut places: HashMap<String, usize> = self
            .rows
            .iter()
            .enumerate()
            .map(|(at, row)| (row.key(), at))
            .collect();
        for row in rows {
            match places.entry(row.key()) {
                Entry::Occupied(place) => self.rows[*place.get()] = row,
                Entry::Vacant(place) => {
                    place.insert(self.rows.len());
                    self.rows.push(row);
                }
            }
        }
        self.arrange(filter, context);
    }

    /// Filters and sorts the rows.
    pub(crate) fn arrange(&mut self, filter: &str, context: &RowContext) {
        let needles: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
        self.content_widths.fill(0);
        self.order.clear();
        let (column, reverse) = self.sort;
        let mut sorted_cells = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            let cells = row.cells(context);
            for (fit, (shown, cell)) in self.content_widths.iter_mut().zip(T::COLUMNS.iter().zip(&cells)) {
                if let Width::Fit(_, most) = shown.width {
                    // The column is never wider than that, so the remaining text need not be read.
                    *fit = (*fit).max(text::width(&text::fit(&cell.content.text, most)));
                }
            }
            let mut hay = String::new();
            if !needles.is_empty() {
                for cell in &cells {
                    hay.push_str(&cell.content.text.to_lowercase());
                    hay.push('\n');
                }
                hay.push_str(&row.key().to_lowercase());
            }
            sorted_cells.push(cells.into_iter().nth(column));
            if needles.iter().all(|needle| hay.contains(needle)) {
                self.order.push(at);
            }
        }
        self.order.sort_by(|&a, &b| {
            let order = match (&sorted_cells[a], &sorted_cells[b]) {
                (Some(a), Some(b)) => a.compare(b),
                _ => Ordering::Equal,
            };
            if reverse { order.reverse() } else { order }
        });
        self.restore_selection();
    }

    fn restore_selection(&mut self) {
        let found = self
            .key
            .as_ref()
            .and_then(|key| self.order.iter().position(|&row| self.rows[row].key() == *key));
        match found {
            Some(place) => self.selected = place,
            // The row was removed: its neighbour is selected.
            None => self.select(self.selected),
        }
    }

    /// Selects the row at an index, or the last one.
    pub(crate) fn select(&mut self, place: usize) {
        self.selected = place.min(self.order.len().saturating_sub(1));
        self.key = self.current().map(T::key);
    }

    /// Moves the selection by this number of rows.
    pub(crate) fn step(&mut self, steps: isize) {
        self.select(self.selected.saturating_add_signed(steps));
    }

    /// Sorts by the next visible column.
    pub(crate) fn sort_next(&mut self, columns: u16) {
        let visible = |&at: &usize| T::COLUMNS[at].min_terminal_width <= columns;
        let from = self.sort.0 + 1;
        let next = (from..T::COLUMNS.len())
            .chain(0..from.min(T::COLUMNS.len()))
            .find(visible);
        self.sort = (next.unwrap_or(0), false);
    }

    pub(crate) fn sort_reverse(&mut self) {
        self.sort.1 = !self.sort.1;
    }
}
