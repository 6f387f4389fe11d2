//! The lists of workers that the loop receives, and the workers in a status.

use tokio::sync::watch;
use vik_api::WorkerView;
use vik_core::worker::Workers;

use crate::attempts::Attempts;

/// The source of the lists of workers.
pub(crate) struct WorkerUpdates(Option<watch::Receiver<Workers>>);

impl WorkerUpdates {
    /// Creates the updates; `None` if attempts run on this machine.
    pub(crate) fn new(lists: Option<watch::Receiver<Workers>>) -> Self {
        Self(lists)
    }

    /// Returns whether attempts run on workers.
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the present list; `None` if attempts run on this machine.
    pub(crate) fn present(&mut self) -> Option<Workers> {
        let lists = self.0.as_mut()?;
        Some(lists.borrow_and_update().clone())
    }

    /// Waits for the next list; never returns if attempts run on this machine. Without a sender, the
    /// last list stays in force. Cancelling the call loses nothing.
    pub(crate) async fn next(&mut self) -> Workers {
        if let Some(lists) = &mut self.0
            && lists.changed().await.is_ok()
        {
            return lists.borrow_and_update().clone();
        }
        std::future::pending().await
    }
}

/// Returns the workers for a status, by name; none if attempts run on this machine.
pub(crate) fn views(workers: Option<&Workers>, attempts: &Attempts) -> Vec<WorkerView> {
    let listed = workers.into_iter().flat_map(Workers::iter);
    listed
        .map(|(worker, state)| WorkerView {
            name: worker.name.clone(),
            labels: worker.labels.clone(),
            state,
            running: attempts.count_on(&worker.name),
            capacity: worker.capacity,
            version: worker.revision.version.clone(),
        })
        .collect()
}
