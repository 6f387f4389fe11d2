//! Time: one true clock that nobody sees, a wall clock that people set, a monotonic one that begins with each daemon.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use vik_core::time::{Mono, Now};

/// The clocks of one machine.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Milliseconds since the world began.
    ms: u64,
    wall_offset_ms: i64,
    daemon_began_ms: u64,
}

/// The wall clock when a world begins: shortly before a day turns.
const START_MS: i64 = 1_767_300_000_000;

/// How far the wall clock may be from the truth: it stays in years that every format can tell.
const FARTHEST_MS: i64 = 40 * 86_400_000;

impl Default for Clock {
    fn default() -> Self {
        Self {
            // A clock that says zero hides what forgets to set it.
            ms: 5_000,
            wall_offset_ms: 0,
            daemon_began_ms: 0,
        }
    }
}

impl Clock {
    /// What a daemon reads now.
    pub fn now(&self) -> Now {
        let wall_ms = START_MS + self.ms as i64 + self.wall_offset_ms;
        Now {
            wall: Timestamp::from_millisecond(wall_ms).unwrap_or_default(),
            mono: Mono(Duration::from_millis(self.ms - self.daemon_began_ms)),
        }
    }

    /// Time passes.
    pub fn pass(&mut self, ms: u64) {
        self.ms += ms;
    }

    /// Somebody sets the wall clock.
    pub fn jump(&mut self, ms: i64) {
        self.wall_offset_ms = (self.wall_offset_ms + ms).clamp(-FARTHEST_MS, FARTHEST_MS);
    }

    /// A daemon begins: its monotonic clock does not go on where another's was.
    pub fn daemon_starts(&mut self, uptime_ms: u64) {
        self.daemon_began_ms = self.ms.saturating_sub(uptime_ms);
    }
}

/// This much later.
pub fn later(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(at)
}
