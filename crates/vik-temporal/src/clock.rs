//! A clock for leases: it also runs while the machine sleeps, and nobody can set it.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
// There, the monotonic clock includes the time asleep.
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

/// A point in time on this machine since it was booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(Duration);

impl BootTime {
    /// Returns the present. If the clock cannot be read, which no supported system does, the time is
    /// the end of all leases.
    pub fn now() -> Self {
        clock_gettime(CLOCK).map_or(Self(Duration::MAX), |now| Self(now.into()))
    }

    /// Returns the time since the boot.
    pub fn since_boot(self) -> Duration {
        self.0
    }

    /// Returns the time until `self`, or zero if it has passed.
    pub fn remaining(self) -> Duration {
        self.0.saturating_sub(Self::now().0)
    }

    pub fn has_passed(self) -> bool {
        self <= Self::now()
    }
}

impl std::ops::Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_time_counts_up_and_has_a_remaining_time() {
        let now = BootTime::now();
        assert!(now.has_passed());
        let later = now + Duration::from_secs(60);
        assert!(!later.has_passed());
        assert!(later.remaining() > Duration::from_secs(50));
        assert_eq!(now.remaining(), Duration::ZERO);
    }
}
