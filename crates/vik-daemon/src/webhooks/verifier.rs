//! Verifies calls by the workflow's hooks, and requests pulls for those that are verified.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use vik_api::Action;
use vik_control::http::Metrics;
use vik_core::scheduler::Actor;
use vik_core::workflow::{Hook, Workflow};
use vik_orchestrator::ControlRequest;

use super::pace::{Bucket, Pacer};
use super::recent_deliveries::RecentDeliveries;
use super::verify::{self, Refused};

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A pull is requested.
    Accepted,
    /// The call was received before.
    Duplicate,
    /// The call is only a test of the connection.
    Ping,
    /// The call was not verified.
    Refused,
    /// The call was not verified, and there were too many such calls before it.
    Flooded,
}

impl Verdict {
    /// Returns the label for metrics.
    fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Duplicate => "duplicate",
            Self::Ping => "ping",
            Self::Refused => "refused",
            Self::Flooded => "flooded",
        }
    }
}

/// The state of the webhooks.
#[derive(Debug)]
pub(super) struct WebhookVerifier {
    workflows: watch::Receiver<Arc<Workflow>>,
    metrics: Metrics,
    epoch: Instant,
    state: Mutex<State>,
    wanted: Notify,
}

#[derive(Debug, Default)]
struct State {
    deliveries: HashMap<String, RecentDeliveries>,
    buckets: HashMap<String, Bucket>,
    pacer: Pacer,
}

impl WebhookVerifier {
    pub(super) fn new(workflows: watch::Receiver<Arc<Workflow>>, metrics: Metrics) -> Self {
        Self {
            workflows,
            metrics,
            epoch: Instant::now(),
            state: Mutex::default(),
            wanted: Notify::new(),
        }
    }

    /// Returns the current hook of this name.
    pub(super) fn hook(&self, name: &str) -> Option<Hook> {
        self.workflows.borrow().webhooks.hooks.get(name).cloned()
    }

    /// Verifies a call whose body was read.
    pub(super) fn verify_call(
        &self,
        name: &str,
        hook: &Hook,
        secret: &str,
        headers: &HeaderMap,
        body: &[u8],
        peer: &str,
    ) -> Verdict {
        let now = vik_base::clock::now();
        let delivery = match verify::verify(hook, secret, headers, body, now) {
            Ok(delivery) => delivery,
            Err(why) => return self.refuse(name, why, peer),
        };
        let since = self.epoch.elapsed();
        let verdict = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let recent = state.deliveries.entry(name.to_owned()).or_default();
            if !recent.note(&delivery.marks, since) {
                Verdict::Duplicate
            } else if delivery.is_ping {
                Verdict::Ping
            } else {
                state.pacer.want();
                Verdict::Accepted
            }
        };
        if verdict == Verdict::Accepted {
            self.wanted.notify_one();
        }
        tracing::info!(
            hook = name,
            event = delivery.event,
            delivery = delivery.id.as_deref().unwrap_or("-"),
            peer,
            result = verdict.as_str(),
            "webhook"
        );
        self.count(name, verdict)
    }

    /// Counts and logs a call that was not verified.
    pub(super) fn refuse(&self, name: &str, why: Refused, peer: &str) -> Verdict {
        let since = self.epoch.elapsed();
        let is_logged = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let bucket = state.buckets.entry(name.to_owned());
            bucket.or_insert_with(|| Bucket::new(since)).take(since)
        };
        if is_logged {
            tracing::warn!(hook = name, peer, %why, "webhook rejected");
            return self.count(name, Verdict::Refused);
        }
        self.count(name, Verdict::Flooded)
    }

    fn count(&self, name: &str, verdict: Verdict) -> Verdict {
        self.metrics.hook(name, verdict.as_str());
        verdict
    }

    /// Requests pulls of the daemon's loop, at the configured pace.
    pub(super) async fn ask_for_pulls(&self, asks: mpsc::Sender<ControlRequest>) {
        loop {
            let gap = self.workflows.borrow().webhooks.min_gap.0;
            match self.wait(gap) {
                None => self.wanted.notified().await,
                Some(wait) if !wait.is_zero() => tokio::time::sleep(wait).await,
                Some(_) => self.ask(&asks).await,
            }
        }
    }

    fn wait(&self, gap: Duration) -> Option<Duration> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.pacer.wait(self.epoch.elapsed(), gap)
    }

    async fn ask(&self, asks: &mpsc::Sender<ControlRequest>) {
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.pacer.ask(self.epoch.elapsed());
        }
        refresh(asks, Actor::component("a webhook")).await;
    }
}

/// Asks the daemon's loop to check the workflow and to pull the issues.
pub async fn refresh(asks: &mpsc::Sender<ControlRequest>, by: Actor) {
    let (answer, receiver) = oneshot::channel();
    let action = Action::Refresh;
    let response = match asks.send(ControlRequest::Act { action, by, answer }).await {
        Ok(()) => receiver.await.ok(),
        Err(_) => None,
    };
    if !matches!(response, Some(Ok(_))) {
        tracing::debug!("no pull: the daemon is shutting down");
    }
}
