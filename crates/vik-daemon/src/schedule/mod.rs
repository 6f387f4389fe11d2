//! The schedule: entries that are due by the wall clock run a command, or request a pull.
//!
//! [`Timing`] decides, [`ScheduleState`] stores each decision before it is carried out, and the task
//! in this module carries it out. Each time of an entry runs at most once, whatever the clock does
//! and however often the daemon dies.

mod book;
mod command;
mod plan;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use vik_api::{DaemonState, LastRun, ScheduleResult, SkippedRun};
use vik_base::clock;
use vik_base::report::chain;
use vik_core::scheduler::Actor;
use vik_core::workflow::Workflow;
use vik_orchestrator::ControlRequest;
use vik_session::host::Host;

use crate::webhooks::refresh;

pub use book::{Record, ScheduleState};
pub use plan::{Due, Timing, TimingError};

use command::Ended;

/// The maximum sleep, because the wall clock may jump.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Setup {
    pub host: Arc<Host>,
    /// The workflow and its edits.
    pub workflows: watch::Receiver<Arc<Workflow>>,
    /// Requests to the daemon's loop.
    pub asks: mpsc::Sender<ControlRequest>,
}

#[derive(Debug)]
pub struct Schedule {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Schedule {
    pub fn start(setup: Setup) -> Self {
        let stop = CancellationToken::new();
        let keeper = Keeper {
            setup,
            stop: stop.clone(),
            book: ScheduleState::default(),
            timings: BTreeMap::new(),
            running: JoinSet::new(),
            active: BTreeSet::new(),
        };
        Self {
            task: tokio::spawn(keeper.run()),
            stop,
        }
    }

    /// Stops the running commands and ends the schedule.
    pub async fn close(self) {
        self.stop.cancel();
        if self.task.await.is_err() {
            tracing::error!("the task of the schedule panicked");
        }
    }
}

struct Keeper {
    setup: Setup,
    stop: CancellationToken,
    book: ScheduleState,
    timings: BTreeMap<String, Timing>,
    running: JoinSet<(String, Ended)>,
    /// The entries whose commands run, including those that an edit has removed.
    active: BTreeSet<String>,
}

/// An entry that is due.
struct DueEntry {
    name: String,
    at: Timestamp,
    missed: bool,
}

impl Keeper {
    async fn run(mut self) {
        match ScheduleState::read(&self.setup.host.layout.service_dir()) {
            Ok(book) => self.book = book,
            // Skipping a time is better than running it twice.
            Err(error) => {
                tracing::error!(%error, "cannot read the state of the schedule: it starts over");
            }
        }
        self.book.end_running();
        self.take_up();
        loop {
            let sleep = self.run_due().await;
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                Some(ended) = self.running.join_next() => self.on_end(ended).await,
                Ok(()) = self.setup.workflows.changed() => self.take_up(),
                () = self.stop.cancelled() => break,
            }
        }
        while let Some(ended) = self.running.join_next().await {
            self.on_end(ended).await;
        }
    }

    /// Loads the entries of the current workflow.
    fn take_up(&mut self) {
        let workflow = Arc::clone(&self.setup.workflows.borrow_and_update());
        let previous = self.book.clone();
        self.book.apply_entries(&workflow.schedule, clock::now());
        self.timings.clear();
        for (name, entry) in &workflow.schedule {
            match Timing::of(entry) {
                Ok(timing) => drop(self.timings.insert(name.clone(), timing)),
                Err(error) => {
                    tracing::error!(entry = name, error = chain(&error), "cannot schedule an entry");
                }
            }
        }
        if self.book != previous {
            self.save();
        }
    }

    /// Starts what is due, and returns how long nothing will be due.
    async fn run_due(&mut self) -> Duration {
        let now = clock::now();
        let (mut due, mut sleep) = (Vec::new(), LONGEST_SLEEP);
        for (name, timing) in &self.timings {
            let Some(record) = self.book.entries.get_mut(name) else {
                continue;
            };
            let (at, missed) = match timing.due(record.settled, now) {
                Due::Wait(None) => continue,
                Due::Wait(Some(next)) => {
                    let wait = Duration::try_from(next.duration_since(now)).unwrap_or_default();
                    // The extra millisecond avoids a check that is too early.
                    sleep = sleep.min(wait + Duration::from_millis(1));
                    continue;
                }
                Due::ClockWentBack => {
                    tracing::warn!(entry = name, settled = %record.settled, %now, "the clock went back: the entry starts over");
                    record.settled = now;
                    sleep = Duration::ZERO;
                    continue;
                }
                Due::Run(at) => (at, false),
                Due::Missed(at) => (at, true),
            };
            record.settled = now;
            sleep = Duration::ZERO;
            due.push(DueEntry {
                name: name.clone(),
                at,
                missed,
            });
        }
        if !due.is_empty() {
            let hold_reason = self.hold_reason().await;
            for due in due {
                self.start(due, now, hold_reason.as_deref()).await;
            }
        }
        sleep
    }

