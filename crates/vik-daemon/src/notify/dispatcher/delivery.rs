//! Deliveries: one at a time for each notifier, with retries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use vik_base::clock;
use vik_base::report::{chain, one_line};

use super::Dispatcher;
use crate::notify::deliver::{DeliverError, Delivery, deliver, wait_after};

/// How long a command may take to stop at the end.
const STOPPING: Duration = Duration::from_secs(5);

/// The state of a notifier in this process.
#[derive(Debug, Default)]
pub(super) struct DeliveryState {
    /// Whether a delivery is running.
    pub(super) busy: bool,
    /// The earliest time of the next delivery.
    pub(super) next: Option<Instant>,
    pub(super) failing_since: Option<Timestamp>,
    pub(super) failures: u32,
    pub(super) error: Option<String>,
    pub(super) given_up: u64,
}

/// The name of the notifier, the delivery id and the result.
pub(super) type Delivered = (String, String, Result<(), DeliverError>);

impl Dispatcher {
    /// Starts the deliveries that are due: one at a time for each notifier, in order.
    pub(super) fn start(&mut self) {
        let now = Instant::now();
        for (name, notifier) in &self.workflow.notify {
            let Some(state) = self.states.get_mut(name) else {
                continue;
            };
            let queued = self.outbox.boxes.get(name).and_then(|queue| queue.ready.front());
            let Some(queued) = queued.filter(|_| !state.busy && state.next.is_none_or(|next| next <= now))
            else {
                continue;
            };
            state.busy = true;
            let delivery = Delivery {
                host: Arc::clone(&self.host),
                notifier: notifier.clone(),
                notification: queued.notification.clone(),
                folder: self.folder.clone(),
            };
            let (name, cancel) = (name.clone(), self.cancel.clone());
            let id = queued.notification.delivery_id.clone();
            self.deliveries.spawn(async move {
                // A panic in the delivery must not block its notifier forever.
                let task = tokio::spawn(async move { deliver(&delivery, cancel.cancelled()).await });
                let result = task
                    .await
                    .unwrap_or_else(|error| Err(DeliverError::Bug(error.to_string())));
                (name, id, result)
            });
        }
    }

    pub(super) fn on_done(&mut self, done: Result<Delivered, tokio::task::JoinError>) {
        // The delivery itself runs in a task of its own, so this task does not panic.
        let Ok((name, sent, result)) = done else { return };
        let (Some(state), Some(queue)) = (self.states.get_mut(&name), self.outbox.boxes.get_mut(&name))
        else {
            return;
        };
        state.busy = false;
        // The notifier may have been removed and added again in the meantime.
        let Some(queued) = queue
            .ready
            .front_mut()
            .filter(|queued| queued.notification.delivery_id == sent)
        else {
            return;
        };
        let delivery = sent;
        match result {
            Ok(()) => {
                tracing::info!(
                    notifier = name,
                    delivery,
                    event = queued.notification.event,
                    "notification delivered"
                );
                queue.ready.pop_front();
                *state = DeliveryState {
                    given_up: state.given_up,
                    ..DeliveryState::default()
                };
            }
            // The daemon stopped the delivery, so it does not count as a try.
            Err(DeliverError::Stopped) => state.next = Some(Instant::now() + STOPPING),
            Err(error) => {
                let error = one_line(&chain(&error), 600);
                queued.tries += 1;
                state.failures += 1;
                state.failing_since.get_or_insert_with(clock::now);
                match wait_after(queued.tries) {
                    Some(wait) => {
                        tracing::warn!(
                            notifier = name,
                            delivery,
                            tries = queued.tries,
                            error,
                            "delivery failed; retrying"
                        );
                        state.next = Some(Instant::now() + wait);
                    }
                    None => {
                        tracing::error!(
                            notifier = name,
                            delivery,
                            tries = queued.tries,
                            error,
                            "delivery failed; giving up"
                        );
                        state.given_up += 1;
                        let lost = queued.item_count();
                        queue.ready.pop_front();
                        queue.gathering.miss(lost);
                    }
                }
                state.error = Some(error);
            }
        }
        self.is_dirty = true;
    }

    /// Tries all remaining notifications once more, within the timeout.
    pub(super) async fn deliver_remaining(&mut self, timeout: Duration) {
        self.is_ending = true;
        for state in self.states.values_mut() {
            state.next = None;
        }
        self.gather();
        self.save().await;
        self.start();
        let end = tokio::time::sleep(timeout);
        tokio::pin!(end);
        while !self.deliveries.is_empty() {
            tokio::select! {
                Some(done) = self.deliveries.join_next() => {
                    // A notification that fails now is not retried; after a success, the next one
                    // is sent.
                    self.on_done(done);
                    self.save().await;
                    self.start();
                }
                () = &mut end => break,
            }
        }
        self.cancel.cancel();
        let stopped = async {
            while let Some(done) = self.deliveries.join_next().await {
                self.on_done(done);
            }
        };
        if tokio::time::timeout(STOPPING, stopped).await.is_err() {
            tracing::warn!("a notifier's command does not stop");
        }
        self.is_dirty = !self.workflow.notify.is_empty();
        self.save().await;
        let left: usize = self.outbox.boxes.values().map(|queue| queue.ready.len()).sum();
        if left > 0 {
            tracing::warn!(left, "pending notifications are kept for the next start");
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}
