//! One try to deliver a notification.

mod command;
mod webhook;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use vik_api::Notification;
use vik_core::duration::Span;
use vik_core::workflow::{Notifier, NotifyChannel};

use crate::host::Host;

/// Why a try failed. Neither an address nor a secret stands in it.
#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    /// A file for it could not be written.
    #[error("cannot prepare the notification")]
    Prepare(#[source] std::io::Error),
    /// It is no JSON.
    #[error("cannot write the notification")]
    Encode(#[source] serde_json::Error),
    /// The command could not be started.
    #[error("the command could not be started")]
    Start(#[source] vik_proc::ProcError),
    /// The command failed.
    #[error("the command {how}{}", output_suffix(stderr))]
    Command {
        /// `exited with 1`, …
        how: String,
        /// The end of what it printed to stderr.
        stderr: String,
    },
    /// It took too long.
    #[error("it did not end within {0}")]
    TimedOut(Span),
    /// A variable is not set.
    #[error("the variable {0} is not set")]
    Unset(String),
    /// The address is none.
    #[error("{0} holds no address that begins with `https://` or `http://`")]
    Address(String),
    /// The client could not be made.
    #[error("cannot set up a client: {0}")]
    Client(String),
    /// No answer came.
    #[error("{host}: {why}")]
    Send {
        /// Where.
        host: String,
        /// In words.
        why: String,
    },
    /// The answer was no success.
    #[error("{host} answered {status}{}", output_suffix(body))]
    Answer {
        /// Where.
        host: String,
        /// The status.
        status: String,
        /// The beginning of what it said.
        body: String,
    },
    /// Vik is at fault.
    #[error("a bug in Vik: {0}")]
    Bug(String),
    /// Vik is ending.
    #[error("it was stopped")]
    Stopped,
}

fn output_suffix(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("; it said: {}", crate::report::one_line(text, 300))
    }
}

/// What one try needs.
#[derive(Clone, Debug)]
pub struct Delivering {
    /// Where it runs, and the daemon's environment.
    pub host: Arc<Host>,
    /// The notifier.
    pub notifier: Notifier,
    /// What it is told.
    pub notification: Notification,
    /// A folder for files that go at the end.
    pub folder: PathBuf,
}

/// Tries once, within the notifier's time.
///
/// # Errors
/// When it cannot be told to have arrived.
pub async fn deliver(what: &Delivering, cancel: impl Future<Output = ()>) -> Result<(), DeliverError> {
    let body = serde_json::to_string(&what.notification).map_err(DeliverError::Encode)?;
    // It leaves the machine.
    let body = vik_mask::mask_json(&body).into_owned().into_bytes();
    match &what.notifier.channel {
        NotifyChannel::Command(script) => command::run(what, script, &body, cancel).await,
        NotifyChannel::Webhook { address, secret_env } => {
            let timeout = what.notifier.timeout;
            tokio::select! {
                result = webhook::post(what, address, secret_env.as_deref(), body) => result,
                // The client has the same time for each of its steps; this is for all of them together.
                () = tokio::time::sleep(timeout.0) => Err(DeliverError::TimedOut(timeout)),
                () = cancel => Err(DeliverError::Stopped),
            }
        }
    }
}

/// The wait before the next try, after so many; `None`: it is given up.
pub(super) fn wait_after(tries: u32) -> Option<Duration> {
    /// Some four minutes in all, and what the tries themselves take.
    const WAITS: [u64; 8] = [1, 2, 4, 8, 15, 30, 60, 120];
    let index = usize::try_from(tries.saturating_sub(1)).ok()?;
    WAITS.get(index).map(|seconds| Duration::from_secs(*seconds))
}
