//! The daemon's loop: it passes inputs to the scheduler and carries out its effects.
//!
//! An [`Orchestrator`] is made from a [`Setup`]. [`Orchestrator::run`] pulls issues ([`intake`]),
//! gives them to the scheduler, commits its decisions to a [`CommitLog`], and only then starts
//! attempts, stops them or removes workspaces. A [`ControlRequest`] is answered between two inputs.
//! An [`Observer`] sees what happens as [`Progress`], and a [`RunSummary`] lists what was done.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod api_view;
mod attempts;
mod commit_queue;
mod control;
mod effects;
mod finish;
pub mod intake;
mod notices;
mod pressure;
mod progress;
mod pulls;
mod reload;
mod removal;
pub mod service_state;
pub mod signals;
mod status;
mod stopping;

use std::collections::{BTreeSet, HashMap};
use std::hash::RandomState;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::civil::Date;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use vik_api::{ApiView, DaemonState, LastPull, PullCounts};
use vik_core::attempt::Start;
use vik_core::changes::Stored;
use vik_core::ids::{AttemptId, IssueId};
use vik_core::issue::{FieldWarning, Pull};
use vik_core::machine::Phase;
use vik_core::scheduler::{Filter, Input, LookupResult, Quiescence, Scheduler};
use vik_core::time::{Mono, Now};
use vik_core::workflow::Workflow;
use vik_session::attempt::StopLevel;
use vik_session::host::Host;
use vik_workflow::{LoadedWorkflow, Prompts, Watch};

use self::attempts::Attempts;
use self::commit_queue::CommitQueue;
use self::pulls::{LastGoodPull, PullOutput};
use self::reload::Edits;
use self::removal::Removal;
use self::stopping::Broken;
use crate::intake::PullError;
use crate::signals::Signals;

pub use commit_queue::{CommitLog, Committing};
pub use control::{ActionResult, ControlRequest};
pub use finish::{RunSummary, SummaryRow};
pub use progress::{Awaiting, Observer, Parked, Progress, Silent};
pub use status::NotifierHealth;

/// The minimum time between the starts of two pulls, however many requests there are for one.
const PULL_GAP: Duration = Duration::from_millis(200);

/// With `--once`: the number of consecutive failed pulls after which the loop ends.
const ONCE_PULL_TRIES: u64 = 3;

/// With `--once`: a longer wait than this is reported instead of waited for.
const ONCE_LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The interval at which memory and disk pressure are checked.
const PRESSURE_EVERY: Duration = Duration::from_secs(5);

/// The maximum number of concurrent lookups and of concurrent workspace removals.
const CHORES_AT_ONCE: (usize, usize) = (8, 4);

/// How long the loop runs, and what it may start.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether the loop ends when there is nothing left to do.
    pub once: bool,
    /// The number of pulls after which the loop ends; `None` uses the workflow's value.
    pub max_iterations: Option<u64>,
    /// Restricts what may start.
    pub filter: Filter,
}

impl Options {
    /// Returns the options as arguments of `run`.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_orchestrator::Options;
    ///
    /// let mut options = Options { max_iterations: Some(3), ..Options::default() };
    /// options.filter.issues.push("7".into());
    /// assert_eq!(options.to_args(), ["--issue=7", "--max-iterations=3"]);
    /// ```
    pub fn to_args(&self) -> Vec<String> {
        let issues = self.filter.issues.iter().map(|id| format!("--issue={id}"));
        let stages = self.filter.stages.iter().map(|name| format!("--stage={name}"));
        let max_iterations = self.max_iterations.map(|max| format!("--max-iterations={max}"));
        issues.chain(stages).chain(max_iterations).collect()
    }
}

enum Event {
    Printed(PullOutput),
    Pulled(Duration, u64, Pull),
    PullFailed(Duration, PullError),
    Shown(IssueId, Result<LookupResult, String>),
    Removed(IssueId, Removal),
}

pub struct Setup {
    pub host: Arc<Host>,
    pub loaded: LoadedWorkflow,
    /// Reports edits of the workflow; `None` ignores them.
    pub watch: Option<Watch>,
    pub options: Options,
    /// Receives the progress events.
    pub observer: Box<dyn Observer>,
    /// Commits the decisions to disk.
    pub commit_log: Box<dyn CommitLog>,
    /// The state that the ledger had stored.
    pub stored: Stored,
    /// The issues that have a workspace.
    pub workspaces: Vec<IssueId>,
    /// How long agents live without a daemon if the workflow does not set it.
    pub orphan_grace: Duration,
    /// The address of the HTTP API, for `status`.
    pub api: Option<ApiView>,
    /// The state of the notifiers, for `status`.
    pub notify: NotifierHealth,
    /// The address of the webhooks, for `status`.
    pub webhooks: Option<ApiView>,
    /// Receives the workflow after each edit.
    pub workflow_updates: watch::Sender<Arc<Workflow>>,
}

