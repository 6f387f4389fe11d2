//! The columns of the approvals.

use vik_api::ApprovalView;

use super::issue_cell;
use crate::table::{CellText, Column, Row, Tone, Width};
use crate::text::{duration, natural_order, seconds_between};

impl Row for ApprovalView {
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
                CellText::new(
                    duration(seconds_between(row.request.since, context.now)),
                    Tone::Faint,
                )
            },
            order: |a, b| b.request.since.cmp(&a.request.since),
        },
        Column {
            name: "LEFT",
            width: Width::Fixed(6),
            min_terminal_width: 66,
            right: true,
            cell: |row, context| {
                CellText::new(
                    duration(seconds_between(context.now, row.request.until)),
                    Tone::Warn,
                )
            },
            order: |a, b| a.request.until.cmp(&b.request.until),
        },
        Column {
            name: "GATE",
            width: Width::Fixed(6),
            min_terminal_width: 0,
            right: false,
            cell: |row, _| CellText::new(row.request.gate.as_str(), Tone::Warn),
            order: |a, b| a.request.gate.as_str().cmp(b.request.gate.as_str()),
        },
        Column {
            name: "WHAT",
            width: Width::Fill(10, 3),
            min_terminal_width: 0,
            right: false,
            cell: |row, _| CellText::plain(row.detail.as_str()),
            order: |a, b| a.detail.cmp(&b.detail),
        },
    ];
    // The longest wait comes first.
    const SORT: Option<(usize, bool)> = Some((2, true));

    fn key(&self) -> String {
        self.request.id.clone()
    }
}
