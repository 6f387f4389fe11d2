//! The questions of agents: their stages wait for answers, and their conversations continue.

use jiff::{SignedDuration, Timestamp};

use super::{IssueMachine, Phase, Run, RunEvent, WaitReason};
use crate::attempt::Start;
use crate::ids::StageName;
use crate::question::{AnsweredQuestion, MAX_ANSWERS, PendingQuestion};
use crate::time::Now;
use crate::workflow::Stage;

impl Run {
    /// Returns the question that waits for an answer.
    pub fn question(&self) -> Option<&PendingQuestion> {
        match &self.phase {
            Phase::Asking { question, .. } => Some(question),
            _ => None,
        }
    }

    /// Waits for the answer to the question of the last attempt. `None` if it has none.
    pub(super) fn ask(&mut self, stage: &Stage, now: Now) -> Option<RunEvent> {
        let question = self.last.as_ref()?.question.as_deref()?.clone();
        let id = self.last_attempt?;
        let question = PendingQuestion::new(id, question, stage.questions.as_ref(), now.wall);
        let question = Box::new(question);
        self.phase = Phase::Asking {
            until: question.timeout.as_ref().map(|timeout| now.mono_at(timeout.at)),
            question: question.clone(),
        };
        Some(RunEvent::Asked {
            run: self.id,
            stage: self.stage.clone(),
            question,
        })
    }

    /// Returns the answers for an attempt that starts.
    pub(super) fn answers_for(&self, resumes: bool) -> Vec<AnsweredQuestion> {
        let answers = self.answers.iter();
        answers
            .filter(|answer| !resumes || !answer.is_read)
            .cloned()
            .collect()
    }

    /// Handles that the agent of an attempt has read the answers in its prompt.
    pub(super) fn on_answers_read(&mut self, start: &Start) {
        for answer in &mut self.answers {
            answer.is_read |= start.answers.iter().any(|given| given.id == answer.id);
        }
    }

    /// Takes the answers of a recorded attempt, if the run has none itself.
    pub(super) fn restore_answers(&mut self, start: &Start) {
        if self.answers.is_empty() {
            self.answers.clone_from(&start.answers);
        }
    }

    /// Gives the person the same time again that the issue was held.
    fn delay_default_answer(&mut self, held_since: Timestamp, now: Now) {
        let Phase::Asking { question, until } = &mut self.phase else {
            return;
        };
        let held = now.wall.duration_since(held_since.max(question.since));
        let held = held.max(SignedDuration::ZERO);
        if let Some(timeout) = &mut question.timeout {
            timeout.at = timeout.at.checked_add(held).unwrap_or(Timestamp::MAX);
            // The old time may have passed before the daemon was started.
            *until = Some(now.mono_at(timeout.at));
        }
    }
}

impl IssueMachine {
    /// Returns the stages whose questions nobody has answered in time, and the default answers.
    pub fn overdue_questions(&self, now: Now) -> impl Iterator<Item = (&StageName, &str)> {
        let runs = self.runs.iter().filter(|_| self.taken_over.is_none());
        runs.filter_map(move |run| match &run.phase {
            Phase::Asking { question, until } if until.is_some_and(|until| until <= now.mono) => {
                Some((&run.stage, question.timeout.as_ref()?.answer.as_str()))
            }
            _ => None,
        })
    }

    /// Answers the question of a stage, so that its next attempt may start. `None` if the stage has
    /// no open question.
    pub fn answer_question(
        &mut self,
        stage: &StageName,
        answer: String,
        by: &str,
        now: Now,
    ) -> Option<RunEvent> {
        let run = self.runs.iter_mut().find(|run| run.stage == *stage)?;
        let question = run.question()?;
        let answer = AnsweredQuestion {
            id: question.id,
            question: question.question.text.clone(),
            answer,
            by: by.to_owned(),
            at: now.wall,
            is_read: false,
        };
        run.answers.push(answer.clone());
        let surplus = run.answers.len().saturating_sub(MAX_ANSWERS);
        run.answers.drain(..surplus);
        run.phase = Phase::due(now, WaitReason::Backoff);
        Some(RunEvent::QuestionAnswered {
            run: run.id,
            stage: run.stage.clone(),
            answer: Box::new(answer),
        })
    }

    /// Delays the default answers by the time for which a person has held the issue.
    pub(super) fn delay_default_answers(&mut self, held_since: Timestamp, now: Now) {
        for run in &mut self.runs {
            run.delay_default_answer(held_since, now);
        }
    }
}