/// The daemon's loop and its state.
pub struct Orchestrator {
    host: Arc<Host>,
    workflow: Arc<Workflow>,
    prompts: Arc<Prompts>,
    edits: Edits,
    options: Options,
    scheduler: Scheduler,
    commits: CommitQueue,
    /// The attempts that an earlier daemon started. They are recovered before anything else.
    inherited: Vec<Start>,
    /// Passed to the scheduler before the first pull.
    workspaces: Vec<IssueId>,
    epoch: Instant,
    events: (mpsc::UnboundedSender<Event>, mpsc::UnboundedReceiver<Event>),
    stop: StopLevel,
    /// Cancels the hooks of removals.
    kill: CancellationToken,
    attempts: Attempts,
    state: DaemonState,
    started_at: Timestamp,
    pulling: bool,
    /// Whether another pull was requested while one ran.
    pull_again: bool,
    pull_due: Option<Instant>,
    pull_started: Option<Instant>,
    iterations: u64,
    counts: PullCounts,
    last_pull: Option<LastPull>,
    last_good: Option<LastGoodPull>,
    /// The fields of the last good pull that have the wrong type.
    field_warnings: BTreeSet<FieldWarning>,
    digest_key: RandomState,
    /// Whether a pull returned each issue named by `--issue`, in the state of a stage.
    found: Vec<(IssueId, bool)>,
    /// The issues of the last good pull whose state differs from a stage's state only in case: one
    /// line each.
    misspelled: Vec<String>,
    summary: RunSummary,
    observer: Box<dyn Observer>,
    default_grace: Duration,
    /// Cancels pulls and lookups when their results are no longer needed.
    cancel_lookups: CancellationToken,
    /// Whether the agents survive the end of the loop.
    keep_agents: bool,
    broken: Option<Broken>,
    answers: HashMap<u64, oneshot::Sender<ActionResult>>,
    next_request: u64,
    /// The number of lookups and removals that are running.
    running_tasks: usize,
    lookup_slots: Arc<Semaphore>,
    /// The issues whose last lookup failed, and why.
    lookup_errors: HashMap<IssueId, String>,
    removal_slots: Arc<Semaphore>,
    /// The last reported pressure, if there is any.
    pressure: Option<String>,
    pressure_due: Instant,
    api: Option<ApiView>,
    notify: NotifierHealth,
    /// The last day whose limit was reported as reached.
    day_limit_reported: Option<Date>,
    webhooks: Option<ApiView>,
    workflow_updates: watch::Sender<Arc<Workflow>>,
}

