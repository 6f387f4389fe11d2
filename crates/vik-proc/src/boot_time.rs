//! The clock of leases.

use std::time::Duration;

#[cfg(target_os = "macos")]
use nix::libc;
use nix::time::ClockId;
use serde::{Deserialize, Serialize};

/// Counts while the machine sleeps, and cannot be set.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
/// Counts while the machine sleeps, and cannot be set.
#[cfg(target_os = "macos")]
const CLOCK: ClockId = ClockId::from_raw(libc::CLOCK_MONOTONIC_RAW);

/// An instant of a clock that also counts while the machine sleeps: `CLOCK_BOOTTIME` on Linux,
/// `CLOCK_MONOTONIC_RAW` on macOS. It is serialised as nanoseconds.
///
/// Instants can be compared only if they are of the same machine and the same boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootTime(u64);

impl BootTime {
    /// Returns the current time. If the clock cannot be read, returns the last possible instant, so
    /// that every lease counts as ended.
    pub fn now() -> Self {
        let now = CLOCK.now().map_or(Duration::MAX, Duration::from);
        Self(nanos(now))
    }

    /// Returns the instant that is later by `duration`, or the last possible one.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// Returns the time from `earlier` to this instant, or zero if that is later.
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the time until this instant, or zero if it has passed.
    pub fn remaining(self) -> Duration {
        self.saturating_duration_since(Self::now())
    }

    /// Returns whether this instant is now or in the past.
    pub fn has_passed(self) -> bool {
        self <= Self::now()
    }

    /// Creates an instant from the nanoseconds that [`as_nanos`](Self::as_nanos) returned.
    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) fn as_nanos(self) -> u64 {
        self.0
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_time_advances_and_is_serialised_as_nanoseconds() {
        let before = BootTime::now();
        let after = BootTime::now();
        assert!(BootTime::from_nanos(0) < before && before <= after && after.as_nanos() < u64::MAX);
        let second = BootTime::from_nanos(7).saturating_add(Duration::from_secs(1));
        assert_eq!(serde_json::to_string(&second).unwrap(), "1000000007");
        assert_eq!(serde_json::from_str::<BootTime>("1000000007").unwrap(), second);
    }

    #[test]
    fn boot_time_has_a_remaining_time_until_it_has_passed() {
        let now = BootTime::now();
        let in_a_minute = now.saturating_add(Duration::from_secs(60));
        assert!(now.has_passed() && !in_a_minute.has_passed());
        assert_eq!(now.remaining(), Duration::ZERO);
        assert!(in_a_minute.remaining() > Duration::from_secs(30));
    }

    #[test]
    fn boot_time_arithmetic_saturates() {
        let (first, last) = (BootTime::from_nanos(0), BootTime::from_nanos(u64::MAX));
        assert_eq!(first.saturating_add(Duration::MAX), last);
        assert_eq!(last.saturating_add(Duration::from_nanos(1)), last);
        assert_eq!(first.saturating_duration_since(last), Duration::ZERO);
        assert_eq!(
            last.saturating_duration_since(first),
            Duration::from_nanos(u64::MAX)
        );
    }
}
