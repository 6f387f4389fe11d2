//! The one loop: it tells the scheduler what happened and carries out what it asks for.

mod control;
mod finish;
mod progress;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use vik_api::{DaemonState, LastPull, PullCounts, Request, Response};
use vik_core::ids::{IssueId, SessionId};
use vik_core::machine::Note;
use vik_core::scheduler::{Effect, Filter, Input, Rest, Scheduler, Start};
use vik_core::time::{Mono, Now};
use vik_core::workflow::Workflow;

use crate::daemon::{Asked, Shims, Signals};
use crate::host::{Host, millis};
use crate::intake::{self, PullResult};
use crate::session::{self, Attempt, AttemptEnd, Finish, Live, Orders, Spent, Stop, StopLevel, Tell};

pub use finish::{Closing, SummaryRow};
pub use progress::{Observer, Progress, Silent};

/// The least time between the starts of two pulls, however many things ask for one.
const PULL_GAP: Duration = Duration::from_millis(200);

/// With `--once`: failed pulls in a row before it gives up.
const ONCE_PULL_TRIES: u64 = 3;

/// With `--once`: a longer wait than this is reported, not waited for.
const ONCE_LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How long the loop runs, and what it may start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// End when there is nothing left to do.
    pub once: bool,
    /// End after this many pulls; `None` is what the workflow says.
    pub max_iterations: Option<u64>,
    /// What may start.
    pub filter: Filter,
}

impl Options {
    /// As words of the command line of `run`.
    pub fn words(&self) -> Vec<String> {
        let issues = self.filter.issues.iter().map(|id| format!("--issue={id}"));
        let stages = self.filter.stages.iter().map(|name| format!("--stage={name}"));
        let most = self.max_iterations.map(|most| format!("--max-iterations={most}"));
        issues.chain(stages).chain(most).collect()
    }
}

/// A request from the control socket, and where its answer goes.
pub type Asking = (Request, oneshot::Sender<Response>);

enum Event {
    Pulled(PullResult),
    Ended(SessionId, Box<AttemptEnd>),
}

struct Running {
    start: Box<Start>,
    live: Live,
    tell: Tell,
    since: Timestamp,
}

/// The loop and all it knows.
pub struct Orchestrator {
    host: Arc<Host>,
    workflow: Arc<Workflow>,
    options: Options,
    scheduler: Scheduler,
    epoch: Instant,
    events: (mpsc::UnboundedSender<Event>, mpsc::UnboundedReceiver<Event>),
    stop: (watch::Sender<StopLevel>, Stop),
    running: HashMap<SessionId, Running>,
    state: DaemonState,
    started_at: Timestamp,
    pulling: bool,
    pull_due: Option<Instant>,
    pull_started: Option<Instant>,
    iterations: u64,
    counts: PullCounts,
    last_pull: Option<LastPull>,
    /// Whether a pull brought each issue named by `--issue` (and it matched a stage).
    found: Vec<(IssueId, bool)>,
    closing: Closing,
    observer: Box<dyn Observer>,
    shims: Shims,
    spent: (mpsc::UnboundedSender<Spent>, mpsc::UnboundedReceiver<Spent>),
}

