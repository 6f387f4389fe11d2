//! The running attempts, and their updates.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use vik_core::attempt::Start;
use vik_core::ids::AttemptId;
use vik_core::limits::Spend;
use vik_session::attempt::{AttemptHandle, AttemptUpdate, AttemptUpdates, CommandSender, Live, StopLevel};

pub(crate) struct RunningAttempt {
    pub(crate) start: Box<Start>,
    pub(crate) live: Live,
    pub(crate) commands: CommandSender,
    pub(crate) since: Timestamp,
    /// Whether an earlier daemon started the attempt.
    pub(crate) adopted: bool,
    /// What the attempt has spent so far.
    pub(crate) spent: Spend,
}

/// An update, and the rest of them.
struct Received {
    attempt_id: AttemptId,
    update: AttemptUpdate,
    updates: AttemptUpdates,
}

type NextUpdate = Pin<Box<dyn Future<Output = Received> + Send>>;

#[derive(Default)]
pub(crate) struct Attempts {
    running: HashMap<AttemptId, RunningAttempt>,
    /// One wait for each running attempt.
    updates: FuturesUnordered<NextUpdate>,
}

impl Attempts {
    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RunningAttempt> {
        self.running.values()
    }

    pub(crate) fn add(&mut self, start: Box<Start>, handle: AttemptHandle, since: Timestamp, adopted: bool) {
        let attempt_id = start.attempt_id;
        let running = RunningAttempt {
            start,
            live: handle.updates.live(),
            commands: handle.commands,
            since,
            adopted,
            spent: Spend::default(),
        };
        self.running.insert(attempt_id, running);
        self.wait_for_update(attempt_id, handle.updates);
    }

    /// Removes an attempt, and returns its start.
    pub(crate) fn remove(&mut self, attempt_id: AttemptId) -> Option<Box<Start>> {
        self.running.remove(&attempt_id).map(|running| running.start)
    }

    pub(crate) fn get_mut(&mut self, attempt_id: AttemptId) -> Option<&mut RunningAttempt> {
        self.running.get_mut(&attempt_id)
    }

    /// Returns the commands of an attempt, if it is running.
    pub(crate) fn commands(&self, attempt_id: AttemptId) -> Option<&CommandSender> {
        self.running.get(&attempt_id).map(|running| &running.commands)
    }

    pub(crate) fn stop_all(&self, level: StopLevel) {
        for running in self.iter() {
            running.commands.stop_with_daemon(level);
        }
    }

    /// Leaves all agents to their shims.
    pub(crate) fn detach_all(&self) {
        for running in self.iter() {
            running.commands.detach();
        }
    }

    /// Waits for the next update of any attempt; never returns if none is running. Cancelling the
    /// call loses nothing.
    pub(crate) async fn next(&mut self) -> (AttemptId, AttemptUpdate) {
        let Some(received) = self.updates.next().await else {
            return std::future::pending().await;
        };
        let Received {
            attempt_id,
            update,
            updates,
        } = received;
        if !matches!(update, AttemptUpdate::Finished(_)) {
            self.wait_for_update(attempt_id, updates);
        }
        (attempt_id, update)
    }

    fn wait_for_update(&mut self, attempt_id: AttemptId, mut updates: AttemptUpdates) {
        self.updates.push(Box::pin(async move {
            let update = updates.next().await;
            Received {
                attempt_id,
                update,
                updates,
            }
        }));
    }
}
