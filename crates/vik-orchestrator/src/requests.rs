//! The requests that wait for the scheduler's decision.

use std::collections::HashMap;

use tokio::sync::oneshot;
use vik_api::ErrorBody;
use vik_base::report::ErrorCode;

use crate::ActionResult;

/// The requests whose response follows when their decision is on disk, or the tracker has answered.
#[derive(Default)]
pub(crate) struct Requests {
    waiting: HashMap<u64, oneshot::Sender<ActionResult>>,
    last: u64,
}

impl Requests {
    /// Adds a request, and returns its number.
    pub(crate) fn add(&mut self, answer: oneshot::Sender<ActionResult>) -> u64 {
        self.last += 1;
        self.waiting.insert(self.last, answer);
        self.last
    }

    /// Responds to a request.
    pub(crate) fn respond(&mut self, number: u64, result: ActionResult) {
        if let Some(answer) = self.waiting.remove(&number) {
            // The client may have disconnected.
            let _ = answer.send(result);
        }
    }

    /// Responds to all requests that their decisions cannot be stored.
    pub(crate) fn fail_all(&mut self, why: &str) {
        for (_, answer) in self.waiting.drain() {
            let _ = answer.send(Err(ErrorBody {
                code: ErrorCode::Ledger.to_string(),
                message: format!("the daemon is shutting down: {why}"),
                hint: None,
            }));
        }
    }
}
