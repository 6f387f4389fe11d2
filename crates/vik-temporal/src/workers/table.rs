//! The rows of the table, without a server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vik_core::worker::{Presence, Revision, Worker, WorkerName};

use super::ANNOUNCE_TIMEOUT;
use super::announcement::{Announcement, WorkerInstance};

/// A worker that has not announced itself for this time leaves the table, in milliseconds.
const MAX_AGE_MS: u64 = 24 * 3600 * 1000;

/// More workers are not in the table.
const MAX_ROWS: usize = 1_000;

const MAX_TEXT_BYTES: usize = 256;
const MAX_LABELS: usize = 64;

/// An announcement is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a worker announces itself as available or draining, with at most {MAX_LABELS} labels and at most \
     {MAX_TEXT_BYTES} bytes of version, digest, host, boot and folder"
)]
pub struct InvalidAnnouncement;

/// Checks an announcement: the table must stay small, and no worker can report that it is lost.
pub(super) fn check(announcement: &Announcement) -> Result<(), InvalidAnnouncement> {
    let Announcement { worker, instance, .. } = announcement;
    let Revision {
        version,
        workflow_digest,
    } = &worker.revision;
    let mut texts = [
        version,
        workflow_digest,
        &instance.host,
        &instance.boot,
        &instance.folder,
    ]
    .into_iter();
    let is_valid = worker.presence != Presence::Lost
        && worker.labels.len() <= MAX_LABELS
        && texts.all(|text| text.len() <= MAX_TEXT_BYTES);
    if is_valid {
        Ok(())
    } else {
        Err(InvalidAnnouncement)
    }
}

/// A worker in the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// As it announced itself last.
    pub worker: Worker,
    /// Who has the name; `None` once it has ended.
    pub holder: Option<WorkerInstance>,
    /// How often it has announced itself.
    pub count: u64,
    /// When it did so last, in milliseconds since 1970 on the clock of the server.
    pub last_ms: u64,
}

/// All workers of a queue, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    pub rows: BTreeMap<WorkerName, Row>,
}

impl Table {
    /// Adds or replaces a worker, and removes those that have not announced themselves for a day. An
    /// invalid announcement changes nothing, as does a new worker if there are 1,000, and a worker with
    /// the name of another one that has announced itself within the timeout.
    pub fn announce(&mut self, announcement: Announcement, now_ms: u64) {
        self.rows
            .retain(|_, row| row.last_ms.saturating_add(MAX_AGE_MS) > now_ms);
        let row = self.rows.get(&announcement.worker.name);
        if check(&announcement).is_err()
            || row.is_none() && self.rows.len() >= MAX_ROWS
            || row.is_some_and(|row| row.is_held_by_another(&announcement.instance, now_ms))
        {
            return;
        }
        let Announcement {
            worker,
            instance,
            is_last,
        } = announcement;
        let row = Row {
            count: row.map_or(0, |row| row.count) + 1,
            last_ms: now_ms,
            holder: (!is_last).then_some(instance),
            worker: worker.clone(),
        };
        self.rows.insert(worker.name, row);
    }
}

impl Row {
    /// Returns who has the name, if it is not this instance, with the number of its announcements.
    pub(super) fn other_holder(self, instance: &WorkerInstance) -> Option<(WorkerInstance, u64)> {
        let other = self.holder.filter(|holder| !holder.is_at_home_of(instance));
        other.map(|holder| (holder, self.count))
    }

    fn is_held_by_another(&self, instance: &WorkerInstance, now_ms: u64) -> bool {
        let timeout_ms = u64::try_from(ANNOUNCE_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        let is_present = self.last_ms.saturating_add(timeout_ms) > now_ms;
        let holder = self.holder.as_ref();
        is_present && holder.is_some_and(|holder| !holder.is_at_home_of(instance))
    }
}

#[cfg(test)]
mod tests {
    use vik_core::worker::WorkerLabel;

    use super::*;
    use crate::workers::tests::{announced, worker};

