//! Decides which stages start, and what holds the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::lookups::PlannedStart;
use super::scopes::OwnedScopes;
use super::spending::Spending;
use super::workers::WorkerLoad;
use super::{Effect, Filter, Hold, Scheduler};
use crate::approval::Gate;
use crate::ids::{AgentName, IssueId, StageName};
use crate::issue::Issue;
use crate::limits::{LimitHit, LimitScope, LimitUnit};
use crate::machine::{IssueMachine, NewAttempt, ParkReason, Run};
use crate::scope::Scope;
use crate::time::Now;
use crate::trust::Trust;
use crate::worker::WorkerName;
use crate::workflow::{ScopeConflicts, Stage, Workflow};

/// The slots in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    issues: HashSet<IssueId>,
    agents: HashMap<AgentName, u32>,
    stages: HashMap<StageName, u32>,
    /// The attempts that have files open.
    sessions: u32,
    pub(super) workers: WorkerLoad,
    pub(super) owned: OwnedScopes,
}

impl Slots {
    fn take(&mut self, issue: &IssueId, stage: &StageName, agent: &AgentName, scope: Option<&Scope>) {
        self.owned.start(issue, scope);
        self.issues.insert(issue.clone());
        *self.agents.entry(agent.clone()).or_default() += 1;
        *self.stages.entry(stage.clone()).or_default() += 1;
        self.sessions += 1;
    }
}

impl Scheduler {
    /// Returns the slots of running attempts, of attempts that are about to start, and of issues
    /// whose next state is not known yet.
    pub(super) fn slots(&self) -> Slots {
        let mut slots = Slots::default();
        slots.issues.extend(self.moving_on.keys().cloned());
        for running in self.spending.running() {
            slots.workers.take(running.worker.as_ref());
            // An attempt whose finished work waits for a person has no agent, so its slot is free.
            if running.pending_gate == Some(Gate::After) {
                slots.sessions += 1;
                continue;
            }
            let scope = running.scope.as_ref();
            let scope = scope.filter(|_| self.workflow.issue.scope_conflicts == ScopeConflicts::Serialize);
            slots.take(&running.issue, &running.stage, &running.agent, scope);
        }
        for (issue, planned) in self.lookups.starting() {
            if let Some(stage) = self.workflow.stage(&planned.stage) {
                let scope = self
                    .machines
                    .get(issue)
                    .and_then(|machine| self.scope(machine, stage));
                slots.take(issue, &stage.name, &stage.agent, scope.as_ref());
                slots.workers.take(planned.worker.as_ref());
            }
        }
        slots
    }

    /// Returns the hold on all issues.
    pub fn global_hold(&self, now: Now) -> Option<Hold> {
        if self.draining {
            return Some(Hold::Draining);
        }
        if self.paused {
            return Some(Hold::Paused { all: true });
        }
        if let Some((limit, until)) = self.day_hold(now) {
            return Some(Hold::DayLimit { limit, until });
        }
        let why = Arc::clone(self.pressure.as_ref()?);
        Some(Hold::Pressure { why })
    }

    /// Returns the hold on an issue that applies to all its stages.
    pub(super) fn issue_start_hold(&self, machine: &IssueMachine) -> Option<Hold> {
        let id = &machine.issue().id;
        if let Some(hold) = taken_over(machine) {
            return Some(hold);
        }
        if machine.is_paused() {
            return Some(Hold::Paused { all: false });
        }
        if self.workspaces.is_removing_of(id) {
            return Some(Hold::Removing);
        }
        if let Some(hold) = self.blockers.hold(id) {
            return Some(hold.clone());
        }
        if let Some(hold) = self.untrusted(machine) {
            return Some(hold);
        }
        if self.lookups.is_starting(id) {
            return Some(Hold::LookupPending);
        }
        self.lookups.has_failed(id).then_some(Hold::LookupFailed)
    }

    /// Returns the hold on every stage of an issue while `max_issue_concurrency` or the number of
    /// sessions is reached. An issue that already has a slot may start another stage beside the
    /// running one, which is one more session.
    pub(super) fn slot_hold(&self, issue: &IssueId, slots: &Slots) -> Option<Hold> {
        let most = self.workflow.max_issue_concurrency as usize;
        if slots.issues.len() >= most && !slots.issues.contains(issue) {
            return Some(Hold::Slot);
        }
        let max_sessions = self.max_sessions.filter(|most| slots.sessions >= *most)?;
        Some(Hold::OpenFiles { max_sessions })
    }

