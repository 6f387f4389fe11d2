//! The columns of the waiting issues.

use vik_api::WaitingView;

use super::issue_cell;
use crate::table::{CellText, Column, Row, RowContext, Tone, Width};
use crate::text::{duration, humanize, natural_order, seconds_between};

/// Returns when a waiting issue starts: `in 42s`, `now`, or nothing if unknown.
pub(crate) fn starts_in(row: &WaitingView, context: &RowContext<'_>) -> String {
    match row.until {
        None => "-".to_owned(),
        Some(until) if until <= context.now => "now".to_owned(),
        Some(until) => duration(seconds_between(context.now, until)),
    }
}

impl Row for WaitingView {
    const COLUMNS: &'static [Column<Self>] = &[
        Column {
            name: "ISSUE",
            width: Width::Fit(6, 14),
            min_terminal_width: 0,
            right: false,
            cell: |row, context| issue_cell(&row.issue_id, context),
            order: |a, b| natural_order(a.issue_id.as_str(), b.issue_id.as_str()),
        },
        Column {
            name: "STAGE",
            width: Width::Fit(5, 12),
            min_terminal_width: 44,
            right: false,
            cell: |row, _| CellText::new(row.stage.as_str(), Tone::Name),
            order: |a, b| a.stage.cmp(&b.stage),
        },
        Column {
            name: "STARTS",
            width: Width::Fixed(7),
            min_terminal_width: 0,
            right: true,
            cell: |row, context| CellText::plain(starts_in(row, context)),
            // Unknown times come last.
            order: |a, b| (a.until.is_none(), a.until).cmp(&(b.until.is_none(), b.until)),
        },
        Column {
            name: "ATTEMPTS",
            width: Width::Fixed(8),
            min_terminal_width: 60,
            right: true,
            cell: |row, _| CellText::new(row.attempts.to_string(), Tone::Faint),
            order: |a, b| a.attempts.cmp(&b.attempts),
        },
        Column {
            name: "REASON",
            width: Width::Fit(6, 18),
            min_terminal_width: 0,
            right: false,
            cell: |row, _| CellText::new(humanize(&row.reason), Tone::Warn),
            order: |a, b| a.reason.cmp(&b.reason),
        },
        Column {
            name: "DETAIL",
            width: Width::Fill(10, 1),
            min_terminal_width: 60,
            right: false,
            cell: |row, _| CellText::plain(row.detail.as_str()),
            order: |a, b| a.detail.cmp(&b.detail),
        },
    ];
    const SORT: Option<(usize, bool)> = Some((2, false));

    fn key(&self) -> String {
        format!("{}\u{1}{}", self.issue_id, self.stage)
    }
}
