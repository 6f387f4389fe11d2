//! Rows that are filtered, sorted and selected; which of them are drawn is the view's matter.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use jiff::Timestamp;
use vik_core::ids::IssueId;

use crate::text;

/// What a cell is written with.
pub(crate) struct RowContext<'a> {
    pub(crate) now: Timestamp,
    /// Issues that a person paused.
    pub(crate) paused: &'a [IssueId],
}

/// How a cell stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As text.
    #[default]
    Plain,
    /// What the row is about.
    Strong,
    /// Less important.
    Faint,
    /// It goes well.
    Good,
    /// It should be looked at.
    Warn,
    /// It failed.
    Bad,
    /// A name of something.
    Name,
}

/// What stands in a cell; not yet safe for a terminal.
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
}

/// How wide a column is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    /// Always so wide.
    Fixed(usize),
    /// As wide as what stands in it, within these.
    Fit(usize, usize),
    /// At least so wide, and a share of the room that is left.
    Fill(usize, usize),
}

/// One column.
pub(crate) struct Column<T: 'static> {
    pub(crate) name: &'static str,
    pub(crate) width: Width,
    /// Shown where the terminal has at least so many columns.
    pub(crate) min_terminal_width: u16,
    pub(crate) right: bool,
    pub(crate) cell: fn(&T, &RowContext<'_>) -> CellText,
    pub(crate) order: fn(&T, &T) -> Ordering,
}

/// What a table has as rows.
pub(crate) trait Row: Sized + 'static {
    /// Its columns.
    const COLUMNS: &'static [Column<Self>];
    /// The column that sorts it at first, and whether that is reversed; `None`: as it comes.
    const SORT: Option<(usize, bool)>;

    /// What makes it the same row after a refresh.
    fn key(&self) -> String;
}

/// Rows, and what is looked at.
pub(crate) struct Table<T: Row> {
    rows: Vec<T>,
    /// Which rows are shown, in which order.
    order: Vec<usize>,
    /// The place in `order`.
    selected: usize,
    /// The selected row, to find it again.
    key: Option<String>,
    /// The column, and whether it is reversed.
    pub(crate) sort: Option<(usize, bool)>,
    /// For each column how wide its contents are.
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

    /// How many rows there are.
    pub(crate) fn total(&self) -> usize {
        self.rows.len()
    }

    /// How many rows are shown.
    pub(crate) fn shown(&self) -> usize {
        self.order.len()
    }

    /// All rows.
    pub(crate) fn rows(&self) -> &[T] {
        &self.rows
    }

    /// The row that stands at a place.
    pub(crate) fn row_at(&self, place: usize) -> Option<&T> {
        self.order.get(place).and_then(|&row| self.rows.get(row))
    }

    pub(crate) fn selected(&self) -> usize {
        self.selected
    }

    pub(crate) fn current(&self) -> Option<&T> {
        self.row_at(self.selected)
    }

    /// Other rows; what is selected stays so where it is still there.
    pub(crate) fn set(&mut self, rows: Vec<T>, filter: &str, context: &RowContext<'_>) {
        self.rows = rows;
        self.arrange(filter, context);
    }

    /// Rows anew, or more of them.
    pub(crate) fn upsert(&mut self, rows: Vec<T>, filter: &str, context: &RowContext<'_>) {
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

    /// Filters and sorts.
    pub(crate) fn arrange(&mut self, filter: &str, context: &RowContext<'_>) {
        let needles: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
        self.content_widths.fill(0);
        self.order.clear();
        for (at, row) in self.rows.iter().enumerate() {
            let mut hay = String::new();
            for (fit, column) in self.content_widths.iter_mut().zip(T::COLUMNS) {
                if needles.is_empty() && !matches!(column.width, Width::Fit(..)) {
                    continue;
                }
                let cell = (column.cell)(row, context);
                if let Width::Fit(_, most) = column.width {
                    // No column is wider than that: what is longer need not be read.
                    *fit = (*fit).max(text::width(&text::fit(&cell.text, most)));
                }
                hay.push_str(&cell.text.to_lowercase());
                hay.push('\n');
            }
            if !needles.is_empty() {
                hay.push_str(&row.key().to_lowercase());
            }
            if needles.iter().all(|needle| hay.contains(needle)) {
                self.order.push(at);
            }
        }
        if let Some((column, reverse)) = self.sort
            && let Some(column) = T::COLUMNS.get(column)
        {
            let rows = &self.rows;
            self.order.sort_by(|&a, &b| {
                let order = (column.order)(&rows[a], &rows[b]);
                if reverse { order.reverse() } else { order }
            });
        }
        self.restore_selection();
    }

    fn restore_selection(&mut self) {
        let found = self
            .key
            .as_ref()
            .and_then(|key| self.order.iter().position(|&row| self.rows[row].key() == *key));
        match found {
            Some(place) => self.selected = place,
            // It is gone: its neighbour takes its place.
            None => self.select(self.selected),
        }
    }

    /// Selects what stands at a place, or the last one.
    pub(crate) fn select(&mut self, place: usize) {
        self.selected = place.min(self.order.len().saturating_sub(1));
        self.key = self.current().map(T::key);
    }

    /// Selects by steps up or down.
    pub(crate) fn step(&mut self, steps: isize) {
        self.select(self.selected.saturating_add_signed(steps));
    }

    /// Sorts by the next column that is shown.
    pub(crate) fn sort_next(&mut self, columns: u16) {
        let visible = |&at: &usize| T::COLUMNS[at].min_terminal_width <= columns;
        let from = self.sort.map_or(0, |(column, _)| column + 1);
        let next = (from..T::COLUMNS.len())
            .chain(0..from.min(T::COLUMNS.len()))
            .find(visible);
        self.sort = next.map(|column| (column, false));
    }

    /// Turns the order around.
    pub(crate) fn sort_reverse(&mut self) {
        self.sort = Some(
            self.sort
                .map_or((0, true), |(column, reverse)| (column, !reverse)),
        );
    }
}
