//! Commands of a person.

use super::taken_over::HELD;
use super::{Actor, Command, CommandResult, DecisionSubject, Effect, RetryRequest, Scheduler};
use crate::attempt::StopReason;
use crate::decision_kind::DecisionKind;
use crate::ids::{IssueId, StageName};
use crate::machine::{IssueMachine, Observation, ParkReason, Phase, Run, RunEvent};
use crate::plural;
use crate::time::Now;

impl Scheduler {
    pub(super) fn on_command(&mut self, number: u64, ask: Command, by: &Actor, now: Now) {
        let answer = match ask {
            Command::Pause(issue) => self.pause(issue.as_ref(), true, by, now),
            Command::Resume(issue) => self.pause(issue.as_ref(), false, by, now),
            Command::Cancel(issue) => self.cancel(&issue, by, now),
            Command::Retry(request) => self.retry(&request, by, now),
            Command::Answer(reply) => self.answer(reply, by, now),
            Command::AnswerQuestion(answer) => self.answer_question(answer, by, now),
            Command::SendMessage(message) => self.send_message(message, by, now),
            Command::WithdrawMessage(withdrawal) => self.withdraw_message(&withdrawal, by, now),
            Command::TakeOver(request) => self.take_over(request, by, now),
            Command::HandBack(request) => self.hand_back(request, by, now),
            Command::Drain => {
                self.draining = true;
                let detail = format!("drained by {by}");
                self.decide(now, DecisionKind::Drain, DecisionSubject::default(), detail);
                CommandResult::Done(self.spending.running().count())
            }
        };
        self.effects.push(Effect::CommandResult(number, answer));
    }

    fn pause(&mut self, issue: Option<&IssueId>, paused: bool, by: &Actor, now: Now) -> CommandResult {
        let (kind, detail, same) = if paused {
            (
                DecisionKind::Pause,
                format!("paused by {by}"),
                "it is already paused",
            )
        } else {
            (
                DecisionKind::Resume,
                format!("resumed by {by}"),
                "it is not paused",
            )
        };
        let did = match issue {
            None => std::mem::replace(&mut self.paused, paused) != paused,
            Some(id) => match self.machines.get_mut(id) {
                None => return CommandResult::UnknownIssue,
                Some(machine) => machine.pause(paused),
            },
        };
        if !did {
            return CommandResult::NoEffect(same);
        }
        match issue {
            None => self.changes.paused = Some(paused),
            Some(id) => drop(self.changed.insert(id.clone())),
        }
        let about = DecisionSubject {
            issue,
            ..DecisionSubject::default()
        };
        self.decide(now, kind, about, detail);
        CommandResult::Done(1)
    }

    /// Stops the running attempts of an issue, and parks the stages that would start.
    fn cancel(&mut self, issue: &IssueId, by: &Actor, now: Now) -> CommandResult {
        if !self.machines.contains_key(issue) {
            return CommandResult::UnknownIssue;
        }
        self.lookups.cancel_start(issue);
        let attempt_ids = self.active_attempts(issue);
        for attempt_id in &attempt_ids {
            self.stop(issue, *attempt_id, StopReason::Cancelled, now);
        }
        let hand_overs = self.cancel_hand_overs(issue);
        let stages = self.workflow.issue.stages.clone();
        let mut events = Vec::new();
        if let Some(machine) = self.machines.get_mut(issue) {
            let runs = machine.runs().iter();
            let mut waiting: Vec<_> = runs
                .filter(|run| !run.is_busy() && run.park_reason().is_none())
                .map(|run| run.stage.clone())
                .collect();
            let is_due = machine.is_present() && !self.workflow.is_terminal(&machine.issue().state);
            for stage in stages {
                if is_due && machine.issue().is_taken_by(&stage.when) && machine.run(&stage.name).is_none() {
                    waiting.push(stage.name);
                }
            }
            for stage in waiting {
                let state = self
                    .workflow
                    .stage(&stage)
                    .map(|stage| stage.when.first_state().to_owned());
                let state = state.unwrap_or_else(|| machine.issue().state.to_string());
                let run = self.ids.run(now);
                events.push(machine.park((&stage, &state), run, ParkReason::Cancelled, None, now));
            }
        }
        let count = attempt_ids.len() + hand_overs + events.len();
        let changed = count > 0;
        if !changed {
            return CommandResult::NoEffect("the issue has no running or waiting attempt");
        }
        let detail = format!("cancelled by {by}");
        self.decide(now, DecisionKind::Cancel, issue, detail);
        self.record(issue, Observation { events, changed }, now);
        CommandResult::Done(count)
    }

    /// Returns the result of a command that names a stage which does not exist. A run can outlive its
    /// stage, which an edit of the workflow removed.
    pub(super) fn unknown_stage(
        &self,
        machine: &IssueMachine,
        stage: Option<&StageName>,
    ) -> Option<CommandResult> {
        let is_unknown =
            |stage: &&StageName| self.workflow.stage(stage).is_none() && machine.run(stage).is_none();
        let unknown = stage.filter(is_unknown)?;
        Some(CommandResult::UnknownStage {
            stage: unknown.clone(),
            known: self.workflow.stage_names().cloned().collect(),
        })
    }

    /// Frees the parked stages of an issue, or one of them.
    fn retry(&mut self, request: &RetryRequest, by: &Actor, now: Now) -> CommandResult {
        let RetryRequest {
            issue,
            stage,
            attempts,
            agent,
        } = request;
        let Some(machine) = self.machines.get(issue) else {
            return CommandResult::UnknownIssue;
        };
        if let Some(unknown) = self.unknown_stage(machine, stage.as_ref()) {
            return unknown;
        }
        let Some(machine) = self.machines.get_mut(issue) else {
            return CommandResult::UnknownIssue;
        };
        if machine.taken_over().is_some() {
            return CommandResult::NoEffect(HELD);
        }
        let events = machine.unpark(stage.as_ref(), *attempts, *agent, &self.workflow, now);
        let count = events.len();
        if count == 0 {
            let is_asked = |run: &&Run| stage.as_ref().is_none_or(|stage| run.stage == *stage);
            let ending = |run: &Run| {
                matches!(
                    run.phase,
                    Phase::Active {
                        stopping: Some(StopReason::Cancelled),
                        ..
                    }
                )
            };
            return CommandResult::NoEffect(if machine.runs().iter().filter(is_asked).any(ending) {
                "it was cancelled and its agent is still being stopped; retry it afterwards"
            } else if machine.has_hand_over_running() {
                "its work is being handed over"
            } else if stage.is_some() {
                "this stage of the issue is not parked"
            } else {
                "the issue has no parked stage"
            });
        }
        let hands_over = |event: &RunEvent| matches!(event, RunEvent::Unparked { hands_over: true, .. });
        let detail = match attempts {
            _ if events.iter().all(hands_over) => format!("another hand-over allowed by {by}"),
            Some(attempts) => format!("{} added by {by}", plural::count(*attempts, "attempt")),
            None => format!("another attempt allowed by {by}"),
        };
        let about = DecisionSubject {
            stage: stage.as_ref(),
            ..DecisionSubject::from(issue)
        };
        self.decide(now, DecisionKind::Retry, about, detail);
        self.record(issue, Observation::of(events), now);
        // The state of the issue may have changed in the meantime.
        self.effects.push(Effect::Pull);
        CommandResult::Done(count)
    }
}
