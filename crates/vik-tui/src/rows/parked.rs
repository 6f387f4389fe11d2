//! The columns of the parked issues.

use vik_api::ParkedView;

use super::issue_cell;
use crate::table::{CellText, Column, Row, Tone, Width};
use crate::text::{duration, humanize, natural_order, seconds_between};

impl Row for ParkedView {
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
            name: "SINCE",
            width: Width::Fixed(6),
            min_terminal_width: 50,
            right: true,
            cell: |row, context| {
                CellText::new(duration(seconds_between(row.since, context.now)), Tone::Faint)
            },
            order: |a, b| b.since.cmp(&a.since),
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
            width: Width::Fill(10, 3),
            min_terminal_width: 60,
            right: false,
            cell: |row, _| CellText::plain(row.detail.as_str()),
            order: |a, b| a.detail.cmp(&b.detail),
        },
        Column {
            name: "FREED BY",
            width: Width::Fill(12, 2),
            min_terminal_width: 120,
            right: false,
            cell: |row, _| CellText::new(row.freed_by.as_str(), Tone::Faint),
            order: |a, b| a.freed_by.cmp(&b.freed_by),
        },
    ];
    // The most recent comes first.
    const SORT: Option<(usize, bool)> = Some((2, false));

    fn key(&self) -> String {
        format!("{}\u{1}{}", self.issue_id, self.stage)
    }
}
