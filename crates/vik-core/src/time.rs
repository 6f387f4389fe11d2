//! Time as an argument: the core has no clock of its own.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// One reading of both clocks.
///
/// Waits use the monotonic clock, so that a jump of the wall clock neither skips nor prolongs them.
/// The wall clock is only displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    pub wall: Timestamp,
    /// The monotonic clock, since an arbitrary start.
    pub mono: Mono,
}

impl Now {
    /// Returns the monotonic time of a wall clock time, assuming that both clocks run evenly.
    #[must_use]
    pub fn mono_at(self, then: Timestamp) -> Mono {
        let wait = SignedDuration::try_from(then - self.wall).ok();
        let wait = wait.and_then(|wait| Duration::try_from(wait).ok());
        self.mono.plus(wait.unwrap_or_default())
    }

    /// Returns the wall clock time of a monotonic time that has not passed, assuming that both
    /// clocks run evenly.
    #[must_use]
    pub fn wall_at(self, then: Mono) -> Timestamp {
        let wait = SignedDuration::try_from(self.mono.until(then)).unwrap_or(SignedDuration::MAX);
        self.wall.checked_add(wait).unwrap_or(Timestamp::MAX)
    }
}

/// A reading of the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mono(pub Duration);

impl Mono {
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// Returns the time until then; zero if it has passed.
    #[must_use]
    pub fn until(self, then: Self) -> Duration {
        then.0.saturating_sub(self.0)
    }
}
