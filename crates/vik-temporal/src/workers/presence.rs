//! Which workers are there, by the clock of the hub that reads the table.

use std::collections::BTreeMap;
use std::time::Duration;

use super::table::{Announcement, Table};
use vik_proc::BootTime;

/// A worker that the table has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    pub announcement: Announcement,
    /// It has announced itself within the timeout.
    pub is_present: bool,
}

/// Remembers when this hub saw each announcement first, so that no clocks are compared.
#[derive(Clone, Debug)]
pub struct Presence {
    timeout: Duration,
    seen: BTreeMap<String, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    count: u64,
    /// When the announcement with this count was seen first; `None` if it was old even then.
    at: Option<BootTime>,
}

impl Presence {
    /// Returns a presence of which workers are missing after `timeout` without an announcement.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            seen: BTreeMap::new(),
        }
    }

    /// Returns all workers of the table, by name.
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
            workers.push(Worker {
                announcement: row.announcement.clone(),
                is_present: at.is_some_and(|at| now < at.saturating_add(self.timeout)),
            });
        }
        workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(150);

    fn announce(table: &mut Table, name: &str, now_ms: u64) {
        let announcement = Announcement {
            name: name.to_owned(),
            ..Announcement::default()
        };
        table.announce(announcement, now_ms);
    }

    fn present(presence: &mut Presence, table: &Table, now: BootTime) -> Vec<bool> {
        let workers = presence.observe(table, now);
        workers.iter().map(|worker| worker.is_present).collect()
    }

    #[test]
    fn worker_is_missing_after_the_timeout_until_it_announces_itself() {
        let mut table = Table::default();
        announce(&mut table, "a", 0);
        let mut presence = Presence::new(TIMEOUT);
        let start = BootTime::now();
        assert_eq!(present(&mut presence, &table, start), [true]);
        let before = start.saturating_add(TIMEOUT - Duration::from_secs(1));
        assert_eq!(present(&mut presence, &table, before), [true]);
        assert_eq!(
            present(&mut presence, &table, start.saturating_add(TIMEOUT)),
            [false]
        );
        // The clock of the server may be anywhere.
        announce(&mut table, "a", 5);
        assert_eq!(
            present(&mut presence, &table, start.saturating_add(TIMEOUT)),
            [true]
        );
    }

    #[test]
    fn worker_that_was_old_in_the_first_table_is_missing() {
        let mut table = Table::default();
        announce(&mut table, "a", 0);
        announce(&mut table, "b", 150_001);
        announce(&mut table, "c", 300_001);
        let mut presence = Presence::new(TIMEOUT);
        assert_eq!(
            present(&mut presence, &table, BootTime::now()),
            [false, true, true]
        );
    }
}
