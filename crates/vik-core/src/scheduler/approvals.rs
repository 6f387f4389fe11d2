//! Approvals: the requests that wait for a person, and the answers.

use std::sync::Arc;

use super::taken_over::HELD;
use super::{Actor, ApprovalReply, CommandResult, Effect, Scheduler};
use crate::approval::{self, Request, TIME_LIMIT};
use crate::ids::{AttemptId, IssueId, StageName};
use crate::machine::{Answered, Observation, Phase, Run, RunEvent};
use crate::time::Now;
use crate::workflow::Stage;

/// A request of an issue that waits for a person.
#[derive(Clone, Copy, Debug)]
pub struct PendingApproval<'a> {
    pub issue: &'a IssueId,
    pub run: &'a Run,
    pub request: &'a Request,
}

impl Scheduler {
    /// Returns the requests that wait for a person, oldest first.
    pub fn pending_approvals(&self) -> Vec<PendingApproval<'_>> {
        let mut awaited: Vec<_> = self
            .runs()
            .filter_map(|(issue, run)| {
                let request = run.request()?;
                Some(PendingApproval { issue, run, request })
            })
            .collect();
        awaited.sort_by(|a, b| (a.request.since, a.issue).cmp(&(b.request.since, b.issue)));
        awaited
    }

    /// Records that an attempt waits for a person, or no longer does.
    pub(super) fn on_approval_pending(
        &mut self,
        issue: &IssueId,
        attempt_id: AttemptId,
        request: Option<Request>,
        now: Now,
    ) {
        let gate = request.as_ref().map(|request| request.gate);
        self.spending.set_pending_gate(attempt_id, gate);
        if let Some(machine) = self.machines.get_mut(issue) {
            let events = machine.set_approval_request(attempt_id, request);
            let observed = Observation {
                events: events.into_iter().collect(),
                changed: true,
            };
            self.record(issue, observed, now);
        }
    }

    /// Requests approval for every due stage that needs it, whether or not a slot is free.
    pub(super) fn request_due_approvals(&mut self, now: Now) {
        let workflow = Arc::clone(&self.workflow);
        if !self.has_pulled
            || self.global_hold(now).is_some()
            || !workflow.issue.stages.iter().any(Stage::asks_before)
        {
            return;
        }
        let order = std::mem::take(&mut self.order);
        for id in &order {
            // Every request can make the next stage of the issue due.
            while self.request_next_approval(id, now) {}
        }
        self.order = order;
    }

    /// Requests approval for the next stage of an issue where the stage needs it. Returns whether a
    /// request was made.
    pub(super) fn request_next_approval(&mut self, id: &IssueId, now: Now) -> bool {
        let workflow = Arc::clone(&self.workflow);
        let Some(machine) = self.machines.get(id) else {
            return false;
        };
        let due = super::dispatch::due(&workflow, &self.filter, &self.spending, machine, now);
        let Some(stage) = due.filter(|stage| machine.needs_approval(stage)) else {
            return false;
        };
        // A stage that cannot start anyway, or has no attempt left, needs no approval.
        let held = self
            .issue_start_hold(machine)
            .or_else(|| self.bad_intent(machine, stage));
        if held.is_some() || super::dispatch::used_up(machine, stage, &workflow).is_some() {
            return false;
        }
        let run = self.ids.run(now);
        let event = self
            .machines
            .get_mut(id)
            .and_then(|machine| machine.request_approval(stage, run, now));
        let asked = event.is_some();
        self.record(id, Observation::of(event), now);
        asked
    }

    /// Applies the default answers that are due.
    pub(super) fn apply_default_answers(&mut self, now: Now) {
        if self.wake.is_none_or(|wake| wake > now.mono) {
            return;
        }
        let mut overdue: Vec<(IssueId, StageName, approval::Answer)> = Vec::new();
        for (id, machine) in &self.machines {
            let answers = machine.overdue(now);
            overdue.extend(answers.map(|(stage, answer)| (id.clone(), stage.clone(), answer)));
        }
        overdue.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        for (id, stage, answer) in overdue {
            self.answer_start(&id, &stage, answer, TIME_LIMIT, now);
        }
    }

    /// Releases the runs that wait for an approval which the edited workflow no longer requires.
    pub(super) fn release_unneeded_approvals(&mut self, now: Now) {
        let workflow = Arc::clone(&self.workflow);
        let asks = |stage: &StageName| {
            let stage = workflow.stage(stage);
            // A removed stage starts nothing; its run ends with the next pull.
            stage.is_none_or(Stage::asks_before)
        };
        for (id, machine) in &mut self.machines {
            if machine.release_unneeded_approvals(asks, now) {
                self.changed.insert(id.clone());
            }
        }
    }

    fn answer_start(
        &mut self,
        id: &IssueId,
        stage: &StageName,
        answer: approval::Answer,
        by: &str,
        now: Now,
    ) {
        if let Some(machine) = self.machines.get_mut(id) {
            let when_state = self.workflow.stage(stage).map(|stage| stage.when.first_state());
            let events = machine.answer(stage, when_state, answer, by, now);
            self.record(id, Observation::of(events), now);
        }
    }

    pub(super) fn answer(&mut self, reply: ApprovalReply, by: &Actor, now: Now) -> CommandResult {
        let ApprovalReply {
            issue,
            stage,
            request,
            answer,
        } = reply;
        let Some(machine) = self.machines.get(&issue) else {
            return CommandResult::UnknownIssue;
        };
        if let Some(unknown) = self.unknown_stage(machine, stage.as_ref()) {
            return unknown;
        }
        let waiting: Vec<_> = machine
            .runs()
            .iter()
            .filter(|run| stage.as_ref().is_none_or(|stage| run.stage == *stage))
            .filter_map(|run| Some((run, run.request()?)))
            .collect();
        let meant: Vec<_> = waiting
            .iter()
            .filter(|(_, waits)| request.as_ref().is_none_or(|id| *id == waits.id))
            .collect();
        let (run, asked) = match (meant.as_slice(), waiting.as_slice()) {
            (&[&(run, asked)], _) => (run, asked.clone()),
            ([], []) => return CommandResult::NoEffect("the issue has no pending approval"),
            ([], _) => {
                return CommandResult::NoEffect(
                    "the pending request is not the one that you named; check it again",
                );
            }
            _ => {
                return CommandResult::NoEffect(
                    "several stages have a pending request; name one with --stage",
                );
            }
        };
        // An attempt that may end first still needs its answers.
        if machine.taken_over().is_some() && run.active().is_none() {
            return CommandResult::NoEffect(HELD);
        }
        let (stage, by) = (run.stage.clone(), by.to_string());
        match &run.phase {
            Phase::Active { attempt_id, .. } => {
                let (attempt_id, request) = (*attempt_id, asked.id.clone());
                let event = RunEvent::Answered {
                    run: run.id,
                    stage,
                    request: Box::new(asked),
                    answer: answer.clone(),
                    by: by.clone(),
                };
                self.record_event(&issue, event, now);
                let answered = Answered { request, answer, by };
                if let Some(machine) = self.machines.get_mut(&issue) {
                    machine.record_answer(attempt_id, answered.clone());
                    self.changed.insert(issue);
                }
                self.effects.push(Effect::DeliverAnswer { attempt_id, answered });
            }
            _ => self.answer_start(&issue, &stage, answer, &by, now),
        }
        CommandResult::Done(1)
    }
}
