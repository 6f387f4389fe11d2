//! The lease of a worker on an attempt. When it ends, another worker may start the attempt, so the
//! shim kills its tree.
//!
//! The shim may have been stopped, or the machine may have slept, while a lease ended. So the clock
//! is read before anything else whenever the shim wakes up, and once more before a renewal is
//! applied. A renewal counts only if the shim reads it before the end of the lease that it renews:
//! one that was sent in time but is read too late changes nothing.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::Shim;
use crate::boot_time::BootTime;
use crate::spec::Cause;
use crate::sys::BootTimer;

/// The longest time from a renewal to the end of the lease. Without this limit, one instant of
/// another clock would disable the lease.
const MAX_LEASE: Duration = Duration::from_secs(60 * 60);

/// The time between two reads of the clock on a system without [`BootTimer`].
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(super) struct LeaseTimer {
    end: BootTime,
    /// `None` if the system has no such timer.
    timer: Option<BootTimer>,
}

impl LeaseTimer {
    pub(super) fn new(end: BootTime) -> Self {
        let mut lease = Self {
            end,
            timer: BootTimer::new().ok(),
        };
        lease.renew(end);
        lease
    }

    /// Replaces the end, with at most [`MAX_LEASE`] from now.
    fn renew(&mut self, end: BootTime) {
        self.end = end.min(BootTime::now().saturating_add(MAX_LEASE));
        self.timer.take_if(|timer| timer.set(self.end).is_err());
    }

    fn has_ended(&self) -> bool {
        self.end.has_passed()
    }

    /// Returns a descriptor that is readable from the end on.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.timer.as_ref().map(AsFd::as_fd)
    }

    /// Returns when to read the clock again, if there is no descriptor. The clock of [`Instant`] does
    /// not count while the machine sleeps.
    pub(super) fn poll_at(&self) -> Option<Instant> {
        self.timer.is_none().then(|| Instant::now() + POLL_INTERVAL)
    }
}

impl Shim {
    /// Kills the tree if its lease has ended. Returns whether it has ended since the last call: an
    /// ended lease is removed, so it cannot be renewed.
    pub(super) fn end_lease(&mut self) -> bool {
        if self.lease.take_if(|lease| lease.has_ended()).is_none() {
            return false;
        }
        self.feed = None;
        #[cfg(target_os = "linux")]
        self.end_servers();
        self.kill(Cause::LeaseLost);
        true
    }

    /// Renews the lease, if there is one that has not ended. An end in the past ends it, before the
    /// next command is read.
    pub(super) fn renew_lease(&mut self, end: BootTime) {
        self.end_lease();
        if let Some(lease) = &mut self.lease {
            lease.renew(end);
            self.end_lease();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_ends_at_its_last_renewal_and_within_an_hour() {
        let mut lease = LeaseTimer::new(BootTime::from_nanos(u64::MAX));
        assert!(!lease.has_ended());
        assert!(lease.end <= BootTime::now().saturating_add(MAX_LEASE));
        let minute = BootTime::now().saturating_add(Duration::from_secs(60));
        lease.renew(minute);
        assert_eq!(lease.end, minute);
        lease.renew(BootTime::now());
        assert!(lease.has_ended());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn lease_is_readable_at_its_end() {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

        let in_a_minute = BootTime::now().saturating_add(Duration::from_secs(60));
        let mut lease = LeaseTimer::new(in_a_minute);
        let wait = |lease: &LeaseTimer, timeout| {
            let mut fds = [PollFd::new(lease.fd().unwrap(), PollFlags::POLLIN)];
            poll(&mut fds, timeout).unwrap()
        };
        assert_eq!((wait(&lease, PollTimeout::ZERO), lease.poll_at()), (0, None));
        lease.renew(BootTime::now().saturating_add(Duration::from_millis(10)));
        let half_a_minute = PollTimeout::try_from(30_000_u32).unwrap();
        assert_eq!(wait(&lease, half_a_minute), 1);
        assert!(lease.has_ended());
    }
}
