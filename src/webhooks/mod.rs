//! Webhooks: trackers tell that something changed, and Vik looks at once.
//!
//! They have a door of their own, which serves nothing but `POST /hooks/NAME`, and a thread of their own: no sender takes
//! time from the scheduler. A call is believed when its sender proves itself over the raw bytes; then it asks for a pull and
//! nothing else. What it says is never used.

mod listener;
mod pace;
mod recent_deliveries;
mod verifier;
mod verify;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use vik_core::workflow::Workflow;

use crate::control::http::{Metrics, Tcp};
use crate::orchestrator::ControlRequest;

pub use verifier::refresh;
pub use verify::{Delivery, Mark, Refused, secret, verify};

use self::verifier::WebhookVerifier;

/// What webhooks are made of.
#[derive(Debug)]
pub struct Setup {
    /// Where they are listened for.
    pub tcp: Tcp,
    /// The workflow, as it is edited.
    pub workflows: watch::Receiver<Arc<Workflow>>,
    /// The way to the daemon's loop.
    pub asks: mpsc::Sender<ControlRequest>,
    /// Counts what comes.
    pub metrics: Metrics,
}

/// The door while it is open.
#[derive(Debug)]
pub struct Webhooks {
    thread: Option<std::thread::JoinHandle<()>>,
    stop: CancellationToken,
}

impl Webhooks {
    /// Opens it.
    ///
    /// # Errors
    /// When there is no thread or no runtime for it.
    pub fn start(setup: Setup) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_all()
            .build()?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("webhooks".to_owned())
            .spawn(move || {
                runtime.block_on(serve(setup, stopped));
                runtime.shutdown_background();
            })?;
        Ok(Self {
            thread: Some(thread),
            stop,
        })
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the webhooks panicked");
        }
    }
}

async fn serve(setup: Setup, stop: CancellationToken) {
    let Setup {
        tcp,
        workflows,
        asks,
        metrics,
    } = setup;
    let gate = Arc::new(WebhookVerifier::new(workflows, metrics));
    tokio::select! {
        () = listener::open(tcp, Arc::clone(&gate)) => {}
        () = gate.ask_for_pulls(asks) => {}
        () = stop.cancelled() => {}
    }
}
