//! Charges what attempts spend to the attempt, the issue's life and the day, and enforces their
//! limits.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

use super::{Effect, Scheduler};
use crate::approval::Gate;
use crate::attempt::{AttemptResult, Start, StopReason};
use crate::decision_kind::DecisionKind;
use crate::ids::{AgentName, AttemptId, IssueId, StageName};
use crate::limits::{self, Charges, Limit, LimitHit, LimitScope, LimitUnit, Spend};
use crate::machine::IssueMachine;
use crate::outcome::{CostSource, Outcome};
use crate::scope::Scope;
use crate::time::Now;
use crate::worker::WorkerName;
use crate::workflow::Workflow;

/// The running attempts with their live spending, and the charges of each day.
#[derive(Clone, Debug, Default)]
pub(super) struct Spending {
    days: BTreeMap<Date, Charges>,
    running: BTreeMap<AttemptId, Running>,
}

#[derive(Clone, Debug)]
pub(super) struct Running {
    pub issue: IssueId,
    pub stage: StageName,
    pub agent: AgentName,
    pub scope: Option<Scope>,
    pub worker: Option<WorkerName>,
    /// The gate at which it waits for a person.
    pub pending_gate: Option<Gate>,
    spent: Spend,
    warned: Vec<(LimitScope, LimitUnit)>,
}

impl Spending {
    pub(super) fn restore(&mut self, days: Vec<(Date, Charges)>) {
        for (day, spend) in days {
            let total = self.days.entry(day).or_default();
            *total = total.max(spend);
        }
    }

    pub(super) fn track(&mut self, start: &Start) {
        let running = Running {
            issue: start.issue.id.clone(),
            stage: start.stage.name.clone(),
            agent: start.stage.agent.clone(),
            scope: start.intent.scope.clone(),
            worker: start.worker.clone(),
            pending_gate: None,
            spent: Spend::default(),
            warned: Vec::new(),
        };
        self.running.insert(start.attempt_id, running);
    }

    /// Records that an attempt waits for a person, or no longer does.
    pub(super) fn set_pending_gate(&mut self, attempt_id: AttemptId, gate: Option<Gate>) {
        if let Some(running) = self.running.get_mut(&attempt_id) {
            running.pending_gate = gate;
        }
    }

    /// Returns the active attempts.
    pub(super) fn running(&self) -> impl Iterator<Item = &Running> {
        self.running.values()
    }

    /// Charges an ended attempt to the day. The charge is never less than the live spending, which
    /// becomes part of the report: after a restart the ledger knows from it which part of the charge
    /// is an estimate.
    pub(super) fn charge(
        &mut self,
        attempt_id: AttemptId,
        report: &mut AttemptResult,
        estimate: Spend,
        now: Now,
    ) -> (Charges, CostSource) {
        let running = self.running.remove(&attempt_id);
        let reported_live = running.map(|running| running.spent).unwrap_or_default();
        report.spend = match report.spend {
            Some(spend) => Some(spend.max(reported_live)),
            None => Some(reported_live).filter(|reported_live| *reported_live != Spend::default()),
        };
        let (total, source) = report.charge(report.spend, estimate);
        let charged = Charges {
            total,
            estimated: limits::estimated(report.spend, total, source),
        };
        let day = self.days.entry(date(now)).or_default();
        *day = day.plus(charged);
        (charged, source)
    }

    /// Returns the spending of today, with the live spending of active attempts.
    fn today(&self, now: Now) -> Spend {
        let charged = self.days.get(&date(now)).copied().unwrap_or_default();
        self.running
            .values()
            .fold(charged.total, |sum, running| sum.plus(running.spent))
    }

    /// Returns the live spending of the active attempts of an issue.
    pub(super) fn live(&self, machine: &IssueMachine) -> Spend {
        let active = machine.runs().iter().filter_map(|run| run.active());
        active
            .filter_map(|start| self.running.get(&start.attempt_id))
            .fold(Spend::default(), |sum, running| sum.plus(running.spent))
    }

    /// Returns the usage of all limits that apply to an attempt. `ended` is the charge of an
    /// attempt that is no longer active and not yet part of the issue's life.
    pub(super) fn limits(
        &self,
        workflow: &Workflow,
        machine: &IssueMachine,
        start: &Start,
        ended: Spend,
        now: Now,
    ) -> Vec<LimitHit> {
        let spent = self
            .running
            .get(&start.attempt_id)
            .map_or(ended, |running| running.spent);
        let life = machine.life();
        let lived = life.spend.plus(self.live(machine)).plus(ended);
        let attempt = start.stage.limit.hits(LimitScope::Attempt, spent);
        let issue = life.limit(&workflow.issue).hits(LimitScope::Issue, lived);
        let day = workflow.day_limit;
        let today = if day == Limit::default() {
            Spend::default()
        } else {
            self.today(now)
        };
        attempt
            .chain(issue)
            .chain(day.hits(LimitScope::Day, today))
            .collect()
    }

    /// Returns how much an attempt that starts now may spend.
    pub(super) fn budget(
        &self,
        workflow: &Workflow,
        machine: &IssueMachine,
        limit: Limit,
        now: Now,
    ) -> Limit {
        let life = machine.life();
        let issue = life
            .limit(&workflow.issue)
            .left(life.spend.plus(self.live(machine)));
        limit.and(issue).and(workflow.day_limit.left(self.today(now)))
    }
}

