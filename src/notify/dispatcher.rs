//! The one task that takes facts, keeps them, and starts deliveries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use vik_api::{NotifierView, ReportView};
use vik_core::workflow::{NotifyEvent, Workflow};
use vik_store::ledger::Reader;

use super::daily::{self, Daily};
use super::deliver::{DeliverError, Delivering, deliver, wait_after};
use super::fact::Fact;
use super::outbox::{self, Outbox};
use super::{Health, Lost, message};
use crate::crash::wall_clock;
use crate::figures::{self, Window};
use crate::host::Host;
use crate::report::{chain, one_line};

/// How often the wall clock is looked at where a daily summary is wanted: it may jump.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How long a command that was told to stop may take to do so, at the end.
const STOPPING: Duration = Duration::from_secs(5);

/// So many facts are taken at once.
const AT_ONCE: usize = 512;

/// What it begins with.
pub(super) struct Parts {
    pub(super) host: Arc<Host>,
    pub(super) facts: mpsc::Receiver<Fact>,
    pub(super) lost: Lost,
    pub(super) workflow: watch::Receiver<Arc<Workflow>>,
    pub(super) health: Health,
    pub(super) ended: oneshot::Receiver<Duration>,
}

/// What is known of a notifier in this process.
#[derive(Debug, Default)]
struct DeliveryState {
    /// One is on its way.
    busy: bool,
    /// Not before then.
    next: Option<Instant>,
    failing_since: Option<Timestamp>,
    failures: u32,
    error: Option<String>,
    given_up: u64,
}

/// The notifier, the id, and what came of it.
type Delivered = (String, String, Result<(), DeliverError>);

struct Dispatcher {
    host: Arc<Host>,
    file: PathBuf,
    folder: PathBuf,
    epoch: Instant,
    workflow: Arc<Workflow>,
    outbox: Outbox,
    lanes: BTreeMap<String, DeliveryState>,
    under_way: JoinSet<Delivered>,
    cancel: CancellationToken,
    health: Health,
    /// What is in memory is not on disk.
    is_dirty: bool,
    /// It was said that it cannot be put there.
    is_unkept: bool,
    /// Nothing new comes: each is tried once more.
    is_ending: bool,
}

/// Runs until nobody tells facts any more.
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
        // What happens while nobody is to be told is no news later.
        let _ = std::fs::remove_file(&file);
        Outbox::new(wall_clock())
    } else {
        Outbox::load(&file, wall_clock())
    };
    let mut hub = Dispatcher {
        host,
        file,
        folder: service.join("notify"),
        epoch: Instant::now(),
        workflow: Arc::new(Workflow {
            notify: BTreeMap::new(),
            ..(*first).clone()
        }),
        outbox,
        lanes: BTreeMap::new(),
        under_way: JoinSet::new(),
        cancel: CancellationToken::new(),
        health,
        is_dirty: false,
        is_unkept: false,
        is_ending: false,
    };
    // Files that a killed daemon left.
    let _ = std::fs::remove_dir_all(&hub.folder);
    hub.configure(first, true);
    // What was parked and not taken in before the last daemon died.
    for fact in parked {
        if fact.at > hub.outbox.parked_until {
            hub.take(&fact);
        }
    }
    let mut came = Vec::new();
    loop {
        hub.step().await;
        let wait = hub.wait();
        tokio::select! {
            count = facts.recv_many(&mut came, AT_ONCE) => {
                if count == 0 {
                    break;
                }
                for fact in came.drain(..) {
                    hub.take(&fact);
                }
                hub.lose(lost.take());
            }
            Ok(()) = workflow.changed() => {
                let edited = Arc::clone(&workflow.borrow_and_update());
                hub.configure(edited, false);
            }
            Some(done) = hub.under_way.join_next() => hub.on_done(done),
            () = tokio::time::sleep(wait) => {}
        }
    }
    hub.lose(lost.take());
    // The loop is over, so this comes at once.
    hub.last_try(ended.await.unwrap_or_default()).await;
}

impl Dispatcher {
    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Other notifiers hold from now on.
    fn configure(&mut self, workflow: Arc<Workflow>, is_first: bool) {
        if !is_first && self.workflow.notify.is_empty() && !workflow.notify.is_empty() {
            // What was parked while nobody was to be told is no news.
            self.outbox.parked_until = self.outbox.parked_until.max(wall_clock());
        }
        self.workflow = workflow;
        let now = self.now();
        let notify = &self.workflow.notify;
        self.outbox.boxes.retain(|name, letters| {
            let stays = notify.contains_key(name);
            if !stays && (letters.gathering.len() > 0 || !letters.ready.is_empty()) {
                tracing::warn!(
                    notifier = name,
                    "the notifier is gone, and what it was to be told with it"
                );
            }
            stays
        });
        self.lanes.retain(|name, _| notify.contains_key(name));
        for name in notify.keys() {
            self.lanes.entry(name.clone()).or_default().next = None;
            let letters = self.outbox.boxes.entry(name.clone()).or_default();
            letters.gathering.wake(now);
        }
        self.is_dirty |= !self.workflow.notify.is_empty();
    }

