//! The loop: inputs to the scheduler, its decisions to disk, its effects to their executor.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use vik_base::failpoint;
use vik_core::attempt::{AttemptResult, Start};
use vik_core::changes::Stored;
use vik_core::ids::{AttemptId, IssueId};
use vik_core::machine::Phase;
use vik_core::outcome::Outcome;
use vik_core::scheduler::{Effect, Input, Quiescence, RemovalCause, Scheduler};
use vik_core::time::Now;
use vik_core::turn::GrantedTurn;
use vik_core::worker::Workers;
use vik_core::workflow::Workflow;
use vik_session::attempt::{self, TurnDecision};
use vik_workflow::Watch;

use crate::attempts::{Attempts, NewAttempt};
use crate::commit_queue::{CommitLog, CommitQueue};
use crate::effects::Effects;
use crate::finish::{FinalState, RunSummary};
use crate::lifecycle::Lifecycle;
use crate::notices::{self, DayLimitNotice};
use crate::pressure::PressureGauge;
use crate::progress::{Parked, Progress};
use crate::pull_loop::PullLoop;
use crate::reload::Edits;
use crate::requests::Requests;
use crate::retention::Retention;
use crate::signals::Signals;
use crate::status::StatusSources;
use crate::tasks::BackgroundTasks;
use crate::workers::WorkerUpdates;
use crate::{ControlRequest, OpenFiles, Options};

/// With `--once`: the number of consecutive failed pulls after which the loop ends.
const ONCE_PULL_TRIES: u64 = 3;

/// With `--once`: a longer wait than this is reported instead of waited for.
const ONCE_LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What a loop is made from.
pub struct Setup {
    /// The workflow in force; receives it again after each edit.
    pub workflow: watch::Sender<Arc<Workflow>>,
    /// When the workflow was read.
    pub loaded_at: Timestamp,
    /// Reports edits of the workflow; `None` ignores them.
    pub watch: Option<Watch>,
    pub options: Options,
    /// Carries out the decisions.
    pub effects: Box<dyn Effects>,
    /// Commits the decisions to disk.
    pub commit_log: Box<dyn CommitLog>,
    /// The state that the ledger had stored.
    pub stored: Stored,
    /// The issues that have a workspace.
    pub workspaces: Vec<IssueId>,
    /// The limit on open files, which limits the sessions.
    pub open_files: OpenFiles,
    /// The workers that carry out the attempts, complete each time; `None` if attempts run on this
    /// machine.
    pub workers: Option<watch::Receiver<Workers>>,
    pub status: StatusSources,
}

/// The daemon's loop and its state.
pub struct Orchestrator {
    pub(crate) scheduler: Scheduler,
    pub(crate) commits: CommitQueue,
    pub(crate) effects: Box<dyn Effects>,
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) edits: Edits,
    pub(crate) options: Options,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) attempts: Attempts,
    pub(crate) pulls: PullLoop,
    pub(crate) tasks: BackgroundTasks,
    pub(crate) requests: Requests,
    pub(crate) pressure: PressureGauge,
    pub(crate) retention: Retention,
    pub(crate) day_limit: DayLimitNotice,
    pub(crate) status: StatusSources,
    pub(crate) summary: RunSummary,
    open_files: OpenFiles,
    pub(crate) workers: WorkerUpdates,
    /// Passed to the scheduler before the first pull.
    workspaces: Vec<IssueId>,
}

impl std::fmt::Debug for Orchestrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Orchestrator")
            .field("lifecycle", &self.lifecycle)
            .finish_non_exhaustive()
    }
}

