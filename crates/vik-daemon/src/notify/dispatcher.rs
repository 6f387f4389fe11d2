//! The task that receives facts, stores them and starts deliveries.

mod delivery;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use vik_api::{NotifierView, ReportView};
use vik_base::clock;
use vik_base::report::chain;
use vik_control::figures::{self, Window};
use vik_core::workflow::{NotifyEvent, Workflow};
use vik_orchestrator::NotifierHealth;
use vik_session::host::Host;
use vik_store::ledger::Reader;
use vik_workflow::time_zone;

use self::delivery::{Delivered, DeliveryState};
use super::daily::{self, Daily};
use super::fact::Fact;
use super::outbox::{self, Outbox};
use super::{Lost, message};

/// How often the wall clock is checked for a daily summary, because the clock may jump.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The maximum number of facts received at once.
const AT_ONCE: usize = 512;

/// What the task needs.
pub(super) struct Parts {
    pub(super) host: Arc<Host>,
    pub(super) facts: mpsc::Receiver<Fact>,
    pub(super) lost: Lost,
    pub(super) workflow: watch::Receiver<Arc<Workflow>>,
    pub(super) health: NotifierHealth,
    pub(super) ended: oneshot::Receiver<Duration>,
}

struct Dispatcher {
    host: Arc<Host>,
    file: PathBuf,
    folder: PathBuf,
    epoch: Instant,
    workflow: Arc<Workflow>,
    outbox: Outbox,
    states: BTreeMap<String, DeliveryState>,
    deliveries: JoinSet<Delivered>,
    cancel: CancellationToken,
    health: NotifierHealth,
    /// Whether the outbox has changes that are not on disk.
    is_dirty: bool,
    /// Whether the last save failed and this was logged.
    save_failed: bool,
    /// Whether the task is ending: each notification is tried once more.
    is_ending: bool,
}

/// Runs until all senders of facts are closed.
pub(super) async fn run(parts: Parts, parked: Vec<Fact>) {
    let Parts {
        host,
        mut facts,
        lost,
        mut workflow,
        health,
        ended,
    } = parts;
    let service = host.layout.service_dir();
    let file = outbox::file(&service);
    let first = Arc::clone(&workflow.borrow_and_update());
    let outbox = if first.notify.is_empty() {
        // Facts from a time without notifiers are not sent later.
        let _ = std::fs::remove_file(&file);
        Outbox::new(clock::now())
    } else {
        Outbox::load(&file, clock::now())
    };
    let mut dispatcher = Dispatcher {
        host,
        file,
        folder: service.join("notify"),
        epoch: Instant::now(),
        workflow: Arc::new(Workflow {
            notify: BTreeMap::new(),
            ..(*first).clone()
        }),
        outbox,
        states: BTreeMap::new(),
        deliveries: JoinSet::new(),
        cancel: CancellationToken::new(),
        health,
        is_dirty: false,
        save_failed: false,
        is_ending: false,
    };
    // Removes the files of a killed daemon.
    let _ = std::fs::remove_dir_all(&dispatcher.folder);
    dispatcher.configure(first, true);
    // Adds the runs that were parked just before the last daemon died.
    for fact in parked {
        if fact.at > dispatcher.outbox.parked_until {
            dispatcher.take(&fact);
        }
    }
    let mut received = Vec::new();
    loop {
        dispatcher.step().await;
        let wait = dispatcher.wait();
        tokio::select! {
            count = facts.recv_many(&mut received, AT_ONCE) => {
                if count == 0 {
                    break;
                }
                for fact in received.drain(..) {
                    dispatcher.take(&fact);
                }
                dispatcher.lose(lost.take());
            }
            Ok(()) = workflow.changed() => {
                let edited = Arc::clone(&workflow.borrow_and_update());
                dispatcher.configure(edited, false);
            }
            Some(done) = dispatcher.deliveries.join_next() => dispatcher.on_done(done),
            () = tokio::time::sleep(wait) => {}
        }
    }
    dispatcher.lose(lost.take());
    // The daemon's loop has ended, so the timeout arrives at once.
    dispatcher
        .deliver_remaining(ended.await.unwrap_or_default())
        .await;
}

impl Dispatcher {
    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Applies the notifiers of a workflow.
    fn configure(&mut self, workflow: Arc<Workflow>, is_first: bool) {
        if !is_first && self.workflow.notify.is_empty() && !workflow.notify.is_empty() {
            // Runs that were parked while there were no notifiers are not reported.
            self.outbox.parked_until = self.outbox.parked_until.max(clock::now());
        }
        self.workflow = workflow;
        let now = self.now();
        let notify = &self.workflow.notify;
        self.outbox.boxes.retain(|name, queue| {
            let stays = notify.contains_key(name);
            if !stays && (queue.gathering.len() > 0 || !queue.ready.is_empty()) {
                tracing::warn!(
                    notifier = name,
                    "notifier removed: its pending notifications are dropped"
                );
            }
            stays
        });
        self.states.retain(|name, _| notify.contains_key(name));
        for name in notify.keys() {
            self.states.entry(name.clone()).or_default().next = None;
            let queue = self.outbox.boxes.entry(name.clone()).or_default();
            queue.gathering.wake(now);
        }
        self.is_dirty |= !self.workflow.notify.is_empty();
    }