impl std::fmt::Debug for Orchestrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Orchestrator")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Orchestrator {
    pub fn new(setup: Setup) -> Self {
        let mut seed = [0; 6];
        seed.copy_from_slice(&uuid::Uuid::new_v4().as_bytes()[..6]);
        let epoch = Instant::now();
        let now = Now {
            wall: vik_base::clock::now(),
            mono: Mono(Duration::ZERO),
        };
        let Setup {
            host,
            loaded,
            watch,
            options,
            observer,
            commit_log,
            stored,
            workspaces,
            orphan_grace,
            api,
            notify,
            webhooks,
            workflow_updates,
        } = setup;
        let edits = Edits::new(watch, &loaded);
        let workflow = loaded.workflow;
        let filter = options.filter.clone();
        let found = filter.issues.iter().map(|id| (id.clone(), false)).collect();
        let (scheduler, inherited) = Scheduler::restore(Arc::clone(&workflow), filter, seed, stored, now);
        Self {
            host,
            workflow,
            prompts: loaded.prompts,
            edits,
            options,
            scheduler,
            commits: CommitQueue::new(commit_log),
            inherited,
            workspaces,
            epoch,
            events: mpsc::unbounded_channel(),
            stop: StopLevel::Run,
            kill: CancellationToken::new(),
            attempts: Attempts::default(),
            state: DaemonState::Running,
            started_at: Timestamp::now(),
            pulling: false,
            pull_again: false,
            pull_due: Some(epoch),
            pull_started: None,
            iterations: 0,
            counts: PullCounts::default(),
            last_pull: None,
            last_good: None,
            field_warnings: BTreeSet::new(),
            digest_key: RandomState::new(),
            found,
            misspelled: Vec::new(),
            summary: RunSummary::default(),
            observer,
            default_grace: orphan_grace,
            cancel_lookups: CancellationToken::new(),
            keep_agents: false,
            broken: None,
            answers: HashMap::new(),
            next_request: 0,
            running_tasks: 0,
            lookup_slots: Arc::new(Semaphore::new(CHORES_AT_ONCE.0)),
            lookup_errors: HashMap::new(),
            removal_slots: Arc::new(Semaphore::new(CHORES_AT_ONCE.1)),
            pressure: None,
            pressure_due: epoch,
            api,
            notify,
            day_limit_reported: None,
            webhooks,
            workflow_updates,
        }
    }

    /// Returns the attempts that an earlier daemon started and that this one recovers.
    pub fn inherited(&self) -> impl Iterator<Item = AttemptId> {
        self.inherited.iter().map(|start| start.attempt_id)
    }

    /// Runs until it is stopped, or until nothing is left to do if the options say so.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(setup: vik_orchestrator::Setup) -> std::io::Result<()> {
    /// use vik_orchestrator::Orchestrator;
    /// use vik_orchestrator::signals::Signals;
    ///
    /// // The control socket sends its requests here.
    /// let (asks, requests) = tokio::sync::mpsc::channel(16);
    /// let summary = Orchestrator::new(setup).run(Signals::listen()?, requests).await;
    /// println!("exit code {}", summary.exit().code());
    /// # drop(asks);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(mut self, mut signals: Signals, mut asks: mpsc::Receiver<ControlRequest>) -> RunSummary {
        self.recover_attempts();
        loop {
            self.update_pressure();
            self.start_due_pull();
            if self.is_finished() {
                return self.close();
            }
            let wake = self.next_wakeup();
            tokio::select! {
                committed = self.commits.next() => match committed {
                    Ok(effects) => self.carry_out(effects),
                    Err(error) => self.on_ledger_failure(error),
                },
                Some(event) = self.events.1.recv() => self.on_event(event),
                (attempt_id, update) = self.attempts.next() => self.on_attempt_update(attempt_id, update),
                reload = self.edits.next() => self.on_reload(reload),
                signal = signals.next() => self.on_signal(signal),
                Some(control_request) = asks.recv() => self.on_control_request(control_request),
                () = sleep_until(wake) => self.handle(Input::Tick),
            }
        }
    }

    /// Recovers the attempts of an earlier daemon before new decisions are made.
    fn recover_attempts(&mut self) {
        for start in std::mem::take(&mut self.inherited) {
            tracing::info!(
                issue = start.issue.id.as_str(), stage = %start.stage.name, session = %start.attempt_id,
                "recovering an attempt of an earlier daemon"
            );
            let since = self.since(&start).unwrap_or(self.started_at);
            self.spawn_attempt(Box::new(start), since, true);
        }
        let workspaces = std::mem::take(&mut self.workspaces);
        self.handle(Input::Workspaces(workspaces));
    }

    /// Returns when an attempt started.
    fn since(&self, start: &Start) -> Option<Timestamp> {
        let runs = self.scheduler.machine(&start.issue.id)?.runs();
        runs.iter().find_map(|run| match run.phase {
            Phase::Active {
                attempt_id: session,
                since,
                ..
            } if session == start.attempt_id => Some(since),
            _ => None,
        })
    }

    /// Returns how long agents live without a daemon.
    fn orphan_grace(&self) -> Duration {
        self.workflow
            .orphan_grace
            .map_or(self.default_grace, |grace| grace.0)
    }

    fn update_pressure(&mut self) {
        let limits = self.workflow.pressure;
        if Instant::now() < self.pressure_due {
            return;
        }
        self.pressure_due = Instant::now() + PRESSURE_EVERY;
        let layout = &self.host.layout;
        let folders = [layout.service_dir(), layout.root().to_owned()];
        let pressed = pressure::pressure(&limits, &folders, self.pressure.is_some());
        if pressed.is_some() != self.pressure.is_some() {
            tracing::info!(why = pressed, "memory or disk pressure");
            self.handle(Input::Pressure(pressed.clone()));
        }
        self.pressure = pressed;
    }

    fn now(&self) -> Now {
        Now {
            wall: vik_base::clock::now(),
            mono: Mono(self.epoch.elapsed()),
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let backoff = self
            .scheduler
            .next_wakeup(self.now())
            .map(|wait| Instant::now() + wait);
        let pull = self.pull_due.filter(|_| !self.pulling && self.may_pull());
        let pressure = Some(self.pressure_due);
        let given_up = self.broken.as_ref().map(|broken| broken.until);
        [backoff, pull, pressure, given_up].into_iter().flatten().min()
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Printed(printed) => self.on_printed(printed),
            Event::Pulled(duration, digest, pull) => self.on_pulled(duration, digest, pull),
            Event::PullFailed(duration, error) => self.on_pull_failed(duration, &error),
            Event::Shown(issue, result) => self.on_shown(issue, result),
            Event::Removed(issue, removal) => self.on_removed(issue, &removal),
        }
    }

    // --- end of the loop

    fn is_finished(&self) -> bool {
        if let Some(broken) = &self.broken {
            return self.attempts.is_empty() || Instant::now() >= broken.until;
        }
        if self.pulling || !self.attempts.is_empty() || self.running_tasks > 0 || !self.commits.is_settled() {
            return false;
        }
        if matches!(self.state, DaemonState::Stopping | DaemonState::Draining) || !self.may_pull() {
            return true;
        }
        if !self.options.once {
            return false;
        }
        if self.counts.failed_in_a_row > 0 {
            return self.counts.failed_in_a_row >= ONCE_PULL_TRIES;
        }
        match self.scheduler.quiescence(self.now()) {
            Quiescence::Running | Quiescence::NeedsPull => false,
            Quiescence::Idle => true,
            Quiescence::At(then) => self.now().mono.until(then) > ONCE_LONGEST_WAIT,
        }
    }
}

async fn sleep_until(then: Option<Instant>) {
    match then {
        Some(then) => tokio::time::sleep_until(then.into()).await,
        None => std::future::pending().await,
    }
}
