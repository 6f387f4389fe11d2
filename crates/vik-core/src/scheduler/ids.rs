//! Ids that a replay makes again.

use crate::ids::{AttemptId, RunId};
use crate::time::Now;

/// Makes ids from the time, a seed and a counter, so that a replay makes the same ones.
#[derive(Clone, Debug)]
pub(super) struct IdSource {
    seed: [u8; 6],
    next: u32,
}

impl IdSource {
    pub(super) fn new(seed: [u8; 6]) -> Self {
        Self { seed, next: 0 }
    }

    /// For an attempt, and its run should it be a new one.
    pub(super) fn pair(&mut self, now: Now) -> (RunId, AttemptId) {
        (RunId(self.uuid(now)), AttemptId(self.uuid(now)))
    }

    pub(super) fn run(&mut self, now: Now) -> RunId {
        RunId(self.uuid(now))
    }

    fn uuid(&mut self, now: Now) -> uuid::Uuid {
        // The version and the variant take bits of the bytes 0 and 2: the counter stays clear of them.
        let mut tail = [0; 10];
        tail[..3].copy_from_slice(&self.seed[..3]);
        tail[3..7].copy_from_slice(&self.next.to_be_bytes());
        tail[7..].copy_from_slice(&self.seed[3..]);
        self.next = self.next.wrapping_add(1);
        let millis = u64::try_from(now.wall.as_millisecond()).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
    }
}
