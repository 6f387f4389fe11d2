//! Clocks: a hidden true clock, a wall clock that people set, and a monotonic one that starts with
//! each daemon.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use vik_core::time::{Mono, Now};

/// The clocks of one machine.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The milliseconds since the start of the world.
    ms: u64,
    wall_offset_ms: i64,
    daemon_started_ms: u64,
}

/// The wall clock at the start of a world, shortly before midnight.
const START_MS: i64 = 1_767_300_000_000;

/// The maximum error of the wall clock, which keeps it in years that every format supports.
const FARTHEST_MS: i64 = 40 * 86_400_000;

impl Default for Clock {
    fn default() -> Self {
        Self {
            // A clock that starts at zero would hide missing initialization.
            ms: 5_000,
            wall_offset_ms: 0,
            daemon_started_ms: 0,
        }
    }
}

impl Clock {
    /// Returns the reading of both clocks for a daemon.
    pub fn now(&self) -> Now {
        let wall_ms = START_MS + self.ms as i64 + self.wall_offset_ms;
        Now {
            wall: Timestamp::from_millisecond(wall_ms).unwrap_or_default(),
            mono: Mono(Duration::from_millis(self.ms - self.daemon_started_ms)),
        }
    }

    pub fn pass(&mut self, ms: u64) {
        self.ms += ms;
    }

    /// Sets the wall clock.
    pub fn jump(&mut self, ms: i64) {
        self.wall_offset_ms = (self.wall_offset_ms + ms).clamp(-FARTHEST_MS, FARTHEST_MS);
    }

    /// Starts the monotonic clock of a new daemon.
    pub fn daemon_starts(&mut self, uptime_ms: u64) {
        self.daemon_started_ms = self.ms.saturating_sub(uptime_ms);
    }
}

pub fn later(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(at)
}