    /// Returns the worker of an attempt of a stage that is due; `None` for this machine.
    ///
    /// # Errors
    ///
    /// Returns the hold if no attempt may start.
    pub(super) fn worker_to_start(
        &self,
        machine: &IssueMachine,
        stage: &Stage,
        slots: &Slots,
    ) -> Result<Option<WorkerName>, Hold> {
        let held = self.issue_start_hold(machine);
        if let Some(hold) = held.or_else(|| self.bad_intent(machine, stage)) {
            return Err(hold);
        }
        let count = |taken: Option<&u32>| taken.copied().unwrap_or_default();
        let agent = self.workflow.agents.get(&stage.agent);
        let most = agent.and_then(|agent| agent.max_concurrency);
        if most.is_some_and(|most| count(slots.agents.get(&stage.agent)) >= most) {
            return Err(Hold::AgentSlot {
                agent: stage.agent.clone(),
            });
        }
        let most = stage.max_concurrency;
        if most.is_some_and(|most| count(slots.stages.get(&stage.name)) >= most) {
            return Err(Hold::StageSlot);
        }
        let held = self.slot_hold(&machine.issue().id, slots);
        match held.or_else(|| self.scope_conflict(machine, stage, slots)) {
            Some(hold) => Err(hold),
            None => self.place(machine, stage, slots),
        }
    }

    /// Returns the stage of an issue that is due and that neither its issue nor its intent holds.
    pub(super) fn due<'w>(&'w self, machine: &IssueMachine, now: Now) -> Option<&'w Stage> {
        due(&self.workflow, &self.filter, &self.spending, machine, now).filter(|stage| {
            self.issue_start_hold(machine).is_none() && self.bad_intent(machine, stage).is_none()
        })
    }

    /// Starts the stages that may start, in order.
    pub(super) fn dispatch(&mut self, now: Now) {
        if !self.has_pulled || self.global_hold(now).is_some() {
            return;
        }
        let mut slots = self.slots();
        let order = std::mem::take(&mut self.order);
        for id in &order {
            if self.slot_hold(id, &slots).is_some() {
                continue;
            }
            if self.all_workers_full(&slots) {
                break;
            }
            while self.start_next(id, &mut slots, false, now) {}
        }
        self.order = order;
    }

    /// Starts an issue after the lookup before its start has succeeded.
    pub(super) fn start_after_lookup(&mut self, issue: &IssueId, now: Now) {
        if self.global_hold(now).is_none() && self.order.contains(issue) {
            let mut slots = self.slots();
            self.start_next(issue, &mut slots, true, now);
        }
    }

    /// Performs the next step of an issue: starts its next stage, requests the lookup before it, or
    /// parks the stage when a limit of the issue's lifetime is reached. Returns false if there is
    /// nothing more to do now.
    fn start_next(&mut self, id: &IssueId, slots: &mut Slots, was_looked_up: bool, now: Now) -> bool {
        let workflow = Arc::clone(&self.workflow);
        let Some(machine) = self.machines.get(id) else {
            return false;
        };
        let Some(stage) = due(&workflow, &self.filter, &self.spending, machine, now) else {
            return false;
        };
        let worker = match self.worker_to_start(machine, stage, slots) {
            Ok(worker) => worker,
            Err(hold) => {
                self.reserve_scope(machine, stage, &hold, slots);
                return false;
            }
        };
        if let Some(reason) = used_up(machine, stage, &workflow) {
            self.park_due(id, stage, reason, now);
            return true;
        }
        // The stage became due only now, or the lookup returned a changed text.
        if machine.needs_approval(stage) {
            return self.request_next_approval(id, now);
        }
        let scope = self.scope(machine, stage);
        slots.take(id, &stage.name, &stage.agent, scope.as_ref());
        slots.workers.take(worker.as_ref());
        if !was_looked_up {
            let planned = PlannedStart {
                stage: stage.name.clone(),
                worker: worker.clone(),
            };
            if self.request_lookup(id, Some(planned), now) {
                return false;
            }
        }
        self.start(id, stage, worker.as_ref(), slots, now);
        true
    }

    fn park_due(&mut self, id: &IssueId, stage: &Stage, reason: ParkReason, now: Now) {
        let run = self.ids.run(now);
        if let Some(machine) = self.machines.get_mut(id) {
            let policy = &self.workflow.issue;
            let used_up = machine
                .life()
                .used_up(policy)
                .or_else(|| machine.rounds_used_up(stage, policy));
            let event = machine.park((&stage.name, stage.when.first_state()), run, reason, used_up, now);
            self.changed.insert(id.clone());
            self.record_event(id, event, now);
        }
    }

    /// Starts a stage whose slots are already taken.
    fn start(&mut self, id: &IssueId, stage: &Stage, worker: Option<&WorkerName>, slots: &Slots, now: Now) {
        let workflow = Arc::clone(&self.workflow);
        let fenced = self
            .machines
            .get(id)
            .is_some_and(|machine| self.trust(machine) == Trust::Fenced);
        let Some(machine) = self.machines.get_mut(id) else {
            return;
        };
        let budget = self.spending.budget(&workflow, machine, stage.limit, now);
        let attempt = NewAttempt {
            stage,
            new_run: self.ids.run(now),
            attempt_id: self.ids.attempt(now),
            budget,
            fenced,
            agent: workflow.agents.get(&stage.agent),
            worker,
            trust: workflow.trust.as_ref(),
        };
        let has_workspace = worker.is_some() && machine.worker() == worker;
        let is_under_way = machine.is_under_way();
        let follow_up = machine
            .starts_round(stage)
            .then(|| machine.follow_up(stage, workflow.trust.as_ref()));
        let start = machine.start(attempt, now);
        let round = follow_up.map_or_else(String::new, |reason| {
            let (rounds, allowed) = (
                machine.life().rounds,
                machine.life().allowed_rounds(&workflow.issue),
            );
            format!(", round {rounds} of {allowed}{}", reason.describe())
        });
        let (attempts, allowed) = (
            machine.life().attempts + 1,
            machine.life().allowed(&workflow.issue),
        );
        let most = machine.run(&stage.name).map_or(1, |run| run.allowed(stage));
        self.spending.track(&start);
        self.workspaces.mark_used(id);
        let why = format!(
            "attempt {} of {most}{round}{}, slot {} of {}, {}{}",
            start.attempt,
            if start.resume.is_some() {
                ", resumes the previous conversation"
            } else {
                ""
            },
            slots.issues.len(),
            workflow.max_issue_concurrency,
            rank(&start.issue, is_under_way),
            match worker {
                Some(worker) if has_workspace =>
                    format!(", on the worker `{worker}`, which has the workspace"),
                Some(worker) => format!(", on the worker `{worker}`"),
                None => String::new(),
            }
        );
        self.record_start(&start, why, now);
        self.effects.push(Effect::Start(Box::new(start.clone())));
        let hit = LimitHit {
            scope: LimitScope::Issue,
            unit: LimitUnit::Attempts,
            spent: attempts.into(),
            limit: allowed.into(),
        };
        if hit.is_near() && allowed > 1 {
            self.warn(&start, hit, now);
        }
    }

    /// Returns the stages that would start now without limits on concurrency, for `--dry-run`.
    pub fn candidates(&self, now: Now) -> Vec<(&Issue, &Stage)> {
        self.order
            .iter()
            .filter_map(|id| {
                let machine = self.machines.get(id)?;
                Some((machine.issue(), self.due(machine, now)?))
            })
            .collect()
    }
}

