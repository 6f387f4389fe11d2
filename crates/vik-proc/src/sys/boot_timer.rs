//! A timer that also counts while the machine sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(target_os = "linux")]
use std::time::Duration;

#[cfg(target_os = "linux")]
use nix::sys::time::TimeSpec;
#[cfg(target_os = "linux")]
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::boot_time::BootTime;

/// A descriptor that is readable from an instant on.
#[cfg(target_os = "linux")]
pub(crate) struct BootTimer(TimerFd);

#[cfg(target_os = "linux")]
impl BootTimer {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Self(TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?))
    }

    /// Replaces the instant. The first instant of the clock would stop the timer.
    pub(crate) fn set(&self, at: BootTime) -> io::Result<()> {
        let at = TimeSpec::from_duration(Duration::from_nanos(at.as_nanos()));
        Ok(self
            .0
            .set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?)
    }
}

#[cfg(target_os = "linux")]
impl AsFd for BootTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// macOS has no such timer, so the caller polls the clock.
#[cfg(not(target_os = "linux"))]
pub(crate) enum BootTimer {}

#[cfg(not(target_os = "linux"))]
impl BootTimer {
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn set(&self, _: BootTime) -> io::Result<()> {
        match *self {}
    }
}

#[cfg(not(target_os = "linux"))]
impl AsFd for BootTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
