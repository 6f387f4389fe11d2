//! Checks which conversation an attempt resumes.

use vik_core::attempt::{AttemptResult, Start};
use vik_core::workflow::ResumePolicy;

use super::{Held, Oracle, ensure, number};

impl Oracle {
    /// Checks that the attempt resumes a conversation of its own run, or of an earlier run where its
    /// stage wants that, and knows the result of the last attempt.
    pub(super) fn check_resumption(&self, start: &Start) -> Held {
        let last = self.last_facts(start.run);
        let report = last.and_then(|facts| facts.report.as_ref());
        ensure(
            start.previous.as_ref() == report,
            "an attempt receives the result of the previous one",
            || {
                format!(
                    "{} has the previous result {:?}, expected {report:?}",
                    start.attempt_id, start.previous
                )
            },
        )?;
        if last.is_none() && start.stage.resume == ResumePolicy::Issue {
            return self.check_follow_up(start);
        }
        let Some(resume) = &start.resume else {
            return Ok(());
        };
        let earlier = self.facts.get(&resume.attempt_id);
        let right = earlier.is_some_and(|facts| {
            // The attempts of a run that fail before they have a conversation keep the one of the
            // run before.
            let is_first = facts.start.run == start.run || facts.start.stage.resume == ResumePolicy::Issue;
            facts.start.issue.id == start.issue.id
                && facts.start.stage.name == start.stage.name
                && facts.start.stage.agent == start.stage.agent
                && is_first
                && facts.report.as_ref().is_some_and(|report| {
                    !report.resume_failed
                        && report.provider_session_id.as_ref() == Some(&resume.provider_session_id)
                })
        });
        ensure(
            right && start.stage.resume.resumes(),
            "a conversation is resumed only within its run",
            || format!("{} resumes {}", start.attempt_id, resume.attempt_id),
        )
    }

    /// Checks that the first attempt of a run resumes the last conversation of its stage.
    fn check_follow_up(&self, start: &Start) -> Held {
        let key = (number(&start.issue.id), start.stage.name.clone());
        let agent = self.policy.agents.get(&start.stage.agent);
        let can_resume = agent.is_some_and(|agent| agent.runtime.can_resume());
        let kept = self.books.conversations.get(&key);
        let expected = kept
            .filter(|(agent, kept)| can_resume && *agent == start.stage.agent && kept.worker == start.worker)
            .map(|(_, kept)| kept);
        ensure(
            start.resume.as_ref() == expected,
            "the first attempt of a run resumes the last conversation of its stage",
            || {
                format!(
                    "{} resumes {:?}, expected {expected:?}",
                    start.attempt_id, start.resume
                )
            },
        )
    }

    /// Records the conversation of an attempt that has ended.
    pub(super) fn conversation_ended(&mut self, start: &Start, report: &AttemptResult) {
        if start.stage.resume != ResumePolicy::Issue {
            return;
        }
        let key = (number(&start.issue.id), start.stage.name.clone());
        let conversations = &mut self.books.conversations;
        match start.conversation(report) {
            Some(kept) => drop(conversations.insert(key, (start.stage.agent.clone(), kept))),
            None if start.resume.is_some() => drop(conversations.remove(&key)),
            None => {}
        }
    }
}