/// Returns why a stage that is due has no attempt left: its run has none because an edit of the
/// workflow lowered the number, too many attempts in a row failed because of Vik itself or lost their
/// worker, each in another run, or the issue's lifetime limit is reached.
pub(super) fn used_up(machine: &IssueMachine, stage: &Stage, workflow: &Workflow) -> Option<ParkReason> {
    let run = machine.run(&stage.name);
    if let Some(run) = run.filter(|run| run.attempts >= run.allowed(stage)) {
        return Some(run.exhausted_reason());
    }
    if machine.fails_internally(&stage.name) {
        return Some(ParkReason::Internal);
    }
    if machine.loses_workers() {
        return Some(ParkReason::Lost);
    }
    let policy = &workflow.issue;
    let hit = machine.life().used_up(policy);
    let hit = hit.or_else(|| machine.rounds_used_up(stage, policy));
    hit.map(|_| ParkReason::IssueLimit)
}

/// Returns the stage of an issue that may start now as soon as slots are free.
pub(super) fn due<'w>(
    workflow: &'w Workflow,
    filter: &Filter,
    spending: &Spending,
    machine: &IssueMachine,
    now: Now,
) -> Option<&'w Stage> {
    let id = &machine.issue().id;
    let stage = machine.candidate(workflow, now, |stage: &StageName| filter.allows(id, stage))?;
    let active = machine.runs().iter().filter_map(Run::active).count();
    if active == 0 {
        return Some(stage);
    }
    // Running attempts may use up what is left of the limits, so another stage needs a surplus.
    let (life, policy) = (machine.life(), &workflow.issue);
    let spent = life.spend.plus(spending.live(machine));
    let is_left = life.attempts as usize + active < life.allowed(policy) as usize
        && life.limit(policy).reached(LimitScope::Issue, spent).is_none();
    is_left.then_some(stage)
}

/// Returns the hold of the person who has taken the issue over.
pub(super) fn taken_over(machine: &IssueMachine) -> Option<Hold> {
    let hold = machine.taken_over()?;
    Some(Hold::TakenOver {
        by: hold.by.clone(),
        since: hold.since,
    })
}

/// Returns the reason for the position of an issue in the queue.
fn rank(issue: &Issue, is_under_way: bool) -> String {
    let rank = match (issue.priority_milli, issue.created_at) {
        (Some(milli), _) => format!("priority {}", milli as f64 / 1000.0),
        (None, Some(created)) => format!("no priority, created at {created}"),
        (None, None) => "in pull order".to_owned(),
    };
    if is_under_way {
        format!("under way, {rank}")
    } else {
        rank
    }
}