impl Orchestrator {
    pub fn new(setup: Setup) -> Self {
        let mut seed = [0; 6];
        seed.copy_from_slice(&uuid::Uuid::new_v4().as_bytes()[..6]);
        let Setup {
            workflow: workflow_updates,
            loaded_at,
            watch,
            options,
            effects,
            commit_log,
            stored,
            workspaces,
            open_files,
            workers,
            status,
        } = setup;
        let now = effects.now();
        let workflow = workflow_updates.borrow().clone();
        let (scheduler, inherited) =
            Scheduler::restore(Arc::clone(&workflow), options.filter.clone(), seed, stored, now);
        Self {
            scheduler,
            commits: CommitQueue::new(commit_log),
            effects,
            workflow,
            edits: Edits::new(watch, workflow_updates, loaded_at),
            lifecycle: Lifecycle::new(now.wall),
            attempts: Attempts::new(inherited),
            pulls: PullLoop::new(now.mono, &options.filter.issues),
            options,
            tasks: BackgroundTasks::default(),
            requests: Requests::default(),
            pressure: PressureGauge::new(now.mono),
            retention: Retention::new(now.wall),
            day_limit: DayLimitNotice::default(),
            status,
            summary: RunSummary::default(),
            open_files,
            workers: WorkerUpdates::new(workers),
            workspaces,
        }
    }

    /// Returns the attempts that an earlier daemon started and that this one recovers.
    pub fn inherited(&self) -> impl Iterator<Item = AttemptId> {
        self.attempts.inherited().iter().map(|start| start.attempt_id)
    }

