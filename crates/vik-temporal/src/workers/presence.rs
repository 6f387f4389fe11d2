//! Which workers are lost, by the clock of the hub that reads the table.

use std::collections::BTreeMap;
use std::time::Duration;

use vik_core::worker::{Presence, Worker, WorkerName};
use vik_proc::BootTime;

use super::table::Table;

/// Remembers when this hub saw each announcement first, so that no clocks are compared.
#[derive(Clone, Debug)]
pub struct PresenceTracker {
    timeout: Duration,
    seen: BTreeMap<WorkerName, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    count: u64,
    /// When the announcement with this count was seen first; `None` if it was old even then.
    at: Option<BootTime>,
}

impl PresenceTracker {
    /// Returns a tracker for which workers are lost after `timeout` without an announcement.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            seen: BTreeMap::new(),
        }
    }

    /// Returns all workers of the table, by name. Those that are missing are lost.
    ///
    /// A hub that reads the table for the first time does not know how old it is. For it, a worker is
    /// missing if others have announced themselves for a timeout since.
    pub fn observe(&mut self, table: &Table, now: BootTime) -> Vec<Worker> {
        let newest = table.rows.values().map(|row| row.last_ms).max();
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        self.seen.retain(|name, _| table.rows.contains_key(name));
        let mut workers = Vec::new();
        for (name, row) in &table.rows {
            let is_old = newest.unwrap_or(0).saturating_sub(row.last_ms) > timeout_ms;
            let at = match self.seen.get(name) {
                Some(seen) if seen.count == row.count => seen.at,
                Some(_) => Some(now),
                None => (!is_old).then_some(now),
            };
            let seen = Seen { count: row.count, at };
            self.seen.insert(name.clone(), seen);
            let mut worker = row.worker.clone();
            if at.is_none_or(|at| now >= at.saturating_add(self.timeout)) {
                worker.presence = Presence::Lost;
            }
            workers.push(worker);
        }
        workers
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;
    use std::num::NonZeroU32;

    use jiff::Timestamp;
    use vik_core::worker::{Revision, WorkerLabel};

    use super::*;
    use crate::workers::announcement::{Announcement, WorkerInstance};

    const TIMEOUT: Duration = Duration::from_secs(150);

    /// Returns an available worker with this name.
    pub fn worker(name: &str) -> Worker {
        Worker {
            name: name.parse().unwrap(),
            labels: BTreeSet::from(["linux".parse::<WorkerLabel>().unwrap()]),
            capacity: NonZeroU32::MIN,
            revision: Revision {
                version: "1".to_owned(),
                workflow_digest: "d".to_owned(),
            },
            presence: Presence::Available,
        }
    }

    /// Returns the announcement of a worker by the only process with its name.
    pub fn announced(worker: Worker) -> Announcement {
        Announcement {
            worker,
            instance: WorkerInstance {
                host: "host".to_owned(),
                pid: 1,
                started_at: Timestamp::UNIX_EPOCH,
                boot: "boot".to_owned(),
                folder: "folder".to_owned(),
            },
            is_last: false,
        }
    }

    fn presences(tracker: &mut PresenceTracker, table: &Table, now: BootTime) -> Vec<Presence> {
        let workers = tracker.observe(table, now);
        workers.iter().map(|worker| worker.presence).collect()
    }

    #[test]
    fn worker_is_lost_after_the_timeout_until_it_announces_itself() {
        let mut table = Table::default();
        table.announce(announced(worker("a")), 0);
        let mut tracker = PresenceTracker::new(TIMEOUT);
        let start = BootTime::now();
        let end = start.saturating_add(TIMEOUT);
        assert_eq!(tracker.observe(&table, start), [worker("a")]);
        let before = start.saturating_add(TIMEOUT - Duration::from_secs(1));
        assert_eq!(presences(&mut tracker, &table, before), [Presence::Available]);
        assert_eq!(presences(&mut tracker, &table, end), [Presence::Lost]);
        // The clock of the server may be anywhere.
        let draining = Worker {
            presence: Presence::Draining,
            ..worker("a")
        };
        table.announce(announced(draining), 5);
        assert_eq!(presences(&mut tracker, &table, end), [Presence::Draining]);
        let later = end.saturating_add(TIMEOUT);
        assert_eq!(presences(&mut tracker, &table, later), [Presence::Lost]);
    }

    #[test]
    fn worker_that_was_old_in_the_first_table_is_lost() {
        let mut table = Table::default();
        table.announce(announced(worker("a")), 0);
        table.announce(announced(worker("b")), 150_001);
        table.announce(announced(worker("c")), 300_001);
        let mut tracker = PresenceTracker::new(TIMEOUT);
        assert_eq!(
            presences(&mut tracker, &table, BootTime::now()),
            [Presence::Lost, Presence::Available, Presence::Available]
        );
    }
}
