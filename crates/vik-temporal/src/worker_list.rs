//! The workers of a queue, as the hub that leads passes them to its loop.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use vik_core::worker::{Presence, Revision, Worker, WorkerName, WorkerState, Workers};
use vik_proc::BootTime;

use crate::workers::{self, ANNOUNCE_TIMEOUT, PresenceTracker, Table, WorkerInstance, WorkersError};

/// How often it is checked whether a worker is lost, and the shortest time between two requests for the
/// table.
const INTERVAL: Duration = Duration::from_secs(1);

/// The list of workers, for those who learn more about them than the table has.
#[derive(Clone, Debug)]
pub struct WorkerList {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    hub: Revision,
    tracker: PresenceTracker,
    table: Table,
    /// The workers that are lost for now, with the number of their last announcement.
    silent: BTreeMap<WorkerName, u64>,
    list: watch::Sender<Workers>,
}

impl WorkerList {
    /// Reads the table of workers, now and when it changes. The second part of the result has the list.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses to read the table.
    pub async fn start(
        table: workers::Workers,
        hub: Revision,
    ) -> Result<(Self, watch::Receiver<Workers>), WorkersError> {
        let (list, receiver) = watch::channel(Workers::new(hub.clone(), []));
        table.forget_last_hub().await;
        let this = Self {
            state: Arc::new(Mutex::new(State {
                hub,
                tracker: PresenceTracker::new(ANNOUNCE_TIMEOUT),
                table: table.table().await?,
                silent: BTreeMap::new(),
                list,
            })),
        };
        this.state().publish();
        tokio::spawn(read(this.clone(), table));
        Ok((this, receiver))
    }

    /// Returns the process that has the name of a worker.
    pub(crate) fn holder(&self, worker: &WorkerName) -> Option<WorkerInstance> {
        self.state().table.rows.get(worker)?.holder.clone()
    }

    /// Notes that this process of a worker does not respond, or ends. The worker is lost until it
    /// announces itself again, and is not if another process has its name already.
    pub(crate) fn mark_silent(&self, worker: &WorkerName, process: Option<&WorkerInstance>) {
        let mut state = self.state();
        let row = state.table.rows.get(worker);
        if row.and_then(|row| row.holder.as_ref()) == process {
            let announced = row.map_or(0, |row| row.count);
            state.silent.insert(worker.clone(), announced);
            state.publish();
        }
    }

    /// Waits until a worker may get work, for at most `limit`: it may have to read an edit first.
    pub(crate) async fn wait_until_ready(&self, worker: &WorkerName, limit: Duration) {
        let mut list = self.state().list.subscribe();
        let ready = list.wait_for(|workers| workers.state(worker) == WorkerState::Ready);
        let _ = timeout(limit, ready).await;
    }

    /// Notes that the hub has another workflow.
    pub fn set_workflow_digest(&self, digest: String) {
        let mut state = self.state();
        state.hub.workflow_digest = digest;
        state.publish();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn publish(&mut self) {
        let table = &self.table;
        self.silent
            .retain(|name, announced| table.rows.get(name).is_some_and(|row| row.count == *announced));
        let workers = self.tracker.observe(table, BootTime::now()).into_iter();
        let workers = workers.map(|worker| match self.silent.contains_key(&worker.name) {
            true => Worker {
                presence: Presence::Lost,
                ..worker
            },
            false => worker,
        });
        let workers = Workers::new(self.hub.clone(), workers);
        self.list.send_if_modified(|last| {
            let is_new = *last != workers;
            *last = workers;
            is_new
        });
    }
}

async fn read(list: WorkerList, table: workers::Workers) {
    let mut changes = table.changes();
    let tables = async {
        loop {
            changes.next().await;
            match table.table().await {
                Ok(table) => {
                    let mut state = list.state();
                    state.table = table;
                    state.publish();
                }
                Err(error) => tracing::warn!(%error, "the table of workers cannot be read"),
            }
            tokio::time::sleep(INTERVAL).await;
        }
    };
    // A worker is lost by the clock.
    let losses = async {
        loop {
            tokio::time::sleep(INTERVAL).await;
            list.state().publish();
        }
    };
    tokio::join!(tables, losses);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::tests::{announced, worker};

    #[test]
    fn worker_that_does_not_respond_is_lost_until_it_announces_itself() {
        let hub = worker("a").revision;
        let (list, receiver) = watch::channel(Workers::new(hub.clone(), []));
        let mut table = Table::default();
        table.announce(announced(worker("a")), 1);
        table.announce(announced(worker("b")), 1);
        let state = State {
            hub,
            tracker: PresenceTracker::new(ANNOUNCE_TIMEOUT),
            table,
            silent: BTreeMap::new(),
            list,
        };
        let list = WorkerList {
            state: Arc::new(Mutex::new(state)),
        };
        let ready = || {
            let workers = receiver.borrow();
            let names = workers.ready().map(|worker| worker.name.to_string());
            names.collect::<Vec<_>>()
        };
        list.state().publish();
        assert_eq!(ready(), ["a", "b"]);
        let a = "a".parse().unwrap();
        let process = list.holder(&a);
        list.mark_silent(&a, process.as_ref());
        assert_eq!(ready(), ["b"]);
        list.state().table.announce(announced(worker("b")), 2);
        list.state().publish();
        assert_eq!(ready(), ["b"]);
        list.state().table.announce(announced(worker("a")), 2);
        list.state().publish();
        assert_eq!(ready(), ["a", "b"]);
        list.set_workflow_digest("another".to_owned());
        assert_eq!(ready(), [""; 0]);
    }

    #[test]
    fn worker_that_was_restarted_is_not_lost_with_an_attempt_of_the_process_before() {
        let hub = worker("a").revision;
        let (list, receiver) = watch::channel(Workers::new(hub.clone(), []));
        let list = WorkerList {
            state: Arc::new(Mutex::new(State {
                hub,
                tracker: PresenceTracker::new(ANNOUNCE_TIMEOUT),
                table: Table::default(),
                silent: BTreeMap::new(),
                list,
            })),
        };
        let announce = |pid| {
            let mut announcement = announced(worker("a"));
            announcement.instance.pid = pid;
            list.state().table.announce(announcement, 1);
            list.state().publish();
        };
        let a = "a".parse().unwrap();
        announce(1);
        let process = list.holder(&a);
        announce(2);
        list.mark_silent(&a, process.as_ref());
        assert_eq!(receiver.borrow().ready().count(), 1);
        list.mark_silent(&a, list.holder(&a).as_ref());
        assert_eq!(receiver.borrow().ready().count(), 0);
    }
}
