//! Notifies people and programs by a command or by a signed webhook.
//!
//! The daemon's loop is never delayed: [`Watcher`] only puts facts into a bounded queue. One task
//! takes them, stores them in the outbox, combines the facts of a short time, and starts
//! deliveries, one at a time for each notifier.

mod daily;
mod debounce;
mod deliver;
mod dispatcher;
mod fact;
mod message;
mod outbox;
mod watcher;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use vik_core::workflow::Workflow;
use vik_orchestrator::{NotifierHealth, Observer, Parked};
use vik_session::host::Host;

use fact::Fact;

pub use deliver::{DeliverError, Delivery, deliver};
pub use message::test as test_notification;
pub use watcher::Watcher;

/// The maximum number of queued facts. Further facts are lost, and the loss is reported.
const WAITING: usize = 4096;

/// The number of facts that did not fit into the queue.
#[derive(Clone, Debug, Default)]
struct Lost(Arc<AtomicU64>);

impl Lost {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// The notifiers of a daemon, before they run.
#[derive(Debug)]
pub struct Notifiers {
    facts: mpsc::Receiver<Fact>,
    sender: mpsc::Sender<Fact>,
    lost: Lost,
    workflow: watch::Sender<Arc<Workflow>>,
    health: NotifierHealth,
}

impl Notifiers {
    /// Creates the notifiers of a workflow.
    pub fn new(workflow: Arc<Workflow>) -> Self {
        let (sender, facts) = mpsc::channel(WAITING);
        Self {
            facts,
            sender,
            lost: Lost::default(),
            workflow: watch::channel(workflow).0,
            health: NotifierHealth::default(),
        }
    }

    pub fn health(&self) -> NotifierHealth {
        self.health.clone()
    }

    /// Creates an observer that notifies, then calls the next observer.
    pub fn watcher(&self, next: Box<dyn Observer>) -> Watcher {
        Watcher::new(
            self.sender.clone(),
            self.lost.clone(),
            self.workflow.clone(),
            next,
        )
    }

    /// Starts the notifiers. `parked` lists all parked runs: those that were parked just before the
    /// last daemon died are reported too.
    pub fn run<'a>(self, host: Arc<Host>, parked: impl Iterator<Item = Parked<'a>>) -> NotifierTask {
        let (end, ended) = oneshot::channel();
        let parked = parked.map(|parked| Fact::parked(&parked)).collect();
        let parts = dispatcher::Parts {
            host,
            facts: self.facts,
            lost: self.lost,
            workflow: self.workflow.subscribe(),
            health: self.health,
            ended,
        };
        NotifierTask {
            task: tokio::spawn(dispatcher::run(parts, parked)),
            end,
        }
    }
}

/// The running notifiers. They end when the watcher is dropped.
#[derive(Debug)]
pub struct NotifierTask {
    task: JoinHandle<()>,
    end: oneshot::Sender<Duration>,
}

impl NotifierTask {
    /// Waits for their end. Undelivered notifications are tried once more, within `last`; what then
    /// remains is kept for the next daemon.
    pub async fn end(self, last: Duration) {
        let _ = self.end.send(last);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "bug in Vik: the notifiers did not shut down cleanly");
        }
    }
}
