//! What waits for a person, and the answers.

use std::sync::Arc;

use super::{Answer, By, Effect, Reply, Scheduler};
use crate::approval::{self, Request, TIME_LIMIT};
use crate::ids::{AttemptId, IssueId, StageName};
use crate::machine::{Answered, Note, Observed, Phase, Run};
use crate::time::Now;
use crate::workflow::Stage;

/// Something of an issue that waits for a person.
#[derive(Clone, Copy, Debug)]
pub struct Awaited<'a> {
    /// The issue.
    pub issue: &'a IssueId,
    /// The run.
    pub run: &'a Run,
    /// What is asked.
    pub request: &'a Request,
}

impl Scheduler {
    /// All that waits for a person, the oldest first.
    pub fn awaited(&self) -> Vec<Awaited<'_>> {
        let mut awaited: Vec<_> = self
            .runs()
            .filter_map(|(issue, run)| {
                let request = run.request()?;
                Some(Awaited { issue, run, request })
            })
            .collect();
        awaited.sort_by(|a, b| (a.request.since, a.issue).cmp(&(b.request.since, b.issue)));
        awaited
    }

    /// An attempt waits for a person, or does no longer.
    pub(super) fn awaits(
        &mut self,
        issue: &IssueId,
        attempt_id: AttemptId,
        request: Option<Request>,
        now: Now,
    ) {
        let gate = request.as_ref().map(|request| request.gate);
        self.spending.await_person(attempt_id, gate);
        if let Some(machine) = self.machines.get_mut(issue) {
            let notes = machine.awaits(attempt_id, request);
            let observed = Observed {
                notes: notes.into_iter().collect(),
                changed: true,
            };
            self.record(issue, observed, now);
        }
    }

    /// Asks for all that is due and must not start before somebody said so, whether there is a slot for it or not.
    pub(super) fn ask_for_approval(&mut self, now: Now) {
        let workflow = Arc::clone(&self.workflow);
        if !self.has_pulled
            || self.gate_of_all(now).is_some()
            || !workflow.issue.stages.iter().any(Stage::asks_before)
        {
            return;
        }
        let order = std::mem::take(&mut self.order);
        for id in &order {
            // Each that is asked for lets the next one be due.
            while self.ask_next(id, now) {}
        }
        self.order = order;
    }

    /// Asks for the next stage of an issue, where that has to be approved. Whether it was asked for.
    pub(super) fn ask_next(&mut self, id: &IssueId, now: Now) -> bool {
        let workflow = Arc::clone(&self.workflow);
        let Some(machine) = self.machines.get(id) else {
            return false;
        };
        let due = super::dispatch::due(&workflow, &self.filter, &self.spending, machine, now);
        let Some(stage) = due.filter(|stage| machine.needs_approval(stage)) else {
            return false;
        };
        // What cannot start anyway, or has nothing left, is not asked for.
        let held = self
            .gate_of_issue(machine)
            .or_else(|| self.bad_intent(machine, stage));
        if held.is_some() || super::dispatch::used_up(machine, stage, &workflow).is_some() {
            return false;
        }
        let run = self.ids.run(now);
        let note = self
            .machines
            .get_mut(id)
            .and_then(|machine| machine.ask(stage, run, now));
        let asked = note.is_some();
        let observed = Observed {
            notes: note.into_iter().collect(),
            changed: asked,
        };
        self.record(id, observed, now);
        asked
    }

    /// Gives the default answers that are due.
    pub(super) fn answer_overdue(&mut self, now: Now) {
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

    /// What waits although the workflow does not ask any more goes on.
    pub(super) fn free_unasked(&mut self, now: Now) {
        let workflow = Arc::clone(&self.workflow);
        let asks = |stage: &StageName| {
            let stage = workflow.stage(stage);
            // A stage that is gone starts nothing; its run ends with the next pull.
            stage.is_none_or(Stage::asks_before)
        };
        for (id, machine) in &mut self.machines {
            if machine.free_unasked(asks, now) {
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
            let when_state = self.workflow.stage(stage).map(|stage| stage.when_state.as_str());
            let notes = machine.answer(stage, when_state, answer, by, now);
            let changed = !notes.is_empty();
            self.record(id, Observed { notes, changed }, now);
        }
    }

    /// A person answers.
    pub(super) fn answer(&mut self, reply: Reply, by: &By, now: Now) -> Answer {
        let Reply {
            issue,
            stage,
            request,
            answer,
        } = reply;
        let Some(machine) = self.machines.get(&issue) else {
            return Answer::UnknownIssue;
        };
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
            ([], []) => return Answer::Nothing("nothing of it waits for an approval"),
            ([], _) => {
                return Answer::Nothing(
                    "what waits now is another request than the one that was meant: look at it again",
                );
            }
            _ => return Answer::Nothing("several of its stages wait: name one with --stage"),
        };
        let (stage, by) = (run.stage.clone(), by.to_string());
        match &run.phase {
            Phase::Active { attempt_id, .. } => {
                let (attempt_id, request) = (*attempt_id, asked.id.clone());
                let note = Note::Answered {
                    run: run.id,
                    stage,
                    request: Box::new(asked),
                    answer: answer.clone(),
                    by: by.clone(),
                };
                self.note(&issue, note, now);
                let answered = Answered { request, answer, by };
                if let Some(machine) = self.machines.get_mut(&issue) {
                    machine.tell(attempt_id, answered.clone());
                    self.changed.insert(issue);
                }
                self.effects.push(Effect::Tell { attempt_id, answered });
            }
            _ => self.answer_start(&issue, &stage, answer, &by, now),
        }
        Answer::Done(1)
    }
}
