//! Ids that are reproducible in a replay.

use crate::ids::{AttemptId, MessageId, RunId};
use crate::time::Now;

/// Generates ids from the time, a seed and a counter, so that a replay generates the same ids.
#[derive(Clone, Debug)]
pub(super) struct IdSource {
    seed: [u8; 6],
    next: u32,
}

impl IdSource {
    pub(super) fn new(seed: [u8; 6]) -> Self {
        Self { seed, next: 0 }
    }

    pub(super) fn attempt(&mut self, now: Now) -> AttemptId {
        AttemptId(self.uuid(now))
    }

    pub(super) fn run(&mut self, now: Now) -> RunId {
        RunId(self.uuid(now))
    }

    pub(super) fn message(&mut self, now: Now) -> MessageId {
        MessageId(self.uuid(now))
    }

    fn uuid(&mut self, now: Now) -> uuid::Uuid {
        // The version and variant bits overwrite parts of bytes 0 and 2, so the counter avoids
        // them.
        let mut tail = [0; 10];
        tail[..3].copy_from_slice(&self.seed[..3]);
        tail[3..7].copy_from_slice(&self.next.to_be_bytes());
        tail[7..].copy_from_slice(&self.seed[3..]);
        self.next = self.next.wrapping_add(1);
        let millis = u64::try_from(now.wall.as_millisecond()).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
    }
}
