//! The columns of the parked issues.

use vik_api::ParkedView;
use vik_core::ids::IssueId;

use super::issue_cell;
use crate::table::{Cell, CellText, Column, Row, RowContext, Tone, Width, column};
use crate::text::humanize;

impl Row for ParkedView {
    const COLUMNS: &'static [Column] = &[
        column("ISSUE", Width::Fit(6, 14), 0),
        column("STAGE", Width::Fit(5, 12), 44),
        column("SINCE", Width::Fixed(6), 50).right(),
        column("REASON", Width::Fit(6, 18), 0),
        column("DETAIL", Width::Fill(10, 3), 60),
        column("FREED BY", Width::Fill(12, 2), 120),
    ];
    // The most recent comes first.
    const SORT: (usize, bool) = (2, false);

    fn key(&self) -> String {
        format!("{}\u{1}{}", self.issue_id, self.stage)
    }

    fn issue(&self) -> Option<&IssueId> {
        Some(&self.issue_id)
    }

    fn cells(&self, context: &RowContext) -> Vec<Cell> {
        vec![
            issue_cell(&self.issue_id, context).into(),
            CellText::new(self.stage.as_str(), Tone::Name).into(),
            context.since(self.since, Tone::Faint),
            CellText::new(humanize(&self.reason), Tone::Warn).into(),
            CellText::plain(self.detail.as_str()).into(),
            CellText::new(self.freed_by.as_str(), Tone::Faint).into(),
        ]
    }
}
