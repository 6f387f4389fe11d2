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
use vik_session::host::Host;

/// Why a try failed. The error contains neither an address nor a secret.
#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    #[error("cannot prepare the notification")]
    Prepare(#[source] std::io::Error),
    #[error("cannot write the notification")]
    Encode(#[source] serde_json::Error),
    #[error("cannot start the command")]
    Start(#[source] vik_proc::ProcError),
    #[error("the command {how}{}", output_suffix(stderr))]
    Command {
        /// Such as `exited with 1`.
        how: String,
        /// The end of its stderr.
        stderr: String,
    },
    #[error("it did not end within {0}")]
    TimedOut(Span),
    #[error("the variable {0} is not set")]
    Unset(String),
    #[error("the variable {0} does not contain an address that starts with `https://` or `http://`")]
    Address(String),
    #[error("cannot create an HTTP client: {0}")]
    Client(String),
    #[error("{host}: {why}")]
    Send { host: String, why: String },
    /// The response was not a success.
    #[error("{host} answered {status}{}", output_suffix(body))]
    Answer {
        host: String,
        status: String,
        /// The start of the response body.
        body: String,
    },
    #[error("bug in Vik: {0}")]
    Bug(String),
    #[error("stopped")]
    Stopped,
}

fn output_suffix(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("; output: {}", vik_base::report::one_line(text, 300))
    }
}

/// The parts of one try.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The host, with the daemon's environment.
    pub host: Arc<Host>,
    pub notifier: Notifier,
    pub notification: Notification,
    /// A folder for temporary files.
    pub folder: PathBuf,
}

/// Tries once, within the notifier's timeout.
///
/// # Errors
/// When the notification is not known to have arrived.
pub async fn deliver(delivery: &Delivery, cancel: impl Future<Output = ()>) -> Result<(), DeliverError> {
    let body = serde_json::to_string(&delivery.notification).map_err(DeliverError::Encode)?;
    // The notification leaves the machine, so its secrets are masked.
    let body = vik_mask::mask_json(&body).into_owned().into_bytes();
    match &delivery.notifier.channel {
        NotifyChannel::Command(script) => command::run(delivery, script, &body, cancel).await,
        NotifyChannel::Webhook { address, secret_env } => {
            let timeout = delivery.notifier.timeout;
            tokio::select! {
                result = webhook::post(delivery, address, secret_env.as_deref(), body) => result,
                // The client applies the timeout to each of its steps; this one applies to all of
                // them together.
                () = tokio::time::sleep(timeout.0) => Err(DeliverError::TimedOut(timeout)),
                () = cancel => Err(DeliverError::Stopped),
            }
        }
    }
}

/// Returns the wait before the next try, or `None` if the notification is given up.
pub(super) fn wait_after(tries: u32) -> Option<Duration> {
    /// About four minutes in total, plus the duration of the tries.
    const WAITS: [u64; 8] = [1, 2, 4, 8, 15, 30, 60, 120];
    let index = usize::try_from(tries.saturating_sub(1)).ok()?;
    WAITS.get(index).map(|seconds| Duration::from_secs(*seconds))
}
