//! The columns of the workers.

use vik_api::WorkerView;
use vik_core::ids::IssueId;
use vik_core::worker::WorkerState;

use crate::table::{Cell, CellText, Column, Row, RowContext, Tone, Width, column};
use crate::text::humanize;

/// Returns the state of a worker, and its tone.
pub(crate) fn worker_state(worker: &WorkerView) -> CellText {
    let tone = match worker.state {
        WorkerState::Ready => Tone::Good,
        WorkerState::Draining => Tone::Plain,
        WorkerState::MismatchedVersion | WorkerState::MismatchedWorkflow => Tone::Warn,
        WorkerState::Lost => Tone::Bad,
    };
    CellText::new(humanize(worker.state.as_str()), tone)
}

impl Row for WorkerView {
    const COLUMNS: &'static [Column] = &[
        column("WORKER", Width::Fit(6, 24), 0),
        column("STATE", Width::Fit(5, 19), 0),
        column("RUNNING", Width::Fixed(7), 0).right(),
        column("CAPACITY", Width::Fixed(8), 60).right(),
        column("VERSION", Width::Fit(7, 16), 72),
        column("LABELS", Width::Fill(6, 1), 60),
    ];
    const SORT: (usize, bool) = (0, false);

    fn key(&self) -> String {
        self.name.to_string()
    }

    fn issue(&self) -> Option<&IssueId> {
        None
    }

    fn cells(&self, _: &RowContext) -> Vec<Cell> {
        vec![
            CellText::new(self.name.as_str(), Tone::Strong).into(),
            worker_state(self).into(),
            CellText::plain(self.running.to_string()).ranked(self.running.into()),
            CellText::plain(self.capacity.to_string()).ranked(self.capacity.get().into()),
            CellText::new(self.version.as_str(), Tone::Faint).into(),
            CellText::plain(self.label_list()).into(),
        ]
    }
}
