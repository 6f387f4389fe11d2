//! Questions of agents: each is answered once, nothing starts before, and no answer is lost or given
//! twice to the same conversation.

use std::collections::BTreeMap;

use vik_core::approval::TIME_LIMIT;
use vik_core::attempt::{AttemptResult, Start, StopReason};
use vik_core::ids::{AttemptId, IssueId, RunId};
use vik_core::machine::RunEvent;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::question::MAX_ANSWERS;
use vik_core::scheduler::{Command, Input, Scheduler};
use vik_core::time::Now;

use super::live::is_held;
use super::{Held, Oracle, ensure};
use crate::disk::Disk;

const HELD: &str = "nothing starts while a question waits for its answer";
const ONCE: &str = "an answer reaches its conversation, once";

#[derive(Default)]
pub(super) struct Questions {
    /// The runs whose last attempt asked, with that attempt.
    open: BTreeMap<RunId, AttemptId>,
    answers: BTreeMap<RunId, Vec<Answer>>,
}

struct Answer {
    issue: IssueId,
    /// The attempt that asked.
    id: AttemptId,
    is_read: bool,
}

impl Questions {
    /// An answer that was not committed was not given, and a question that still waits on disk is
    /// open.
    pub(super) fn crashed(&mut self, disk: &Disk) {
        for run in disk.machines.values().flat_map(|machine| machine.runs()) {
            if let Some(question) = run.question() {
                self.open.insert(run.id, question.id);
            }
        }
        for (run_id, answers) in &mut self.answers {
            answers.retain(|answer| {
                let machine = disk.machines.get(&answer.issue);
                let run = machine.and_then(|machine| machine.runs().iter().find(|run| run.id == *run_id));
                let is_stored = run.is_none_or(|run| run.answers.iter().any(|kept| kept.id == answer.id));
                if !is_stored {
                    self.open.insert(*run_id, answer.id);
                }
                is_stored
            });
        }
    }

    /// Returns whether the question of an attempt waits for its answer.
    pub(super) fn is_open(&self, asked_by: AttemptId) -> bool {
        self.open.values().any(|open| *open == asked_by)
    }

    /// Handles the end of an attempt.
    pub(super) fn ended(&mut self, start: &Start, report: &AttemptResult, stopped: Option<&StopReason>) {
        if report.outcome == Outcome::Asked && stopped != Some(&StopReason::Cancelled) {
            self.open.insert(start.run, start.attempt_id);
        }
        // An agent that came to its end has read its prompt, whatever model it has.
        let came_to_its_end = match report.outcome {
            Outcome::Succeeded | Outcome::Asked => true,
            Outcome::Failed => report.failure_class == Some(FailureClass::Verify),
            _ => false,
        };
        if report.ran && (report.answered.unwrap_or(true) || came_to_its_end) {
            for answer in self.answers.entry(start.run).or_default() {
                answer.is_read |= start.answers.iter().any(|given| given.id == answer.id);
            }
        }
    }

    /// Checks the answers of an attempt that starts.
    pub(super) fn starts(&self, start: &Start) -> Held {
        ensure(!self.open.contains_key(&start.run), HELD, || {
            start.attempt_id.to_string()
        })?;
        let answers = self.answers.get(&start.run);
        let answers = answers.into_iter().flatten();
        let expected: Vec<_> = answers
            .filter(|answer| start.resume.is_none() || !answer.is_read)
            .map(|answer| answer.id)
            .collect();
        let given: Vec<_> = start.answers.iter().map(|answer| answer.id).collect();
        ensure(given == expected, ONCE, || {
            format!("{} gets {given:?}, not {expected:?}", start.attempt_id)
        })
    }

    /// Handles an event of a run.
    pub(super) fn event(&mut self, issue: &IssueId, event: &RunEvent, observed: &Input) -> Held {
        let (run, _) = event.about();
        match event {
            RunEvent::Asked { question, .. } => {
                self.open.insert(run, question.id);
            }
            RunEvent::QuestionAnswered { answer, .. } => {
                let is_asked = matches!(observed, Input::Command(_, Command::AnswerQuestion(new), _) if new.issue == *issue);
                ensure(
                    is_asked || answer.by == TIME_LIMIT,
                    "an answer comes from a person or from the time limit",
                    || format!("issue {issue}: {answer:?}"),
                )?;
                let open = self.open.remove(&run);
                ensure(open == Some(answer.id), "a question is answered once", || {
                    format!("issue {issue}: {answer:?}, but {open:?} is open")
                })?;
                let answers = self.answers.entry(run).or_default();
                answers.push(Answer {
                    issue: issue.clone(),
                    id: answer.id,
                    is_read: false,
                });
                let surplus = answers.len().saturating_sub(MAX_ANSWERS);
                answers.drain(..surplus);
            }
            RunEvent::Unparked { .. } => {
                self.open.remove(&run);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Checks that a stage whose agent asked is held, and is answered by its time limit.
pub(super) fn awaits_answers(scheduler: &Scheduler, now: Now) -> Held {
    for open in scheduler.open_questions() {
        let (issue, stage) = (open.issue, &open.run.stage);
        let machine = scheduler.machine(issue);
        let is_taken_over = machine.is_some_and(|machine| machine.taken_over().is_some());
        let wakes = scheduler.next_wakeup(now).is_some();
        ensure(
            is_taken_over || wakes || open.question.timeout.is_none(),
            "the time limit of a question is not slept through",
            || format!("issue {issue}, stage {stage}"),
        )?;
        ensure(is_held(scheduler, issue, stage, now), HELD, || {
            format!("issue {issue}, stage {stage}")
        })?;
    }
    Ok(())
}

impl Oracle {
    /// Handles the end of an attempt that may have asked.
    pub(super) fn question_ended(
        &mut self,
        attempt_id: AttemptId,
        report: &AttemptResult,
        stopped: Option<&StopReason>,
    ) {
        if let Some(facts) = self.facts.get(&attempt_id) {
            self.questions.ended(&facts.start, report, stopped);
        }
    }
}
