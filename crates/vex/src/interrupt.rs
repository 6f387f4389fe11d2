//! INT, TERM and HUP: one flag for everything that waits.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How long a run may take to end in order before it is killed (the promise is 2 s).
const GRACE: Duration = Duration::from_millis(1500);

/// Whether the run was interrupted, and the callbacks to notify.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    set: bool,
    timed_out: bool,
    listeners: Vec<(u64, Box<dyn FnOnce() + Send>)>,
    next: u64,
}

/// Unregisters its callback when dropped.
#[must_use = "no signal is received after it is dropped"]
pub struct ListenerGuard {
    interrupt: Interrupt,
    number: u64,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        let number = self.number;
        self.interrupt
            .state()
            .listeners
            .retain(|(other, _)| *other != number);
    }
}

impl Interrupt {
    /// Creates an interrupt that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_set(&self) -> bool {
        self.state().set
    }

    /// Sets the interrupt and calls all callbacks.
    pub fn set(&self) {
        self.set_by(false);
    }

    /// Returns whether the time limit set it.
    pub fn timed_out(&self) -> bool {
        self.state().timed_out
    }

    /// Sets the interrupt after this time.
    ///
    /// # Errors
    /// When the thread that waits for it cannot be started.
    pub fn stop_after(&self, time: Duration) -> std::io::Result<()> {
        let interrupt = self.clone();
        std::thread::Builder::new()
            .name("time-limit".to_owned())
            .spawn(move || {
                std::thread::sleep(time);
                interrupt.set_by(true);
            })?;
        Ok(())
    }

    fn set_by(&self, time: bool) {
        let listeners = {
            let mut state = self.state();
            state.timed_out |= time && !state.set;
            state.set = true;
            std::mem::take(&mut state.listeners)
        };
        for (_, sender) in listeners {
            sender();
        }
    }

    /// Calls `callback` once when the interrupt is set, at once if it is set already, unless the
    /// guard was dropped before.
    pub fn listen(&self, callback: impl FnOnce() + Send + 'static) -> ListenerGuard {
        let mut state = self.state();
        state.next += 1;
        let listening = ListenerGuard {
            interrupt: self.clone(),
            number: state.next,
        };
        if state.set {
            drop(state);
            callback();
        } else {
            state.listeners.push((listening.number, Box::new(callback)));
        }
        listening
    }

    /// Sleeps. Returns `false` if interrupted.
    pub fn sleep(&self, duration: Duration) -> bool {
        let (sender, receiver) = sync_channel(1);
        let _listening = self.listen(move || notify(&sender));
        matches!(receiver.recv_timeout(duration), Err(RecvTimeoutError::Timeout))
    }

    /// Installs handlers for INT, TERM and HUP. If the run does not end soon after the first
    /// signal, or a second one arrives, all its processes are killed, `before_exit` is called and
    /// the process exits with 130.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn install(&self, before_exit: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let (sender, receiver) = sync_channel(1);
        std::thread::Builder::new()
            .name("cut-off".to_owned())
            .spawn(move || {
                // The first message starts the grace period. The second one ends it.
                if receiver.recv().is_err() {
                    return;
                }
                let _ = receiver.recv_timeout(GRACE);
                vik_proc::kill_descendants();
                before_exit();
                std::process::exit(130);
            })?;
        let interrupt = self.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for _ in signals.forever() {
                    interrupt.set();
                    notify(&sender);
                }
            })?;
        Ok(())
    }
}

fn notify(sender: &SyncSender<()>) {
    // A full channel means that the message is already queued.
    let _ = sender.try_send(());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn sleep_ends_early_when_interrupted_and_at_once_afterwards() {
        let interrupt = Interrupt::new();
        assert!(interrupt.sleep(Duration::from_millis(1)));
        let other = interrupt.clone();
        let start = Instant::now();
        let setter = std::thread::spawn(move || other.set());
        assert!(!interrupt.sleep(Duration::from_secs(60)));
        assert!(!interrupt.sleep(Duration::from_secs(60)));
        assert!(start.elapsed() < Duration::from_secs(30));
        setter.join().unwrap();
    }
}
