//! Approval requests of an issue, and their answers.

use super::{Answered, Approved, IssueMachine, ParkReason, Phase, Run, RunEvent, WaitReason};
use crate::approval::{Answer, Gate, Request};
use crate::ids::{AttemptId, RunId, StageName};
use crate::issue::Issue;
use crate::time::Now;
use crate::workflow::{ApprovePolicy, Stage};

impl Run {
    /// Starts to wait for the approval of its start.
    pub(super) fn request_approval(&mut self, issue: &Issue, policy: &ApprovePolicy, now: Now) -> RunEvent {
        let text = issue.text_fingerprint();
        let id = format!("{}.{text}", self.id);
        let request = Box::new(Request::new(id, Gate::Before, policy, now.wall));
        self.approved = None;
        self.phase = Phase::Awaiting {
            until: now.mono_at(request.until),
            request: request.clone(),
            text,
        };
        RunEvent::Awaiting {
            run: self.id,
            stage: self.stage.clone(),
            request,
        }
    }
}

impl IssueMachine {
    /// Returns whether a due stage needs an approval first.
    pub fn needs_approval(&self, stage: &Stage) -> bool {
        let approved = self.run(&stage.name).and_then(|run| run.approved.as_ref());
        stage.asks_before() && approved.is_none_or(|approved| approved.text != self.issue.text_fingerprint())
    }

    /// Requests approval for a due stage. `None` if the stage needs none.
    pub fn request_approval(&mut self, stage: &Stage, new_run: RunId, now: Now) -> Option<RunEvent> {
        let policy = stage.approve.as_ref().filter(|policy| policy.before)?;
        let at = self.run_at(&stage.name, new_run, now);
        Some(self.runs[at].request_approval(&self.issue, policy, now))
    }

    /// Answers the request of a waiting start, and returns the events: none if the stage does not
    /// wait. `when_state` is the state of the stage, where the workflow still has it: a denied
    /// stage stays parked when the issue returns to that state.
    pub fn answer(
        &mut self,
        stage: &StageName,
        when_state: Option<&str>,
        answer: Answer,
        by: &str,
        now: Now,
    ) -> Vec<RunEvent> {
        let fingerprint = self.issue.fingerprint_in(when_state.unwrap_or(&self.issue.state));
        let Some(run) = self.runs.iter_mut().find(|run| run.stage == *stage) else {
            return Vec::new();
        };
        let Phase::Awaiting { request, text, .. } = &run.phase else {
            return Vec::new();
        };
        let (request, text) = (request.clone(), *text);
        let mut events = vec![RunEvent::Answered {
            run: run.id,
            stage: stage.clone(),
            request,
            answer: answer.clone(),
            by: by.to_owned(),
        }];
        match answer {
            Answer::Approve { message } => {
                run.approved = Some(Approved { text, message });
                run.phase = Phase::due(now, WaitReason::Backoff);
            }
            Answer::Deny { .. } | Answer::Instruct { .. } => {
                events.push(run.park(ParkReason::Denied, fingerprint, None, None, now));
            }
        }
        events
    }

    /// Releases the runs that wait for an approval which the edited workflow no longer requires.
    pub fn release_unneeded_approvals(&mut self, asks: impl Fn(&StageName) -> bool, now: Now) -> bool {
        let mut changed = false;
        for run in &mut self.runs {
            if matches!(run.phase, Phase::Awaiting { .. }) && !asks(&run.stage) {
                run.phase = Phase::due(now, WaitReason::Backoff);
                changed = true;
            }
        }
        changed
    }

    /// Returns the expired requests: their stages and default answers.
    pub fn overdue(&self, now: Now) -> impl Iterator<Item = (&StageName, Answer)> {
        // The time limit of a request applies again when the person hands the issue back.
        let runs = self.runs.iter().filter(|_| self.taken_over.is_none());
        runs.filter_map(move |run| match &run.phase {
            Phase::Awaiting { request, until, .. } if *until <= now.mono => {
                Some((&run.stage, Answer::at_the_limit(request.on_timeout)))
            }
            _ => None,
        })
    }

    /// Sets or clears the approval request of an active attempt. Returns the event if the request
    /// is new.
    pub fn set_approval_request(
        &mut self,
        attempt_id: AttemptId,
        request: Option<Request>,
    ) -> Option<RunEvent> {
        let run = self.runs.iter_mut().find(
            |run| matches!(run.phase, Phase::Active { attempt_id: active, .. } if active == attempt_id),
        )?;
        let Phase::Active {
            awaiting, answered, ..
        } = &mut run.phase
        else {
            return None;
        };
        let request = request.map(Box::new);
        let is_answered = |request: &Request| {
            answered
                .as_ref()
                .is_some_and(|answered| answered.request == request.id)
        };
        if *awaiting == request || request.as_deref().is_some_and(is_answered) {
            return None;
        }
        *answered = None;
        awaiting.clone_from(&request);
        request.map(|request| RunEvent::Awaiting {
            run: run.id,
            stage: run.stage.clone(),
            request,
        })
    }

    /// Records the answer for an attempt. It is kept until the attempt confirms it.
    pub fn record_answer(&mut self, attempt_id: AttemptId, answer: Answered) {
        for run in &mut self.runs {
            if let Phase::Active {
                attempt_id: active,
                awaiting,
                answered,
                ..
            } = &mut run.phase
                && *active == attempt_id
            {
                *awaiting = None;
                *answered = Some(Box::new(answer));
                return;
            }
        }
    }

    /// Returns the answers that attempts may not have received.
    pub fn undelivered_answers(&self) -> impl Iterator<Item = (AttemptId, &Answered)> {
        self.runs.iter().filter_map(|run| match &run.phase {
            Phase::Active {
                attempt_id,
                answered: Some(answered),
                ..
            } => Some((*attempt_id, &**answered)),
            _ => None,
        })
    }
}
