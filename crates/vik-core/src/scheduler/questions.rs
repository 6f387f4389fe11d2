//! The questions of agents, and the answers of people.

use super::{Actor, CommandResult, Effect, Scheduler};
use crate::approval::TIME_LIMIT;
use crate::ids::{IssueId, StageName};
use crate::machine::{Observation, Run};
use crate::question::{AnswerRefusal, NewAnswer, PendingQuestion};
use crate::time::Now;

/// A question that waits for a person.
#[derive(Clone, Copy, Debug)]
pub struct OpenQuestion<'a> {
    pub issue: &'a IssueId,
    pub run: &'a Run,
    pub question: &'a PendingQuestion,
}

impl Scheduler {
    /// Returns the questions that wait for a person, oldest first.
    pub fn open_questions(&self) -> Vec<OpenQuestion<'_>> {
        let mut open: Vec<_> = self
            .runs()
            .filter_map(|(issue, run)| {
                let question = run.question()?;
                Some(OpenQuestion { issue, run, question })
            })
            .collect();
        open.sort_by(|a, b| (a.question.since, a.issue).cmp(&(b.question.since, b.issue)));
        open
    }

    pub(super) fn answer_question(&mut self, new: NewAnswer, by: &Actor, now: Now) -> CommandResult {
        let NewAnswer {
            issue,
            stage,
            question,
            reply,
        } = new;
        let Some(machine) = self.machines.get(&issue) else {
            return CommandResult::UnknownIssue;
        };
        if let Some(unknown) = self.unknown_stage(machine, stage.as_ref()) {
            return unknown;
        }
        let open = machine.runs().iter();
        let open: Vec<_> = open
            .filter(|run| stage.as_ref().is_none_or(|stage| run.stage == *stage))
            .filter_map(|run| Some((&run.stage, run.question()?)))
            .collect();
        let is_meant = |asked: &PendingQuestion| question.is_none_or(|id| id == asked.id);
        let meant: Vec<_> = open.iter().filter(|(_, asked)| is_meant(asked)).collect();
        let refused = match (meant.as_slice(), open.as_slice()) {
            _ if machine.taken_over().is_some() && !open.is_empty() => AnswerRefusal::TakenOver,
            ([(stage, asked)], _) => match reply.resolve(&asked.question) {
                Ok(text) => {
                    let stage = (*stage).clone();
                    self.apply_answer(&issue, &stage, text, &by.to_string(), now);
                    // The state of the issue may have changed in the meantime.
                    self.effects.push(Effect::Pull);
                    return CommandResult::Done(1);
                }
                Err(refusal) => refusal,
            },
            ([], []) => AnswerRefusal::NoQuestion,
            ([], _) => AnswerRefusal::OtherQuestion,
            (several, _) => {
                AnswerRefusal::Several(several.iter().map(|(stage, _)| (*stage).clone()).collect())
            }
        };
        CommandResult::AnswerRefused(refused)
    }

    /// Gives the default answers that are due.
    pub(super) fn answer_overdue_questions(&mut self, now: Now) {
        if self.wake.is_none_or(|wake| wake > now.mono) {
            return;
        }
        let mut overdue: Vec<(IssueId, StageName, String)> = Vec::new();
        for (id, machine) in &self.machines {
            let answers = machine.overdue_questions(now);
            overdue.extend(answers.map(|(stage, answer)| (id.clone(), stage.clone(), answer.to_owned())));
        }
        overdue.sort();
        for (id, stage, answer) in overdue {
            self.apply_answer(&id, &stage, answer, TIME_LIMIT, now);
        }
    }

    fn apply_answer(&mut self, id: &IssueId, stage: &StageName, answer: String, by: &str, now: Now) {
        if let Some(machine) = self.machines.get_mut(id) {
            let event = machine.answer_question(stage, answer, by, now);
            self.record(id, Observation::of(event), now);
        }
    }
}