    /// A fact came.
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
                let letters = self.outbox.boxes.entry(name.clone()).or_default();
                letters.gathering.push(fact.clone(), now);
            }
        }
        self.is_dirty = true;
    }

    fn lose(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        tracing::error!(
            count,
            "too much happened at once: some of it is told to no notifier"
        );
        let now = self.now();
        for letters in self.outbox.boxes.values_mut() {
            letters.gathering.lose(count, now);
        }
        self.is_dirty = true;
    }

    /// Does all that is due.
    async fn step(&mut self) {
        self.sum_up().await;
        self.gather();
        self.save().await;
        self.start();
        self.show();
    }

    /// Makes notifications of what was gathered long enough.
    fn gather(&mut self) {
        let (now, at) = (self.now(), wall_clock());
        for (name, notifier) in &self.workflow.notify {
            let letters = self.outbox.boxes.entry(name.clone()).or_default();
            let window = if self.is_ending {
                Duration::ZERO
            } else {
                notifier.debounce.0
            };
            let Some(batch) = letters.gathering.take(window, now) else {
                continue;
            };
            self.is_dirty = true;
            let workflow = &self.host.workflow_path;
            if let Some(notification) = message::of_batch(name, &notifier.on, workflow, at, &batch) {
                let lost = letters.post(notification);
                if lost > 0 {
                    tracing::error!(
                        notifier = name,
                        lost,
                        "too much waits for the notifier: the oldest is given up"
                    );
                    letters.gathering.miss(lost);
                }
            }
        }
    }

    /// Makes the daily summaries that are due.
    async fn sum_up(&mut self) {
        let now = wall_clock();
        let wanted: Vec<_> = self
            .workflow
            .notify
            .iter()
            .filter(|(_, notifier)| notifier.on.contains(&NotifyEvent::DailySummary))
            .map(|(name, notifier)| (name.clone(), notifier.daily_at, notifier.time_zone.clone()))
            .collect();
        for (name, at, zone) in wanted {
            let zone = daily::zone(&zone).unwrap_or(TimeZone::UTC);
            let letters = self.outbox.boxes.entry(name.clone()).or_default();
            match daily::check(now, &zone, at, letters.summed_up) {
                Daily::Wait => continue,
                Daily::Remember(day) => letters.summed_up = Some(day),
                Daily::Due { day, since, until } => {
                    // Whatever comes of it: it is not tried every few seconds.
                    letters.summed_up = Some(day);
                    let service = self.host.layout.service_dir();
                    let report = tokio::task::spawn_blocking(move || {
                        let ledger = Reader::open(&service)?;
                        figures::report(ledger.as_ref(), Window::new(since, until, None))
                    });
                    let report: ReportView = match report.await {
                        Ok(Ok(report)) => report,
                        Ok(Err(error)) => {
                            tracing::error!(error = chain(&error), "cannot make the daily summary");
                            continue;
                        }
                        Err(error) => {
                            tracing::error!(%error, "a bug in Vik: cannot make the daily summary");
                            continue;
                        }
                    };
                    let notification = message::of_day(&name, &self.host.workflow_path, now, report);
                    if let Some(letters) = self.outbox.boxes.get_mut(&name) {
                        letters.post(notification);
                    }
                }
            }
            self.is_dirty = true;
        }
    }

    /// Puts it on disk, before anything is sent.
    async fn save(&mut self) {
        if !std::mem::take(&mut self.is_dirty) {
            return;
        }
        let (outbox, file) = (self.outbox.clone(), self.file.clone());
        let saved = tokio::task::spawn_blocking(move || outbox.save(&file)).await;
        let error = match saved {
            Ok(Ok(())) => {
                self.is_unkept = false;
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        if !std::mem::replace(&mut self.is_unkept, true) {
            tracing::error!(error, file = %self.file.display(), "what notifiers are to be told cannot be kept: it is told all the same");
        }
    }

    /// Starts what can be delivered: one at a time for each notifier, in order.
    fn start(&mut self) {
        let now = Instant::now();
        for (name, notifier) in &self.workflow.notify {
            let Some(lane) = self.lanes.get_mut(name) else {
                continue;
            };
            let letter = self
                .outbox
                .boxes
                .get(name)
                .and_then(|letters| letters.ready.front());
            let Some(letter) = letter.filter(|_| !lane.busy && lane.next.is_none_or(|next| next <= now))
            else {
                continue;
            };
            lane.busy = true;
            let what = Delivering {
                host: Arc::clone(&self.host),
                notifier: notifier.clone(),
                notification: letter.notification.clone(),
                folder: self.folder.clone(),
            };
            let (name, cancel) = (name.clone(), self.cancel.clone());
            let id = letter.notification.delivery_id.clone();
            self.under_way.spawn(async move {
                // A bug in it must not leave its notifier without a word for ever.
                let task = tokio::spawn(async move { deliver(&what, cancel.cancelled()).await });
                let result = task
                    .await
                    .unwrap_or_else(|error| Err(DeliverError::Bug(error.to_string())));
                (name, id, result)
            });
        }
    }

    fn on_done(&mut self, done: Result<Delivered, tokio::task::JoinError>) {
        // What a delivery runs in is a task of its own, so it cannot break.
        let Ok((name, sent, result)) = done else { return };
        let (Some(lane), Some(letters)) = (self.lanes.get_mut(&name), self.outbox.boxes.get_mut(&name))
        else {
            return;
        };
        lane.busy = false;
        // The notifier may have been taken out and put in again meanwhile.
        let Some(letter) = letters
            .ready
            .front_mut()
            .filter(|letter| letter.notification.delivery_id == sent)
        else {
            return;
        };
        let delivery = sent;
        match result {
            Ok(()) => {
                tracing::info!(
                    notifier = name,
                    delivery,
                    event = letter.notification.event,
                    "told"
                );
                letters.ready.pop_front();
                *lane = DeliveryState {
                    given_up: lane.given_up,
                    ..DeliveryState::default()
                };
            }
            // It is Vik that ends: that is no try.
            Err(DeliverError::Stopped) => lane.next = Some(Instant::now() + STOPPING),
            Err(error) => {
                let error = one_line(&chain(&error), 600);
                letter.tries += 1;
                lane.failures += 1;
                lane.failing_since.get_or_insert_with(wall_clock);
                match wait_after(letter.tries) {
                    Some(wait) => {
                        tracing::warn!(
                            notifier = name,
                            delivery,
                            tries = letter.tries,
                            error,
                            "cannot tell; it is tried again"
                        );
                        lane.next = Some(Instant::now() + wait);
                    }
                    None => {
                        tracing::error!(
                            notifier = name,
                            delivery,
                            tries = letter.tries,
                            error,
                            "cannot tell; it is given up"
                        );
                        lane.given_up += 1;
                        let lost = letter.item_count();
                        letters.ready.pop_front();
                        letters.gathering.miss(lost);
                    }
                }
                lane.error = Some(error);
            }
        }
        self.is_dirty = true;
    }

    /// How long nothing is due.
    fn wait(&self) -> Duration {
        /// So long, where nothing is known to come.
        const LONG: Duration = Duration::from_secs(3600);
        let (now, instant) = (self.now(), Instant::now());
        let mut wait = LONG;
        for (name, notifier) in &self.workflow.notify {
            let letters = self.outbox.boxes.get(name);
            let due = letters.and_then(|letters| letters.gathering.due(notifier.debounce.0));
            wait = wait.min(due.map_or(LONG, |due| due.saturating_sub(now)));
            let waits = letters.is_some_and(|letters| !letters.ready.is_empty());
            let lane = self.lanes.get(name).filter(|lane| waits && !lane.busy);
            let next = lane.and_then(|lane| lane.next);
            wait = wait.min(next.map_or(LONG, |next| next.saturating_duration_since(instant)));
            if notifier.on.contains(&NotifyEvent::DailySummary) {
                wait = wait.min(CLOCK_CHECK_INTERVAL);
            }
        }
        wait
    }

    /// Tries what is left once more, for so long in all.
    async fn last_try(&mut self, last: Duration) {
        self.is_ending = true;
        for lane in self.lanes.values_mut() {
            lane.next = None;
        }
        self.gather();
        self.save().await;
        self.start();
        let end = tokio::time::sleep(last);
        tokio::pin!(end);
        while !self.under_way.is_empty() {
            tokio::select! {
                Some(done) = self.under_way.join_next() => {
                    // What fails now is not tried again, what succeeds makes way for the next one.
                    self.on_done(done);
                    self.save().await;
                    self.start();
                }
                () = &mut end => break,
            }
        }
        self.cancel.cancel();
        let stopped = async {
            while let Some(done) = self.under_way.join_next().await {
                self.on_done(done);
            }
        };
        if tokio::time::timeout(STOPPING, stopped).await.is_err() {
            tracing::warn!("a command of a notifier does not stop");
        }
        self.is_dirty = !self.workflow.notify.is_empty();
        self.save().await;
        let left: usize = self
            .outbox
            .boxes
            .values()
            .map(|letters| letters.ready.len())
            .sum();
        if left > 0 {
            tracing::warn!(left, "notifications are kept for the next start");
        }
        let _ = std::fs::remove_dir(&self.folder);
    }

    fn show(&self) {
        let views = self.workflow.notify.keys().filter_map(|name| {
            let lane = self.lanes.get(name)?;
            let letters = self.outbox.boxes.get(name);
            Some(NotifierView {
                name: name.clone(),
                undelivered: letters.map_or(0, |letters| letters.ready.len()),
                failures_in_a_row: lane.failures,
                failing_since: lane.failing_since,
                error: lane.error.clone(),
                given_up: lane.given_up,
            })
        });
        self.health.set(views.collect());
    }
}
