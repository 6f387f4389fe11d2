//! The notifications that are not delivered yet, on disk, so that a crash of the daemon loses none.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use vik_api::Notification;
use vik_workspace::fs as private;
use vik_workspace::fs::write_atomic;

use super::debounce::Debounce;

/// The maximum number of notifications that wait for one notifier; beyond it, the oldest are
/// dropped.
pub(super) const MOST_WAITING: usize = 100;

/// The whole outbox. Each change rewrites the file: it is small, and changes are rare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outbox {
    schema: u32,
    /// The time until which parked runs were added.
    pub(super) parked_until: Timestamp,
    /// The last day whose limit was added.
    #[serde(default)]
    pub(super) day: Option<Date>,
    /// The queues by notifier. They contain no address and no secret.
    pub(super) boxes: BTreeMap<String, NotifierQueue>,
}

/// What one notifier has yet to receive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct NotifierQueue {
    /// The facts that wait to be sent together.
    pub(super) gathering: Debounce,
    /// The notifications to deliver, in order.
    pub(super) ready: VecDeque<QueuedNotification>,
    /// The last day that was summarized; before the first summary, the day before it.
    #[serde(default)]
    pub(super) summed_up: Option<Date>,
}

/// A notification that is not delivered yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct QueuedNotification {
    pub(super) notification: Notification,
    /// The number of tries.
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

    /// Loads the outbox of an earlier daemon, or creates one. A file that cannot be read is renamed
    /// and kept.
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
        tracing::error!(error, kept = %aside.display(), "cannot read the outbox of the notifiers: its notifications are lost");
        let _ = std::fs::rename(path, aside);
        Self::new(now)
    }

    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        write_atomic(path, vik_mask::mask_json(&text).as_bytes())
    }
}

pub(super) fn file(service: &Path) -> PathBuf {
    service.join("notify.json")
}

impl NotifierQueue {
    /// Adds a notification. Returns the number of items that were dropped for it.
    pub(super) fn push(&mut self, notification: Notification) -> u64 {
        self.ready.push_back(QueuedNotification {
            notification,
            tries: 0,
        });
        let mut lost = 0;
        while self.ready.len() > MOST_WAITING {
            // The first notification may be in delivery.
            lost += self.ready.remove(1).map_or(0, |queued| queued.item_count());
        }
        lost
    }
}

impl QueuedNotification {
    /// Returns the number of items in the notification.
    pub(super) fn item_count(&self) -> u64 {
        let notification = &self.notification;
        let items = u64::try_from(notification.items.len()).unwrap_or(u64::MAX);
        (items + notification.more + notification.lost).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::message;
    use super::*;

    #[test]
    fn outbox_reloads_and_sets_an_unreadable_file_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path());
        let now: Timestamp = "2026-03-04T12:00:00Z".parse().unwrap();
        let mut outbox = Outbox::load(&path, now);
        assert_eq!(outbox, Outbox::new(now));
        let queue = outbox.boxes.entry("team".to_owned()).or_default();
        queue.push(message::test("team", Path::new("/w/workflow.yml"), now));
        outbox.save(&path).unwrap();
        assert_eq!(Outbox::load(&path, now), outbox);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(Outbox::load(&path, now), Outbox::new(now));
        assert!(folder.path().join("notify.unreadable.json").exists());
    }

    #[test]
    fn full_queue_keeps_the_notification_in_delivery() {
        let now = Timestamp::UNIX_EPOCH;
        let mut queue = NotifierQueue::default();
        let first = message::test("a", Path::new("/w"), now);
        queue.push(first.clone());
        let lost: u64 = (0..MOST_WAITING + 4)
            .map(|_| queue.push(message::test("a", Path::new("/w"), now)))
            .sum();
        assert_eq!((queue.ready.len(), lost), (MOST_WAITING, 5));
        assert_eq!(queue.ready[0].notification, first);
    }
}