impl Scheduler {
    /// Updates the live spending of an attempt.
    pub(super) fn on_spend(&mut self, issue: &IssueId, attempt_id: AttemptId, spend: Spend, now: Now) {
        let running = self.spending.running.get_mut(&attempt_id);
        let Some(running) = running.filter(|running| running.issue == *issue) else {
            return;
        };
        // An outdated report: the attempt has already reported more.
        if running.spent.max(spend) == running.spent {
            return;
        }
        running.spent = running.spent.max(spend);
        if self
            .enforce(attempt_id, now)
            .is_some_and(|scope| scope != LimitScope::Attempt)
        {
            self.enforce_all(now);
        }
    }

    /// Enforces the limits of all active attempts, because a charge to the day or an issue counts
    /// for all of them.
    pub(super) fn enforce_all(&mut self, now: Now) {
        let attempt_ids: Vec<_> = self.spending.running.keys().copied().collect();
        for attempt_id in attempt_ids {
            self.enforce(attempt_id, now);
        }
    }

    /// Warns of limits that are near, and stops the attempt at a limit that is reached. Returns the
    /// scope of that limit.
    fn enforce(&mut self, attempt_id: AttemptId, now: Now) -> Option<LimitScope> {
        let issue = self.spending.running.get(&attempt_id)?.issue.clone();
        let machine = self.machines.get(&issue)?;
        let (start, _, _) = machine.active(attempt_id)?;
        let start = start.clone();
        let hits = self
            .spending
            .limits(&self.workflow, machine, &start, Spend::default(), now);
        if let Some(hit) = hits.iter().find(|hit| hit.is_reached()) {
            self.stop(&issue, attempt_id, StopReason::OverBudget(*hit), now);
            return Some(hit.scope);
        }
        for hit in hits.into_iter().filter(LimitHit::is_near) {
            self.warn(&start, hit, now);
        }
        None
    }

    pub(super) fn warn(&mut self, start: &Start, limit: LimitHit, now: Now) {
        let Some(running) = self.spending.running.get_mut(&start.attempt_id) else {
            return;
        };
        let of = (limit.scope, limit.unit);
        if running.warned.contains(&of) {
            return;
        }
        running.warned.push(of);
        self.decide(now, DecisionKind::LimitNear, start, limit.to_string());
        self.effects.push(Effect::Warn {
            attempt_id: start.attempt_id,
            limit,
        });
    }

    /// Records the total of the day in the changes.
    pub(super) fn record_day_total(&mut self, now: Now) {
        let day = date(now);
        let total = self.spending.days.get(&day).copied().unwrap_or_default();
        self.changes.days.retain(|(other, _)| *other != day);
        self.changes.days.push((day, total));
    }

    /// Returns the day's limit if it is used up, and the start of the next day.
    pub(super) fn day_hold(&self, now: Now) -> Option<(LimitHit, Timestamp)> {
        if self.workflow.day_limit == Limit::default() {
            return None;
        }
        let spent = self.spending.today(now);
        let hit = self.workflow.day_limit.reached(LimitScope::Day, spent)?;
        Some((hit, next_day(now)))
    }

    /// Returns the estimated part of today's spending.
    pub fn estimated_today(&self, now: Now) -> Spend {
        let day = self.spending.days.get(&date(now)).copied();
        day.unwrap_or_default().estimated
    }

    /// Returns today's spending of ended and of active attempts.
    pub fn spent_today(&self, now: Now) -> Spend {
        self.spending.today(now)
    }
}

/// Returns the stop reason that counts for the end of an attempt.
pub(super) fn effective_stop_reason(
    report: &AttemptResult,
    stopping: Option<StopReason>,
    limits: Vec<LimitHit>,
) -> Option<StopReason> {
    match (report.outcome, stopping) {
        // A cancellation by a person counts for every outcome.
        (_, Some(StopReason::Cancelled)) => Some(StopReason::Cancelled),
        (Outcome::Cancelled | Outcome::OverBudget, Some(why @ StopReason::OverBudget(_))) => Some(why),
        (Outcome::Cancelled, why) => why,
        // The agent enforced the limit itself: assume the limit that is nearest.
        (Outcome::OverBudget, _) => {
            let mut nearest: Option<LimitHit> = None;
            for hit in limits {
                if nearest.is_none_or(|nearest| hit.percent() > nearest.percent()) {
                    nearest = Some(hit);
                }
            }
            let unknown = LimitHit {
                scope: LimitScope::Attempt,
                unit: LimitUnit::Usd,
                spent: 0,
                limit: 0,
            };
            Some(StopReason::OverBudget(nearest.unwrap_or(unknown)))
        }
        _ => None,
    }
}

/// Returns the day (UTC) that is charged.
pub(super) fn date(now: Now) -> Date {
    Offset::UTC.to_datetime(now.wall).date()
}

fn next_day(now: Now) -> Timestamp {
    let turn = date(now)
        .tomorrow()
        .map(|day| day.to_datetime(Default::default()));
    turn.and_then(|turn| Offset::UTC.to_timestamp(turn))
        .unwrap_or(Timestamp::MAX)
}
