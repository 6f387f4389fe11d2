//! The time that deciders are told. The core has no clock of its own.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One reading of both clocks.
///
/// Waits are measured on the monotonic clock, so that a jump of the wall clock neither skips nor prolongs them; the
/// wall clock is only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// The wall clock.
    pub wall: Timestamp,
    /// The monotonic clock, since an arbitrary start.
    pub mono: Mono,
}

/// A reading of the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mono(pub Duration);

impl Mono {
    /// This much later.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// How long it is until then; zero when it has passed.
    #[must_use]
    pub fn until(self, then: Self) -> Duration {
        then.0.saturating_sub(self.0)
    }
}
