//! The running attempts, and their updates.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};
use tracing::Span;
use vik_api::{SessionView, StoppingView, WaitsForView};
use vik_core::attempt::Start;
use vik_core::ids::AttemptId;
use vik_core::limits::Spend;
use vik_core::turn::TurnOfMax;
use vik_core::worker::WorkerName;
use vik_core::workflow::Workflow;
use vik_session::attempt::{
    self, AttemptHandle, AttemptUpdate, AttemptUpdates, CommandSender, Live, Steering, StopLevel,
};

use crate::effects::Task;

/// An answer that has paused for longer has no speed.
const MAX_SPEED_AGE: SignedDuration = SignedDuration::from_secs(5);

pub(crate) struct RunningAttempt {
    pub(crate) start: Arc<Start>,
    pub(crate) live: Live,
    pub(crate) commands: CommandSender,
    pub(crate) since: Timestamp,
    /// Whether an earlier daemon started the attempt.
    pub(crate) adopted: bool,
    /// What the attempt has spent so far.
    pub(crate) spent: Spend,
    /// The path of its session log.
    pub(crate) log: PathBuf,
}

impl RunningAttempt {
    fn view(&self, workflow: &Workflow) -> SessionView {
        let (start, facts) = (&self.start, self.live.get());
        let profile = workflow.agents.get(&start.stage.agent);
        let (steerable, not_steerable_because) = match facts.steering {
            None => (None, None),
            Some(Steering::Ready) => (Some("ready"), None),
            Some(Steering::NotYet) => (Some("not_yet"), None),
            Some(Steering::No { why }) => (Some("no"), Some(why)),
        };
        let now = Timestamp::now();
        let is_fresh = facts
            .last_event_at
            .is_some_and(|at| now.duration_since(at) < MAX_SPEED_AGE);
        SessionView {
            session_id: start.attempt_id.to_string(),
            issue_id: start.issue.id.clone(),
            issue_title: start.issue.title.to_string(),
            stage: start.stage.name.clone(),
            agent: start.stage.agent.clone(),
            model: profile.and_then(|profile| profile.model.clone()),
            worker: start.worker.clone(),
            attempt: start.attempt,
            turn: facts.turn.or_else(|| TurnOfMax::of(start)),
            phase: facts.phase.as_str().to_owned(),
            since: self.since,
            last_event_at: facts.last_event_at,
            activity: facts.activity,
            events: facts.events,
            usage: facts.usage,
            cost_usd: facts.cost_usd,
            charged: self.spent.into(),
            budget: start.budget.into(),
            adopted: self.adopted,
            resumed_from: start.resume.as_ref().map(|resume| resume.attempt_id.to_string()),
            waits_for: facts.waits_for.map(|waits| WaitsForView {
                kind: waits.kind.as_str().to_owned(),
                detail: waits.detail,
                since: waits.since,
            }),
            tokens_per_second: facts.tokens_per_second.filter(|_| is_fresh),
            context: facts.context,
            rate_limit: facts.rate_limit,
            stopping: facts.stopping.map(|stopping| {
                let (step, next_step_at) = stopping.step(now);
                StoppingView {
                    why: stopping.why,
                    step: step.as_str().to_owned(),
                    next_step_at,
                }
            }),
            log: self.log.clone(),
            steerable: steerable.map(str::to_owned),
            not_steerable_because,
        }
    }
}

/// An attempt that is about to run.
pub(crate) struct NewAttempt {
    pub(crate) start: Arc<Start>,
    pub(crate) since: Timestamp,
    pub(crate) adopted: bool,
    pub(crate) log: PathBuf,
}

/// An update, and the rest of them.
struct Received {
    attempt_id: AttemptId,
    update: AttemptUpdate,
    updates: AttemptUpdates,
}

#[derive(Default)]
pub(crate) struct Attempts {
    /// The attempts that an earlier daemon started, until they are recovered.
    inherited: Vec<Start>,
    running: HashMap<AttemptId, RunningAttempt>,
    /// One wait for each running attempt.
    updates: FuturesUnordered<Task<Received>>,
}

impl Attempts {
    pub(crate) fn new(inherited: Vec<Start>) -> Self {
        Self {
            inherited,
            ..Self::default()
        }
    }

    pub(crate) fn inherited(&self) -> &[Start] {
        &self.inherited
    }

    pub(crate) fn take_inherited(&mut self) -> Vec<Start> {
        std::mem::take(&mut self.inherited)
    }

    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RunningAttempt> {
        self.running.values()
    }

    /// Adds an attempt that was started or recovered.
    pub(crate) fn add(&mut self, attempt: NewAttempt, handle: AttemptHandle) {
        let NewAttempt {
            start,
            since,
            adopted,
            log,
        } = attempt;
        let attempt_id = start.attempt_id;
        let running = RunningAttempt {
            start,
            live: handle.updates.live(),
            commands: handle.commands,
            since,
            adopted,
            spent: Spend::default(),
            log,
        };
        self.running.insert(attempt_id, running);
        self.wait_for_update(attempt_id, handle.updates);
    }

    /// Removes an attempt, and returns its start.
    pub(crate) fn remove(&mut self, attempt_id: AttemptId) -> Option<Arc<Start>> {
        self.running.remove(&attempt_id).map(|running| running.start)
    }

    pub(crate) fn get(&self, attempt_id: AttemptId) -> Option<&RunningAttempt> {
        self.running.get(&attempt_id)
    }

    pub(crate) fn get_mut(&mut self, attempt_id: AttemptId) -> Option<&mut RunningAttempt> {
        self.running.get_mut(&attempt_id)
    }

    /// Returns the commands of an attempt, if it is running, and the span for the log lines about it.
    pub(crate) fn commands(&self, attempt_id: AttemptId) -> Option<(&CommandSender, Span)> {
        let running = self.running.get(&attempt_id)?;
        Some((&running.commands, attempt::span(&running.start)))
    }

    /// Returns the attempts for a status, oldest first.
    pub(crate) fn views(&self, workflow: &Workflow) -> Vec<SessionView> {
        let mut views: Vec<_> = self.iter().map(|running| running.view(workflow)).collect();
        views.sort_by(|a, b| (a.since, &a.session_id).cmp(&(b.since, &b.session_id)));
        views
    }

    /// Returns the number of attempts that a worker carries out.
    pub(crate) fn count_on(&self, worker: &WorkerName) -> u32 {
        let on_worker = self
            .iter()
            .filter(|running| running.start.worker.as_ref() == Some(worker));
        on_worker.count() as u32
    }

    pub(crate) fn stop_all(&self, level: StopLevel) {
        for running in self.iter() {
            running.commands.stop_with_daemon(level);
        }
    }

    /// Leaves all agents to their shims.
    pub(crate) fn detach_all(&self) {
        for running in self.iter() {
            running.commands.detach();
        }
    }

    /// Waits for the next update of any attempt; never returns if none is running. Cancelling the
    /// call loses nothing.
    pub(crate) async fn next(&mut self) -> (AttemptId, AttemptUpdate) {
        let Some(received) = self.updates.next().await else {
            return std::future::pending().await;
        };
        let Received {
            attempt_id,
            update,
            updates,
        } = received;
        if !matches!(update, AttemptUpdate::Finished(_)) {
            self.wait_for_update(attempt_id, updates);
        }
        (attempt_id, update)
    }

    fn wait_for_update(&mut self, attempt_id: AttemptId, mut updates: AttemptUpdates) {
        self.updates.push(Box::pin(async move {
            let update = updates.next().await;
            Received {
                attempt_id,
                update,
                updates,
            }
        }));
    }
}
