//! The columns of the waiting issues.

use vik_api::WaitingView;
use vik_core::ids::IssueId;

use super::issue_cell;
use crate::table::{Cell, CellText, Column, Row, RowContext, Tone, Width, column};
use crate::text::{duration, humanize, seconds_between};

/// Returns when a waiting issue starts: `in 42s`, `now`, or nothing if unknown.
pub(crate) fn starts_in(row: &WaitingView, context: &RowContext) -> String {
    match row.until {
        None => "-".to_owned(),
        Some(until) if until <= context.now => "now".to_owned(),
        Some(until) => duration(seconds_between(context.now, until)),
    }
}

impl Row for WaitingView {
    const COLUMNS: &'static [Column] = &[
        column("ISSUE", Width::Fit(6, 14), 0),
        column("STAGE", Width::Fit(5, 12), 44),
        column("STARTS", Width::Fixed(7), 0).right(),
        column("ATTEMPTS", Width::Fixed(8), 60).right(),
        column("REASON", Width::Fit(6, 18), 0),
        column("DETAIL", Width::Fill(10, 1), 60),
    ];
    const SORT: (usize, bool) = (2, false);

    fn key(&self) -> String {
        format!("{}\u{1}{}", self.issue_id, self.stage)
    }

    fn issue(&self) -> Option<&IssueId> {
        Some(&self.issue_id)
    }

    fn cells(&self, context: &RowContext) -> Vec<Cell> {
        // Unknown times come last.
        let start = self.until.map_or(f64::INFINITY, |until| -context.elapsed(until));
        vec![
            issue_cell(&self.issue_id, context).into(),
            CellText::new(self.stage.as_str(), Tone::Name).into(),
            CellText::plain(starts_in(self, context)).ranked(start),
            CellText::new(self.attempts.to_string(), Tone::Faint).into(),
            CellText::new(humanize(&self.reason), Tone::Warn).into(),
            CellText::plain(self.detail.as_str()).into(),
        ]
    }
}
