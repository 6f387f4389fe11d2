//! The rows of the table, without a server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A worker that has not announced itself for this time leaves the table, in milliseconds.
const MAX_AGE_MS: u64 = 24 * 3600 * 1000;

/// More workers are not in the table.
const MAX_ROWS: usize = 1_000;

const MAX_TEXT_BYTES: usize = 256;
const MAX_LABELS: usize = 64;

/// What a worker announces of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    pub name: String,
    pub labels: Vec<String>,
    /// How many attempts it runs at the same time.
    pub capacity: u32,
    /// The version of its program.
    pub version: String,
    /// The digest of its workflow file.
    pub digest: String,
    /// It finishes its attempts and takes no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_draining: bool,
}

/// An announcement is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a worker needs a name, and at most {MAX_LABELS} labels; each text has at most \
     {MAX_TEXT_BYTES} bytes"
)]
pub struct InvalidAnnouncement;

impl Announcement {
    /// Checks the sizes, so that the table stays small.
    ///
    /// # Errors
    ///
    /// Returns an error if a text is too long, there are too many labels, or there is no name.
    pub fn check(&self) -> Result<(), InvalidAnnouncement> {
        let mut texts = self
            .labels
            .iter()
            .chain([&self.name, &self.version, &self.digest]);
        let is_valid = !self.name.is_empty()
            && self.labels.len() <= MAX_LABELS
            && texts.all(|text| text.len() <= MAX_TEXT_BYTES);
        if is_valid {
            Ok(())
        } else {
            Err(InvalidAnnouncement)
        }
    }
}

/// A worker in the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub announcement: Announcement,
    /// How often it has announced itself.
    pub count: u64,
    /// When it did so last, in milliseconds since 1970 on the clock of the server.
    pub last_ms: u64,
}

/// All workers of a queue, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    pub rows: BTreeMap<String, Row>,
}

impl Table {
    /// Adds or replaces a worker, and removes those that have not announced themselves for a day.
    /// An invalid announcement changes nothing, as does a new worker if there are 1,000.
    pub fn announce(&mut self, announcement: Announcement, now_ms: u64) {
        self.rows
            .retain(|_, row| row.last_ms.saturating_add(MAX_AGE_MS) > now_ms);
        let row = self.rows.get(&announcement.name);
        if announcement.check().is_err() || (row.is_none() && self.rows.len() >= MAX_ROWS) {
            return;
        }
        let row = Row {
            count: row.map_or(0, |row| row.count) + 1,
            last_ms: now_ms,
            announcement: announcement.clone(),
        };
        self.rows.insert(announcement.name, row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Announcement {
        Announcement {
            name: name.to_owned(),
            capacity: 4,
            ..Announcement::default()
        }
    }

    #[test]
    fn table_has_the_last_announcement_of_each_worker() {
        let mut table = Table::default();
        table.announce(named("a"), 1);
        table.announce(named("b"), 2);
        let drained = Announcement {
            is_draining: true,
            ..named("a")
        };
        table.announce(drained.clone(), 3);
        let row = &table.rows["a"];
        assert_eq!((row.count, row.last_ms), (2, 3));
        assert_eq!(row.announcement, drained);
        assert_eq!(table.rows.len(), 2);
    }

    #[test]
    fn table_forgets_a_worker_after_a_day() {
        let mut table = Table::default();
        table.announce(named("a"), 1_000);
        table.announce(named("b"), MAX_AGE_MS + 999);
        assert!(table.rows.contains_key("a"));
        table.announce(named("b"), MAX_AGE_MS + 1_000);
        assert!(!table.rows.contains_key("a"));
    }

    #[test]
    fn table_stays_small() {
        let mut table = Table::default();
        table.announce(named(""), 1);
        table.announce(named(&"x".repeat(257)), 1);
        let labels = Announcement {
            labels: vec!["l".to_owned(); 65],
            ..named("a")
        };
        table.announce(labels, 1);
        assert_eq!(table, Table::default());
        for number in 0..1_100 {
            table.announce(named(&number.to_string()), 1);
        }
        assert_eq!(table.rows.len(), 1_000);
        table.announce(named("7"), 2);
        assert_eq!(table.rows["7"].count, 2);
    }
}