impl std::fmt::Debug for Orchestrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Orchestrator")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Orchestrator {
    /// A loop that has done nothing yet.
    pub fn new(
        host: Arc<Host>,
        workflow: Arc<Workflow>,
        options: Options,
        observer: Box<dyn Observer>,
    ) -> Self {
        let mut seed = [0; 6];
        seed.copy_from_slice(&uuid::Uuid::new_v4().as_bytes()[..6]);
        let scheduler = Scheduler::new(Arc::clone(&workflow), options.filter.clone(), seed);
        let found = options
            .filter
            .issues
            .iter()
            .map(|id| (id.clone(), false))
            .collect();
        Self {
            host,
            workflow,
            options,
            scheduler,
            epoch: Instant::now(),
            events: mpsc::unbounded_channel(),
            stop: Stop::new(),
            running: HashMap::new(),
            state: DaemonState::Running,
            started_at: Timestamp::now(),
            pulling: false,
            pull_due: Some(Instant::now()),
            pull_started: None,
            iterations: 0,
            counts: PullCounts::default(),
            last_pull: None,
            found,
            closing: Closing::default(),
            observer,
            shims: Shims::default(),
            spent: mpsc::unbounded_channel(),
        }
    }

    /// Runs until it is stopped, or until there is nothing left to do where the options say so.
    pub async fn run(mut self, mut signals: Signals, mut asks: mpsc::Receiver<Asking>) -> Closing {
        loop {
            self.start_due_pull();
            if self.is_finished() {
                return self.close();
            }
            let wake = self.next_wakeup();
            tokio::select! {
                Some(event) = self.events.1.recv() => self.on_event(event),
                Some(Spent { issue, session, spend }) = self.spent.1.recv() => {
                    self.handle(Input::Spent { issue, session, spend });
                }
                asked = signals.next() => self.on_signal(asked),
                Some(asking) = asks.recv() => self.on_ask(asking),
                () = sleep_until(wake) => self.handle(Input::Tick),
            }
        }
    }

    /// The shims of the agents that run, kept up to date.
    pub fn shims(&self) -> Shims {
        Arc::clone(&self.shims)
    }

    fn now(&self) -> Now {
        Now {
            wall: Timestamp::now(),
            mono: Mono(self.epoch.elapsed()),
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let backoff = self
            .scheduler
            .next_wakeup(self.now())
            .map(|wait| Instant::now() + wait);
        let pull = self.pull_due.filter(|_| !self.pulling && self.may_pull());
        [backoff, pull].into_iter().flatten().min()
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Pulled(pull) => self.on_pulled(pull),
            Event::Ended(session, end) => self.on_ended(session, *end),
        }
    }

    fn on_signal(&mut self, asked: Asked) {
        match asked {
            Asked::Refresh => {
                tracing::info!("asked to look at the issues again");
                self.ask_for_pull();
            }
            Asked::Stop { interrupt } => {
                self.closing.interrupted |= interrupt;
                self.begin_stop();
            }
        }
    }

    /// Stops gracefully; when it does so already, at once.
    fn begin_stop(&mut self) {
        self.closing.stopped = true;
        let level = match self.stop.1.level() {
            StopLevel::Go => StopLevel::Stop,
            _ => StopLevel::Kill,
        };
        tracing::info!(running = self.running.len(), ?level, "stopping");
        self.observer.on(&Progress::Stopping {
            running: self.running.len(),
            force: level == StopLevel::Kill,
        });
        self.state = DaemonState::Stopping;
        self.handle(Input::Drain);
        self.stop.0.send_replace(level);
        if let Err(error) = crate::daemon::enter_state(&self.host.layout.state_file(), "stopping") {
            tracing::error!(%error, "cannot write state.json");
        }
    }

    // --- pulls

    fn may_pull(&self) -> bool {
        let most = self.options.max_iterations.or(self.workflow.max_iterations);
        self.state == DaemonState::Running && most.is_none_or(|most| self.iterations < most)
    }

    fn ask_for_pull(&mut self) {
        let soonest = self
            .pull_started
            .map_or_else(Instant::now, |started| started + PULL_GAP);
        self.pull_due = Some(self.pull_due.map_or(soonest, |due| due.min(soonest)));
    }

    fn start_due_pull(&mut self) {
        if self.pulling || !self.may_pull() || self.pull_due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        self.pulling = true;
        self.pull_due = None;
        self.pull_started = Some(Instant::now());
        self.iterations += 1;
        self.handle(Input::PullStarted);
        let (host, intake, stop) = (
            Arc::clone(&self.host),
            self.workflow.pull.clone(),
            self.stop.1.clone(),
        );
        let (events, wanted) = (self.events.0.clone(), self.scheduler.wanted());
        tokio::spawn(async move {
            let stderr = host.layout.service_dir().join("pull.stderr.log");
            let pull = intake::pull(
                &host,
                &intake,
                &stderr,
                Some(wanted),
                stop.reached(StopLevel::Stop),
            )
            .await;
            let _ = events.send(Event::Pulled(pull));
        });
    }

    fn on_pulled(&mut self, pull: PullResult) {
        self.pulling = false;
        let mut last = LastPull {
            at: Timestamp::now(),
            ok: pull.result.is_ok(),
            issues: 0,
            skipped: 0,
            duration_ms: millis(pull.took),
            error: None,
        };
        match pull.result {
            Ok(pull) => {
                self.counts.ok += 1;
                self.counts.failed_in_a_row = 0;
                (last.issues, last.skipped) = (pull.count, pull.skipped.len());
                for skipped in &pull.skipped {
                    tracing::warn!(
                        index = skipped.index,
                        id = skipped.id,
                        reason = skipped.reason,
                        "item skipped"
                    );
                }
                tracing::debug!(
                    issues = last.issues,
                    skipped = last.skipped,
                    took_ms = last.duration_ms,
                    "pulled"
                );
                self.observer.on(&Progress::Pulled {
                    issues: last.issues,
                    skipped: &pull.skipped,
                });
                self.look_for_named(&pull.issues);
                // Set first: an effect may ask for an earlier one.
                self.pull_due = Some(Instant::now() + self.workflow.pull.idle.0);
                self.handle(Input::Pulled(pull.issues));
            }
            Err(intake::PullError::Cancelled) if self.stop.1.is_set() => {}
            Err(error) => {
                self.counts.failed += 1;
                self.counts.failed_in_a_row += 1;
                let text = crate::report::chain(&error);
                tracing::error!(
                    error = text,
                    in_a_row = self.counts.failed_in_a_row,
                    "pull failed"
                );
                self.observer.on(&Progress::PullFailed { error: &text });
                last.error = Some(text);
                self.pull_due = Some(Instant::now() + self.workflow.pull.idle.0);
            }
        }
        self.last_pull = Some(last);
    }

    fn look_for_named(&mut self, issues: &[vik_core::issue::Issue]) {
        for (id, found) in &mut self.found {
            *found |= issues.iter().any(|issue| {
                issue.id == *id
                    && self
                        .workflow
                        .issue
                        .stages
                        .iter()
                        .any(|stage| stage.when_state == *issue.state)
            });
        }
    }

    // --- attempts

    fn handle(&mut self, input: Input) {
        for effect in self.scheduler.handle(self.now(), input) {
            match effect {
                Effect::Start(start) => self.start(start),
                Effect::Pull => self.ask_for_pull(),
                Effect::Note(issue, note) => self.on_note(&issue, &note),
                Effect::Stop { session, why } => {
                    if let Some(running) = self.running.get(&session) {
                        running.tell.stop(why);
                    }
                }
                Effect::Warn { session, limit } => {
                    if let Some(running) = self.running.get(&session) {
                        running.tell.warn(limit);
                    }
                }
                Effect::Show(_) | Effect::RemoveWorkspace(_) | Effect::Answer(..) => {}
            }
        }
    }

    fn start(&mut self, start: Box<Start>) {
        let session = start.session;
        tracing::info!(
            issue = ?start.issue.id, stage = %start.stage.name, agent = %start.stage.agent,
            attempt = start.attempt, session = %session, "attempt started"
        );
        let live = Live::default();
        let (tell, orders) = Orders::new(self.stop.1.clone());
        self.observer.on(&Progress::Started(&start, &live));
        self.running.insert(
            session,
            Running {
                start: start.clone(),
                live: live.clone(),
                tell,
                since: Timestamp::now(),
            },
        );
        let attempt = Attempt {
            host: Arc::clone(&self.host),
            workflow: Arc::clone(&self.workflow),
            start: start.clone(),
            live,
            orders,
            spent: self.spent.0.clone(),
            orphan_grace: Duration::ZERO,
            shims: Arc::clone(&self.shims),
        };
        let (events, host) = (self.events.0.clone(), Arc::clone(&self.host));
        tokio::spawn(async move {
            // A task of its own: should it panic, the slot still comes free.
            let end = match tokio::spawn(session::run(attempt)).await {
                Ok(Finish::Ended(end)) => end,
                Ok(Finish::Detached) => return,
                Err(broken) => Box::new(AttemptEnd::broken(
                    &host,
                    &start,
                    format!("a bug in Vik: {broken}"),
                )),
            };
            let _ = events.send(Event::Ended(session, end));
        });
    }

    fn on_ended(&mut self, session: SessionId, end: AttemptEnd) {
        let Some(Running { start, .. }) = self.running.remove(&session) else {
            return;
        };
        tracing::info!(
            issue = ?start.issue.id, stage = %start.stage.name, session = %session,
            outcome = %end.ended.outcome, class = end.ended.failure_class.map(|class| class.as_str()),
            reason = end.ended.reason, duration_ms = end.ended.duration_ms, "attempt ended"
        );
        self.observer.on(&Progress::Ended(&start, &end));
        self.closing.add_attempt(&start, &end);
        self.handle(Input::Ended {
            issue: start.issue.id.clone(),
            session,
            report: end.report,
        });
    }

    fn on_note(&mut self, issue: &IssueId, note: &Note) {
        match note {
            Note::Ended { stage, succeeded, .. } => tracing::info!(?issue, %stage, succeeded, "run ended"),
            Note::BackingOff {
                stage,
                attempts,
                wait,
                ..
            } => {
                tracing::info!(?issue, %stage, attempts, wait_ms = millis(*wait), "backing off");
            }
            Note::Parked { stage, reason, .. } => {
                tracing::warn!(?issue, %stage, reason = reason.as_str(), "parked");
            }
            Note::Freed { stage, .. } => tracing::info!(?issue, %stage, "the issue was changed: freed"),
        }
        self.observer.on(&Progress::Note(issue, note));
        self.closing.add_note(issue, note);
    }

    // --- the end

    fn is_finished(&self) -> bool {
        if self.pulling || !self.running.is_empty() {
            return false;
        }
        if self.state == DaemonState::Stopping || !self.may_pull() {
            return true;
        }
        if !self.options.once {
            return false;
        }
        if self.counts.failed_in_a_row > 0 {
            return self.counts.failed_in_a_row >= ONCE_PULL_TRIES;
        }
        match self.scheduler.rest() {
            Rest::Running | Rest::NeedsPull => false,
            Rest::Idle => true,
            Rest::At(then) => self.now().mono.until(then) > ONCE_LONGEST_WAIT,
        }
    }
}

async fn sleep_until(then: Option<Instant>) {
    match then {
        Some(then) => tokio::time::sleep_until(then.into()).await,
        None => std::future::pending().await,
    }
}