    fn name(name: &str) -> WorkerName {
        name.parse().unwrap()
    }

    #[test]
    fn table_has_the_last_announcement_of_each_worker() {
        let mut table = Table::default();
        table.announce(announced(worker("a")), 1);
        table.announce(announced(worker("b")), 2);
        let draining = Worker {
            presence: Presence::Draining,
            ..worker("a")
        };
        table.announce(announced(draining.clone()), 3);
        let row = &table.rows[&name("a")];
        assert_eq!((row.count, row.last_ms), (2, 3));
        assert_eq!(row.worker, draining);
        assert_eq!(table.rows.len(), 2);
    }

    #[test]
    fn table_forgets_a_worker_after_a_day() {
        let mut table = Table::default();
        table.announce(announced(worker("a")), 1_000);
        table.announce(announced(worker("b")), MAX_AGE_MS + 999);
        assert!(table.rows.contains_key(&name("a")));
        table.announce(announced(worker("b")), MAX_AGE_MS + 1_000);
        assert!(!table.rows.contains_key(&name("a")));
    }

    #[test]
    fn table_stays_small_and_has_no_worker_that_reports_its_loss() {
        let mut table = Table::default();
        let labels = (0..=MAX_LABELS).map(|label| label.to_string().parse::<WorkerLabel>().unwrap());
        let mut invalid = [worker("a"), worker("a"), worker("a"), worker("a")];
        invalid[0].labels = labels.collect();
        invalid[1].revision.version = "x".repeat(MAX_TEXT_BYTES + 1);
        invalid[2].revision.workflow_digest = "x".repeat(MAX_TEXT_BYTES + 1);
        invalid[3].presence = Presence::Lost;
        for worker in invalid {
            table.announce(announced(worker), 1);
        }
        assert_eq!(table, Table::default());
        for number in 0..1_100 {
            table.announce(announced(worker(&number.to_string())), 1);
        }
        assert_eq!(table.rows.len(), 1_000);
        table.announce(announced(worker("7")), 2);
        assert_eq!(table.rows[&name("7")].count, 2);
    }

    #[test]
    fn table_keeps_a_name_for_its_worker_until_it_ends_or_is_lost() {
        let at = |folder: &str| Announcement {
            instance: WorkerInstance {
                folder: folder.to_owned(),
                ..announced(worker("a")).instance
            },
            ..announced(worker("a"))
        };
        let holder = |table: &Table| table.rows[&name("a")].holder.clone();
        let timeout_ms = u64::try_from(ANNOUNCE_TIMEOUT.as_millis()).unwrap();
        let mut table = Table::default();
        table.announce(at("first"), 0);
        table.announce(at("second"), timeout_ms - 1);
        assert_eq!(table.rows[&name("a")].count, 1);
        let first = at("first").instance;
        let row = &table.rows[&name("a")];
        let other = row.clone().other_holder(&at("second").instance);
        assert_eq!(other, Some((first.clone(), 1)));
        assert_eq!(row.clone().other_holder(&first), None);
        // In the same folder, after a crash.
        let restarted = WorkerInstance { pid: 2, ..first };
        let again = Announcement {
            instance: restarted.clone(),
            ..at("first")
        };
        table.announce(again, timeout_ms - 1);
        assert_eq!(holder(&table), Some(restarted));
        table.announce(at("second"), 2 * timeout_ms - 1);
        assert_eq!(holder(&table), Some(at("second").instance));
        let last = Announcement {
            is_last: true,
            ..at("second")
        };
        table.announce(last, 2 * timeout_ms);
        assert_eq!(holder(&table), None);
        table.announce(at("first"), 2 * timeout_ms);
        assert_eq!(holder(&table), Some(at("first").instance));
    }

    #[test]
    fn table_can_be_read_again() {
        let mut table = Table::default();
        table.announce(announced(worker("a")), 1);
        let json = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<Table>(&json).unwrap(), table);
    }
}
