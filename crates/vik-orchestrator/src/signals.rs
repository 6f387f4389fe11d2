//! Signals: the first INT or TERM stops gracefully, a second one immediately; HUP requests a pull.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalRequest {
    Stop {
        /// Whether it came from a terminal (SIGINT).
        interrupt: bool,
    },
    /// Check the workflow and pull the issues.
    Refresh,
}

/// The signals that a daemon handles.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Starts listening. From then on, none of them ends the process.
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

    /// Waits for a signal that ends the process, and returns whether it came from a terminal.
    pub async fn stopped(&mut self) -> bool {
        loop {
            if let SignalRequest::Stop { interrupt } = self.next().await {
                return interrupt;
            }
        }
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.interrupt.recv() => SignalRequest::Stop { interrupt: true },
            _ = self.terminate.recv() => SignalRequest::Stop { interrupt: false },
            _ = self.hangup.recv() => SignalRequest::Refresh,
        }
    }
}
