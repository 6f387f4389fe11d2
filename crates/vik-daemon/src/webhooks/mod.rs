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
use vik_control::http::{Metrics, ServerThread, Tcp};
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
    _thread: ServerThread,
}

impl Webhooks {
    /// Starts the listener.
    ///
    /// # Errors
    /// When the thread or the runtime cannot be created.
    pub fn start(setup: Setup) -> io::Result<Self> {
        let thread = ServerThread::start("webhooks", "the webhooks", 1, |stop| serve(setup, stop))?;
        Ok(Self { _thread: thread })
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