    /// Queues a fact for all notifiers that want it.
    fn take(&mut self, fact: &Fact) {
        if fact.about.is_some() && fact.freed_by.is_some() {
            self.outbox.parked_until = self.outbox.parked_until.max(fact.at);
        }
        if let Some(day) = fact.day {
            if self.outbox.day.is_some_and(|last| last >= day) {
                return;
            }
            self.outbox.day = Some(day);
        }
        let now = self.now();
        for (name, notifier) in &self.workflow.notify {
            if fact.events.iter().any(|event| notifier.on.contains(event)) {
                let queue = self.outbox.boxes.entry(name.clone()).or_default();
                queue.gathering.push(fact.clone(), now);
            }
        }
        self.is_dirty = true;
    }

    fn lose(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        tracing::error!(count, "too many events at once: some are not sent to notifiers");
        let now = self.now();
        for queue in self.outbox.boxes.values_mut() {
            queue.gathering.lose(count, now);
        }
        self.is_dirty = true;
    }

    /// Does everything that is due.
    async fn step(&mut self) {
        self.build_daily_summaries().await;
        self.gather();
        self.save().await;
        self.start();
        self.update_health();
    }

    /// Builds notifications of the facts whose time has elapsed.
    fn gather(&mut self) {
        let (now, at) = (self.now(), clock::now());
        for (name, notifier) in &self.workflow.notify {
            let queue = self.outbox.boxes.entry(name.clone()).or_default();
            let window = if self.is_ending {
                Duration::ZERO
            } else {
                notifier.debounce.0
            };
            let Some(batch) = queue.gathering.take(window, now) else {
                continue;
            };
            self.is_dirty = true;
            let workflow = &self.host.workflow_path;
            if let Some(notification) = message::of_batch(name, &notifier.on, workflow, at, &batch) {
                let lost = queue.push(notification);
                if lost > 0 {
                    tracing::error!(
                        notifier = name,
                        lost,
                        "too many notifications are pending: the oldest is dropped"
                    );
                    queue.gathering.miss(lost);
                }
            }
        }
    }

    /// Builds the daily summaries that are due.
    async fn build_daily_summaries(&mut self) {
        let now = clock::now();
        let wanted: Vec<_> = self
            .workflow
            .notify
            .iter()
            .filter(|(_, notifier)| notifier.on.contains(&NotifyEvent::DailySummary))
            .map(|(name, notifier)| (name.clone(), notifier.daily_at, notifier.time_zone.clone()))
            .collect();
        for (name, at, zone) in wanted {
            let zone = time_zone(&zone).unwrap_or(TimeZone::UTC);
            let queue = self.outbox.boxes.entry(name.clone()).or_default();
            match daily::check(now, &zone, at, queue.summed_up) {
                Daily::Wait => continue,
                Daily::Remember(day) => queue.summed_up = Some(day),
                Daily::Due { day, since, until } => {
                    // Recorded even if the summary fails, so that it is not retried every few
                    // seconds.
                    queue.summed_up = Some(day);
                    let service = self.host.layout.service_dir();
                    let report = tokio::task::spawn_blocking(move || {
                        let ledger = Reader::open(&service)?;
                        figures::report(ledger.as_ref(), Window::new(since, until, None))
                    });
                    let report: ReportView = match report.await {
                        Ok(Ok(report)) => report,
                        Ok(Err(error)) => {
                            tracing::error!(error = chain(&error), "cannot create the daily summary");
                            continue;
                        }
                        Err(error) => {
                            tracing::error!(%error, "bug in Vik: cannot create the daily summary");
                            continue;
                        }
                    };
                    let notification = message::of_day(&name, &self.host.workflow_path, now, report);
                    if let Some(queue) = self.outbox.boxes.get_mut(&name) {
                        queue.push(notification);
                    }
                }
            }
            self.is_dirty = true;
        }
    }

    /// Saves the outbox before anything is sent.
    async fn save(&mut self) {
        if !std::mem::take(&mut self.is_dirty) {
            return;
        }
        let (outbox, file) = (self.outbox.clone(), self.file.clone());
        let saved = tokio::task::spawn_blocking(move || outbox.save(&file)).await;
        let error = match saved {
            Ok(Ok(())) => {
                self.save_failed = false;
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        if !std::mem::replace(&mut self.save_failed, true) {
            tracing::error!(error, file = %self.file.display(), "cannot save the outbox: notifications are sent anyway");
        }
    }

    /// Returns how long nothing is due.
    fn wait(&self) -> Duration {
        /// The wait if nothing is known to become due.
        const LONG: Duration = Duration::from_secs(3600);
        let (now, instant) = (self.now(), Instant::now());
        let mut wait = LONG;
        for (name, notifier) in &self.workflow.notify {
            let queue = self.outbox.boxes.get(name);
            let due = queue.and_then(|queue| queue.gathering.due(notifier.debounce.0));
            wait = wait.min(due.map_or(LONG, |due| due.saturating_sub(now)));
            let has_queued = queue.is_some_and(|queue| !queue.ready.is_empty());
            let state = self.states.get(name).filter(|state| has_queued && !state.busy);
            let next = state.and_then(|state| state.next);
            wait = wait.min(next.map_or(LONG, |next| next.saturating_duration_since(instant)));
            if notifier.on.contains(&NotifyEvent::DailySummary) {
                wait = wait.min(CLOCK_CHECK_INTERVAL);
            }
        }
        wait
    }

    fn update_health(&self) {
        let views = self.workflow.notify.keys().filter_map(|name| {
            let state = self.states.get(name)?;
            let queue = self.outbox.boxes.get(name);
            Some(NotifierView {
                name: name.clone(),
                undelivered: queue.map_or(0, |queue| queue.ready.len()),
                failures_in_a_row: state.failures,
                failing_since: state.failing_since,
                error: state.error.clone(),
                given_up: state.given_up,
            })
        });
        self.health.set(views.collect());
    }
}
