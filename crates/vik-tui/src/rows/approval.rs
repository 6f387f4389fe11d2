//! The columns of the approvals.

use vik_api::ApprovalView;
use vik_core::ids::IssueId;

use super::issue_cell;
use crate::table::{Cell, CellText, Column, Row, RowContext, Tone, Width, column};
use crate::text::{duration, seconds_between};

impl Row for ApprovalView {
    const COLUMNS: &'static [Column] = &[
        column("ISSUE", Width::Fit(6, 14), 0),
        column("STAGE", Width::Fit(5, 12), 44),
        column("SINCE", Width::Fixed(6), 50).right(),
        column("LEFT", Width::Fixed(6), 66).right(),
        column("GATE", Width::Fixed(6), 0),
        column("WHAT", Width::Fill(10, 3), 0),
    ];
    // The longest wait comes first.
    const SORT: (usize, bool) = (2, true);

    fn key(&self) -> String {
        self.request.id.clone()
    }

    fn issue(&self) -> Option<&IssueId> {
        Some(&self.issue_id)
    }

    fn cells(&self, context: &RowContext) -> Vec<Cell> {
        let left = duration(seconds_between(context.now, self.request.until));
        vec![
            issue_cell(&self.issue_id, context).into(),
            CellText::new(self.stage.as_str(), Tone::Name).into(),
            context.since(self.request.since, Tone::Faint),
            CellText::new(left, Tone::Warn).ranked(-context.elapsed(self.request.until)),
            CellText::new(self.request.gate.as_str(), Tone::Warn).into(),
            CellText::plain(self.detail.as_str()).into(),
        ]
    }
}
