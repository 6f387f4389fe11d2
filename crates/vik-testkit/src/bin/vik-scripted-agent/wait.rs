//! Waiting, with signals that the script traps.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};

/// Parses a signal name with or without `SIG`, or a number.
pub(crate) fn parse_signal(name: &str) -> Result<Signal, String> {
    if let Ok(number) = name.parse::<i32>() {
        return Signal::try_from(number).map_err(|_| format!("no signal {number}"));
    }
    let upper = name.to_ascii_uppercase();
    let full = if upper.starts_with("SIG") {
        upper
    } else {
        format!("SIG{upper}")
    };
    full.parse().map_err(|_| format!("no signal {name}"))
}

/// Blocks signals. A blocked signal has no effect, like an ignored one, but children do not inherit
/// it.
pub(crate) fn block_signals(signals: &[Signal]) -> Result<(), String> {
    let mut set = SigSet::empty();
    for &signal in signals {
        set.add(signal);
    }
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), None).map_err(|e| format!("sigprocmask: {e}"))
}

pub(crate) fn unblock_signal(signal: Signal) {
    let mut set = SigSet::empty();
    set.add(signal);
    let _ = sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&set), None);
}

/// Why a wait ended.
pub(crate) enum WakeReason {
    Deadline,
    /// A trapped signal arrived.
    Signal(Signal),
}

/// Sleeps until the deadline (or for ever), or until a trapped signal arrives.
#[cfg(target_os = "linux")]
pub(crate) fn until(deadline: Option<Instant>, trapped: &[Signal]) -> Result<WakeReason, String> {
    use std::os::fd::AsFd;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::signalfd::SignalFd;

    if trapped.is_empty() {
        return plain(deadline);
    }
    let mut set = SigSet::empty();
    for &signal in trapped {
        set.add(signal);
    }
    let fd = SignalFd::new(&set).map_err(|e| format!("signalfd: {e}"))?;
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = match left {
            None => PollTimeout::NONE,
            // Rounded up, so that the last iteration does not spin.
            Some(left) => PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX),
        };
        match poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) if deadline.is_some_and(|at| Instant::now() >= at) => return Ok(WakeReason::Deadline),
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => {
                if let Ok(Some(info)) = fd.read_signal()
                    && let Ok(signal) = Signal::try_from(info.ssi_signo.cast_signed())
                {
                    return Ok(WakeReason::Signal(signal));
                }
            }
            Err(e) => return Err(format!("poll: {e}")),
        }
    }
}

/// Sleeps until the deadline (or for ever). On this platform `trap` gets a signal only after the
/// wait.
#[cfg(not(target_os = "linux"))]
pub(crate) fn until(deadline: Option<Instant>, _trapped: &[Signal]) -> Result<WakeReason, String> {
    plain(deadline)
}

fn plain(deadline: Option<Instant>) -> Result<WakeReason, String> {
    loop {
        match deadline {
            None => std::thread::sleep(Duration::from_secs(3600)),
            Some(at) => {
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                return Ok(WakeReason::Deadline);
            }
        }
    }
}

/// Waits a moment if the file is missing; returns `None` if it exists.
pub(crate) fn file_or_tick(path: &Path, trapped: &[Signal]) -> Result<Option<WakeReason>, String> {
    if path.exists() {
        return Ok(None);
    }
    until(Some(Instant::now() + Duration::from_millis(5)), trapped).map(Some)
}
