//! Signals: the first INT or TERM stops gracefully, a second one at once; HUP asks for a look at the issues.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// End gracefully.
    Stop {
        /// Asked for at a terminal (SIGINT).
        interrupt: bool,
    },
    /// Look again.
    Refresh,
}

/// The signals a daemon listens to.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Starts listening. From here on none of them ends the process.
    ///
    /// # Errors
    /// When the handlers cannot be set.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Stop { interrupt: true },
            _ = self.terminate.recv() => Asked::Stop { interrupt: false },
            _ = self.hangup.recv() => Asked::Refresh,
        }
    }
}