    /// Lists all parked runs.
    pub fn parked(&self) -> impl Iterator<Item = Parked<'_>> {
        notices::all_parked(&self.scheduler)
    }

    /// Runs until it is stopped, or until nothing is left to do if the options say so.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(setup: vik_orchestrator::Setup) -> std::io::Result<()> {
    /// use vik_orchestrator::signals::Signals;
    /// use vik_orchestrator::Orchestrator;
    ///
    /// // The control socket sends its requests here.
    /// let (asks, requests) = tokio::sync::mpsc::channel(16);
    /// let summary = Orchestrator::new(setup).run(Signals::listen()?, requests).await;
    /// println!("exit code {}", summary.exit().code());
    /// # drop(asks);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(
        mut self,
        mut signals: Signals,
        mut requests: mpsc::Receiver<ControlRequest>,
    ) -> RunSummary {
        self.recover_attempts();
        loop {
            if let Some(input) = self.pressure.check(&mut *self.effects) {
                self.handle(input);
            }
            self.start_due_pull();
            self.retain();
            if self.is_finished() {
                return self.close();
            }
            let wake = self.effects.sleep(self.next_wakeup());
            tokio::select! {
                committed = self.commits.next() => match committed {
                    Ok(effects) => self.carry_out(effects),
                    Err(failure) => self.on_commit_failure(failure),
                },
                (attempt_id, update) = self.attempts.next() => self.on_attempt_update(attempt_id, update),
                step = self.pulls.next() => self.on_pull_step(step),
                end = self.tasks.next() => self.on_task_end(end),
                reload = self.edits.next() => self.on_reload(reload),
                workers = self.workers.next() => self.handle(Input::Workers(workers)),
                signal = signals.next() => self.on_signal(signal),
                Some(control_request) = requests.recv() => self.on_control_request(control_request),
                () = wake => self.handle(Input::Tick),
            }
        }
    }

    pub(crate) fn now(&self) -> Now {
        self.effects.now()
    }

    /// Passes an input to the scheduler. Its decision is committed, then its effects are carried
    /// out.
    pub(crate) fn handle(&mut self, input: Input) {
        if self.lifecycle.broken().is_some() {
            // A decision that cannot be stored is not made.
            return;
        }
        let effects = self.scheduler.handle(self.now(), input);
        let changes = self.scheduler.take_changes();
        let effects = self.commits.push(changes, effects);
        self.carry_out(effects);
    }

    /// Carries out effects whose decisions are on disk.
    pub(crate) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start(start) => self.start(start.into()),
                Effect::HandOver(start) => self.hand_over(start.into()),
                Effect::Stop { attempt_id, why } => {
                    if let Some((commands, span)) = self.attempts.commands(attempt_id) {
                        tracing::info!(parent: &span, %why, "stopping an attempt");
                        commands.stop(why);
                    }
                }
                Effect::DeliverAnswer { attempt_id, answered } => {
                    if let Some((commands, span)) = self.attempts.commands(attempt_id) {
                        tracing::info!(parent: &span, by = answered.by, answer = answered.answer.as_str(), "request answered");
                        commands.answer(answered);
                    }
                }
                Effect::DeliverMessage { attempt_id, message } => {
                    failpoint::reach("message_committed");
                    if let Some((commands, span)) = self.attempts.commands(attempt_id) {
                        tracing::info!(parent: &span, message = %message.id, by = message.by, "message delivered");
                        commands.deliver(message);
                    }
                }
                Effect::GrantTurn { attempt_id, granted } => {
                    failpoint::reach("turn_granted");
                    self.decide_turn(attempt_id, granted.turn - 1, Some(granted));
                }
                Effect::RefuseTurn { attempt_id, turn } => self.decide_turn(attempt_id, turn, None),
                Effect::Warn { attempt_id, limit } => {
                    if let Some((commands, span)) = self.attempts.commands(attempt_id) {
                        tracing::warn!(parent: &span, %limit, "a limit is almost reached");
                        commands.warn(limit);
                    }
                }
                Effect::LookUp(issue) => self.tasks.look_up(issue, &mut *self.effects),
                Effect::RemoveWorkspace(issue, cause) => {
                    self.retention.on_removal_started(cause == RemovalCause::Unlisted);
                    self.tasks.remove_workspace(issue, cause, &mut *self.effects);
                }
                Effect::RemoveExpired(expired, before) => {
                    self.retention.on_removal_started(true);
                    self.tasks.remove_expired(expired, before, &mut *self.effects);
                }
                Effect::CommandResult(number, result) => self.requests.respond(number, Ok(result)),
                Effect::Pull => self.pulls.request(self.now().mono),
                Effect::RunEvent(issue, event) => self.on_run_event(&issue, &event),
            }
        }
    }

    /// Delivers what follows a turn that has ended.
    fn decide_turn(&self, attempt_id: AttemptId, turn: u32, granted: Option<GrantedTurn>) {
        if let Some((commands, span)) = self.attempts.commands(attempt_id) {
            tracing::info!(parent: &span, turn, is_granted = granted.is_some(), "turn ended");
            commands.decide_turn(TurnDecision { turn, granted });
        }
    }

    /// Recovers the attempts of an earlier daemon before new decisions are made.
    fn recover_attempts(&mut self) {
        for start in self.attempts.take_inherited() {
            let span = attempt::span(&start);
            tracing::info!(parent: &span, "recovering an attempt of an earlier daemon");
            let since = self.since(&start).unwrap_or(self.lifecycle.started_at);
            self.run_attempt(Arc::new(start), since, true);
        }
        if let Some(workers) = self.workers.present() {
            self.handle(Input::Workers(workers));
        }
        self.handle(Input::MaxSessions(self.open_files.max_sessions()));
        self.warn_of_open_files();
        let workspaces = std::mem::take(&mut self.workspaces);
        self.handle(Input::Workspaces(workspaces));
    }

    /// Warns if the workflow in force allows more sessions than the limit on open files.
    pub(crate) fn warn_of_open_files(&mut self) {
        if let Some((problem, hint)) = self.open_files.problem(&self.workflow) {
            let text = format!("{problem}; {hint}");
            tracing::warn!("{text}");
            self.effects.publish(&Progress::Warning { text: &text });
        }
    }

    /// Returns when an attempt started.
    fn since(&self, start: &Start) -> Option<Timestamp> {
        let runs = self.scheduler.machine(&start.issue.id)?.runs();
        runs.iter().find_map(|run| match run.phase {
            Phase::Active {
                attempt_id, since, ..
            } if attempt_id == start.attempt_id => Some(since),
            _ => None,
        })
    }

    fn start(&mut self, start: Arc<Start>) {
        failpoint::reach("committed");
        if self.lifecycle.keeps_agents() {
            // Only the decision is on disk: the next daemon finds it and starts the attempt.
            return;
        }
        if self.lifecycle.stops_attempts() {
            let report = AttemptResult {
                reason: Some("Vik was stopped".to_owned()),
                ..AttemptResult::new(Outcome::Cancelled)
            };
            return self.handle(Input::Ended {
                issue: start.issue.id.clone(),
                attempt_id: start.attempt_id,
                report,
            });
        }
        let span = attempt::span(&start);
        tracing::info!(parent: &span, agent = %start.stage.agent, "attempt started");
        let since = self.now().wall;
        self.run_attempt(start, since, false);
    }

    /// Runs an attempt: a new one, or one that an earlier daemon started.
    fn run_attempt(&mut self, start: Arc<Start>, since: Timestamp, adopted: bool) {
        let workspaces = self.effects.workspaces();
        let log = workspaces.attempt_log(&start);
        let handle = workspaces.start(Arc::clone(&start));
        let live = handle.updates.live();
        self.effects.publish(&Progress::Started(&start, &live));
        let attempt = NewAttempt {
            start,
            since,
            adopted,
            log,
        };
        self.attempts.add(attempt, handle);
    }

    fn hand_over(&mut self, start: Arc<Start>) {
        let span = attempt::span(&start);
        tracing::info!(parent: &span, "handing over again");
        let workspaces = self.effects.workspaces();
        let handle = workspaces.hand_over(Arc::clone(&start));
        let log = workspaces.attempt_log(&start);
        let attempt = NewAttempt {
            start,
            since: self.now().wall,
            adopted: false,
            log,
        };
        self.attempts.add(attempt, handle);
    }

    /// Returns whether a pull may start.
    fn may_pull(&self) -> bool {
        let max = self.options.max_iterations.or(self.workflow.max_iterations);
        self.lifecycle.is_running() && self.pulls.has_pulls_left(max)
    }

    fn start_due_pull(&mut self) {
        let now = self.now().mono;
        if !self.may_pull() || self.pulls.due().is_none_or(|due| due > now) {
            return;
        }
        self.handle(Input::PullStarted);
        self.pulls.start(now, &mut *self.effects);
    }

    /// Returns the time until something is due without an event.
    fn next_wakeup(&self) -> Duration {
        let now = self.now();
        let pull = self.pulls.due().filter(|_| self.may_pull());
        let given_up = self.lifecycle.broken().map(|broken| broken.until);
        let waits = [pull, given_up, self.retention.due()]
            .into_iter()
            .flatten()
            .map(|due| now.mono.until(due));
        let first = now.mono.until(self.pressure.due());
        waits
            .chain(self.scheduler.next_wakeup(now))
            .fold(first, Duration::min)
    }

    fn is_finished(&self) -> bool {
        let now = self.now();
        if let Some(broken) = self.lifecycle.broken() {
            return self.attempts.is_empty() || now.mono >= broken.until;
        }
        if self.pulls.is_running()
            || !self.attempts.is_empty()
            || !self.tasks.is_empty()
            || !self.commits.is_settled()
        {
            return false;
        }
        if !self.may_pull() {
            return true;
        }
        if !self.options.once {
            return false;
        }
        let failed = self.pulls.counts().failed_in_a_row;
        if failed > 0 {
            // The waits up to the last try are short enough, unless the tracker asks for a long one.
            let longest = ONCE_LONGEST_WAIT.max(self.workflow.pull.idle.0 * 2);
            let next = self.pulls.next_after_failure();
            return failed >= ONCE_PULL_TRIES || next.is_some_and(|due| now.mono.until(due) > longest);
        }
        match self.scheduler.quiescence(now) {
            Quiescence::Running | Quiescence::NeedsPull => false,
            Quiescence::Idle => true,
            Quiescence::At(then) => now.mono.until(then) > ONCE_LONGEST_WAIT,
        }
    }

    fn close(mut self) -> RunSummary {
        let broken = self.lifecycle.take_failure();
        let summary = std::mem::take(&mut self.summary);
        summary.complete(
            broken,
            &FinalState {
                scheduler: &self.scheduler,
                filter: &self.options.filter,
                pulls: &self.pulls,
                started_at: self.lifecycle.started_at,
                now: self.now(),
            },
        )
    }
}
