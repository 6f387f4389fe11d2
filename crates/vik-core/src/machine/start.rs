//! Reserves a stage for an attempt.

use super::{IssueMachine, Phase};
use crate::attempt::Start;
use crate::ids::{AttemptId, RunId};
use crate::intent::Intent;
use crate::limits::Limit;
use crate::time::Now;
use crate::worker::WorkerName;
use crate::workflow::{AgentProfile, ResumePolicy, Stage, TrustPolicy};

/// The attempt for which a stage is reserved.
#[derive(Clone, Copy, Debug)]
pub struct NewAttempt<'a> {
    pub stage: &'a Stage,
    pub attempt_id: AttemptId,
    /// The id of its run, in case the run is new.
    pub new_run: RunId,
    /// The amount that may be spent.
    pub budget: Limit,
    /// Whether the text of the issue is untrusted.
    pub fenced: bool,
    /// Its agent, for the estimate to charge, and because not all can resume a conversation.
    pub agent: Option<&'a AgentProfile>,
    /// The worker that carries it out; `None` for this machine.
    pub worker: Option<&'a WorkerName>,
    /// Whose comments are trusted; `None` if there are no rules.
    pub trust: Option<&'a TrustPolicy>,
}

impl IssueMachine {
    /// Reserves a stage for an attempt.
    pub fn start(&mut self, attempt: NewAttempt<'_>, now: Now) -> Start {
        let NewAttempt {
            stage,
            attempt_id,
            new_run,
            budget,
            fenced,
            agent,
            worker,
            trust,
        } = attempt;
        self.life.rounds += u32::from(self.starts_round(stage));
        let messages = self.messages_for_start(attempt_id);
        let at = self.run_at(&stage.name, new_run, now);
        let mut run = self.runs.remove(at);
        // A message of a person continues the conversation even if it had come to its end.
        let continues = run.continues(stage);
        let finished = run
            .finished
            .as_ref()
            .filter(|_| continues || !messages.is_empty());
        let of_earlier_run = self
            .conversations
            .get(&stage.name)
            .filter(|_| stage.resume == ResumePolicy::Issue && run.last.is_none());
        let resume = run
            .conversation
            .as_ref()
            .or(finished)
            .or(of_earlier_run)
            .filter(|_| stage.resume.resumes() && agent.is_some_and(|agent| agent.runtime.can_resume()))
            .filter(|(earlier, _)| *earlier == stage.agent)
            .filter(|(_, resume)| resume.worker.as_ref() == worker)
            .map(|(_, resume)| resume.clone());
        let resumes = resume.is_some();
        let fencing_number = self.next_fencing_number(now);
        let start = Start {
            issue: self.issue.clone(),
            stage: stage.clone(),
            run: run.id,
            attempt_id,
            worker: worker.cloned(),
            attempt: run.attempts + 1,
            fencing_number,
            turn: run.next_turn(stage, resumes),
            previous: run.last.clone(),
            resume,
            budget,
            // The scheduler starts nothing whose intent is invalid.
            intent: Intent::resolve(stage, &self.issue).unwrap_or_else(|_| Intent::nothing()),
            fenced,
            message: run
                .approved
                .as_ref()
                .and_then(|approved| approved.message.clone()),
            messages,
            answers: run.answers_for(resumes),
            handed_back: self.handed_back.clone(),
            activity: self.new_activity(stage, resumes, trust),
        };
        self.worker = worker.cloned();
        run.hand_over = None;
        run.phase = Phase::Active {
            attempt_id,
            since: now.wall,
            start: Box::new(start.clone()),
            estimate: agent.map(|agent| agent.estimate).unwrap_or_default(),
            stopping: None,
            granted: None,
            awaiting: None,
            answered: None,
        };
        self.runs.insert(at, run);
        start
    }

    /// Returns a number that no earlier attempt of the issue had. It is the time in milliseconds, so
    /// that it is also larger than those that are forgotten when the issue is not in use. In between,
    /// the clock of another machine that starts attempts may be behind.
    fn next_fencing_number(&mut self, now: Now) -> u64 {
        let millis = u64::try_from(now.wall.as_millisecond()).unwrap_or_default();
        self.fencing_number = millis.max(self.fencing_number + 1);
        self.fencing_number
    }
}

pub(super) fn is_unnumbered(number: &u64) -> bool {
    *number == 0
}
