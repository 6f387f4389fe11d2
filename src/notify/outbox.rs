//! What is yet to be told, on disk: whatever becomes of the daemon, none of it is lost.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use vik_api::Notification;

use super::debounce::Debounce;
use crate::workspace::fs as private;
use crate::workspace::fs::write_atomic;

/// So many notifications wait for one notifier; then the oldest are given up.
pub(super) const MOST_WAITING: usize = 100;

/// All of it. Written whole at each change: it is small, and changes are few.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outbox {
    schema: u32,
    /// What was parked until then is taken in.
    pub(super) parked_until: Timestamp,
    /// The last day whose limit was taken in.
    #[serde(default)]
    pub(super) day: Option<Date>,
    /// By the names of the notifiers. No address and no secret is here.
    pub(super) boxes: BTreeMap<String, NotifierQueue>,
}

/// What one notifier is yet to be told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct NotifierQueue {
    /// What waits to be told together.
    pub(super) gathering: Debounce,
    /// What is to be delivered, in that order.
    pub(super) ready: VecDeque<QueuedNotification>,
    /// The last day of which the summary was made; where it was not its turn yet, the day before.
    #[serde(default)]
    pub(super) summed_up: Option<Date>,
}

/// A notification that is not delivered yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct QueuedNotification {
    pub(super) notification: Notification,
    /// How often it was tried.
    pub(super) tries: u32,
}

impl Outbox {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            schema: 1,
            parked_until: now,
            day: None,
            boxes: BTreeMap::new(),
        }
    }

    /// What an earlier daemon left; a new one where there is none. One that cannot be read is set aside.
    pub(super) fn load(path: &Path, now: Timestamp) -> Self {
        let error = match private::read(path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(outbox) => return outbox,
                Err(error) => error.to_string(),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::new(now),
            Err(error) => error.to_string(),
        };
        let aside = path.with_extension("unreadable.json");
        tracing::error!(error, kept = %aside.display(), "the outbox of the notifiers cannot be read: what stood in it is not told");
        let _ = std::fs::rename(path, aside);
        Self::new(now)
    }

    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        write_atomic(path, vik_mask::mask_json(&text).as_bytes())
    }
}

/// Where it is.
pub(super) fn file(service: &Path) -> PathBuf {
    service.join("notify.json")
}

impl NotifierQueue {
    /// Puts a notification at the end. Says how much is given up for it.
    pub(super) fn post(&mut self, notification: Notification) -> u64 {
        self.ready.push_back(QueuedNotification {
            notification,
            tries: 0,
        });
        let mut lost = 0;
        while self.ready.len() > MOST_WAITING {
            // The first one may be on its way.
            lost += self.ready.remove(1).map_or(0, |letter| letter.item_count());
        }
        lost
    }
}

impl QueuedNotification {
    /// How much is told in it.
    pub(super) fn item_count(&self) -> u64 {
        let told = &self.notification;
        let items = u64::try_from(told.items.len()).unwrap_or(u64::MAX);
        (items + told.more + told.lost).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::message;
    use super::*;

    #[test]
    fn what_is_kept_is_read_back_and_what_cannot_be_read_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path());
        let now: Timestamp = "2026-03-04T12:00:00Z".parse().unwrap();
        let mut outbox = Outbox::load(&path, now);
        assert_eq!(outbox, Outbox::new(now));
        let letters = outbox.boxes.entry("team".to_owned()).or_default();
        letters.post(message::test("team", Path::new("/w/workflow.yml"), now));
        outbox.save(&path).unwrap();
        assert_eq!(Outbox::load(&path, now), outbox);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(Outbox::load(&path, now), Outbox::new(now));
        assert!(folder.path().join("notify.unreadable.json").exists());
    }

    #[test]
    fn there_is_a_bound_and_what_is_on_its_way_stays() {
        let now = Timestamp::UNIX_EPOCH;
        let mut letters = NotifierQueue::default();
        let first = message::test("a", Path::new("/w"), now);
        letters.post(first.clone());
        let lost: u64 = (0..MOST_WAITING + 4)
            .map(|_| letters.post(message::test("a", Path::new("/w"), now)))
            .sum();
        assert_eq!((letters.ready.len(), lost), (MOST_WAITING, 5));
        assert_eq!(letters.ready[0].notification, first);
    }
}