    async fn start(&mut self, due: DueEntry, now: Timestamp, hold_reason: Option<&str>) {
        let workflow = Arc::clone(&self.setup.workflows.borrow());
        let (Some(record), Some(entry)) = (
            self.book.entries.get_mut(&due.name),
            workflow.schedule.get(&due.name),
        ) else {
            return;
        };
        let skip_reason = if due.missed {
            Some("no daemon was running at that time")
        } else if self.active.contains(&due.name) {
            Some("the previous run has not ended")
        } else {
            hold_reason
        };
        if let Some(why) = skip_reason {
            tracing::warn!(entry = due.name, due = %due.at, why, "schedule entry skipped");
            record.skipped = Some(SkippedRun {
                due_at: due.at,
                why: why.to_owned(),
            });
            self.save();
            return;
        }
        record.last = Some(LastRun {
            due_at: due.at,
            started_at: now,
            ended_at: None,
            result: ScheduleResult::Running,
            detail: None,
        });
        // The start is on disk before the command runs, so that no time runs twice.
        if !self.save() {
            self.end(
                &due.name,
                Ended {
                    result: ScheduleResult::Failed,
                    detail: Some("not run: cannot save the state of the schedule".to_owned()),
                },
            )
            .await;
            return;
        }
        tracing::info!(entry = due.name, due = %due.at, "schedule entry started");
        let Some(job) = entry.job.clone() else {
            let done = Ended {
                result: ScheduleResult::Ok,
                detail: None,
            };
            self.end(&due.name, done).await;
            return;
        };
        self.active.insert(due.name.clone());
        let (host, stop) = (Arc::clone(&self.setup.host), self.stop.clone());
        self.running.spawn(async move {
            let ended = command::run(&host, &due.name, &job, due.at, stop.cancelled()).await;
            (due.name, ended)
        });
    }

    async fn on_end(&mut self, ended: Result<(String, Ended), tokio::task::JoinError>) {
        match ended {
            Ok((name, ended)) => {
                self.active.remove(&name);
                self.end(&name, ended).await;
            }
            Err(error) => {
                tracing::error!(%error, "a command of the schedule was lost");
                if self.running.is_empty() {
                    self.active.clear();
                    self.book.end_running();
                }
            }
        }
    }

    async fn end(&mut self, name: &str, ended: Ended) {
        let Ended { result, detail } = ended;
        match &detail {
            None => tracing::info!(entry = name, "schedule entry finished"),
            Some(detail) => tracing::error!(entry = name, ?result, detail, "schedule entry failed"),
        }
        // An edit may have removed the entry in the meantime.
        if let Some(last) = self
            .book
            .entries
            .get_mut(name)
            .and_then(|record| record.last.as_mut())
        {
            last.ended_at = Some(clock::now());
            last.result = result;
            last.detail = detail;
            self.save();
        }
        if result == ScheduleResult::Ok && !self.stop.is_cancelled() {
            refresh(
                &self.setup.asks,
                Actor::component(&format!("the schedule ({name})")),
            )
            .await;
        }
    }

    /// Saves the book. Returns whether that succeeded.
    fn save(&self) -> bool {
        let saved = self.book.write(&self.setup.host.layout.service_dir());
        if let Err(error) = &saved {
            tracing::error!(%error, "cannot save the state of the schedule");
        }
        saved.is_ok()
    }

    /// Returns why nothing may start now, if there is a reason.
    async fn hold_reason(&self) -> Option<String> {
        let (answer, receiver) = oneshot::channel();
        let status = match self.setup.asks.send(ControlRequest::Status(answer)).await {
            Ok(()) => receiver.await.ok(),
            Err(_) => None,
        };
        match status {
            Some(status) if status.daemon.state == DaemonState::Running => {
                status.paused.then(|| "everything is paused".to_owned())
            }
            _ => Some("the daemon is shutting down".to_owned()),
        }
    }
}
