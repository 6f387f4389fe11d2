//! Webhooks: a tracker reports a change, and Vik pulls immediately.
//!
//! Webhooks have their own listener, which serves nothing but `POST /hooks/NAME`, and their own
//! thread, so that no sender takes time from the scheduler. A call is verified by a proof over its
//! raw bytes. It then requests a pull, and its content is never used for anything else.

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
use vik_control::http::{Metrics, Tcp};
use vik_core::workflow::Workflow;
use vik_orchestrator::ControlRequest;

pub use verifier::refresh;
pub use verify::{Delivery, Mark, Refused, secret, verify};

use self::verifier::WebhookVerifier;

#[derive(Debug)]
pub struct Setup {
    pub tcp: Tcp,
    /// The workflow and its edits.
    pub workflows: watch::Receiver<Arc<Workflow>>,
    /// Requests to the daemon's loop.
    pub asks: mpsc::Sender<ControlRequest>,
    pub metrics: Metrics,
}

#[derive(Debug)]
pub struct Webhooks {
    thread: Option<std::thread::JoinHandle<()>>,
    stop: CancellationToken,
}

impl Webhooks {
    /// Starts the listener.
    ///
    /// # Errors
    /// When the thread or the runtime cannot be created.
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
    let verifier = Arc::new(WebhookVerifier::new(workflows, metrics));
    tokio::select! {
        () = listener::open(tcp, Arc::clone(&verifier)) => {}
        () = verifier.ask_for_pulls(asks) => {}
        () = stop.cancelled() => {}
    }
}
