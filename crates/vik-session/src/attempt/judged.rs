//! A judged attempt: its outcome is known, and nothing of it is recorded yet.

use std::sync::Arc;

use jiff::{Timestamp, Zoned};
use vik_core::attempt::{AttemptResult, HandOverFailure};
use vik_core::ended::Ended;
use vik_core::event::Event;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::question::Question;
use vik_store::ledger::LedgerError;
use vik_store::{AttemptFailure, Step};

use super::agent_end::reported_spend;
use super::concluded::Concluded;
use super::exited::Exited;
use super::full::{failed_by_full_disk, failed_by_open_files};
use super::opened::AttemptContext;
use super::session_log::ClosableLog;
use super::workplace::Acquired;
use crate::secrets::masked::masked;

/// An attempt whose outcome is known.
pub(super) struct Judged<'a> {
    pub(super) exited: Exited<'a>,
    /// Whether `after_create` failed, which is retried in a clean folder.
    pub(super) by_after_create: bool,
    /// Whether the workspace changed; `None` if that is unknown.
    pub(super) changed: Option<bool>,
    /// The results of the outputs that the agent requested.
    pub(super) outputs: Vec<Event<'static>>,
    /// The question of an agent that asked one.
    pub(super) question: Option<Question>,
    /// Why an output of the accepted result was not carried out.
    pub(super) hand_over_failure: Option<HandOverFailure>,
    /// Why the work of an attempt that did not succeed was not saved.
    pub(super) not_saved: Option<HandOverFailure>,
    pub(super) acquired: Acquired,
}

impl<'a> Judged<'a> {
    /// Creates an attempt that failed before it had an agent.
    pub(super) fn without_agent(
        cx: &'a AttemptContext<'a>,
        log: impl Into<ClosableLog>,
        failure: AttemptFailure,
        acquired: Acquired,
    ) -> Self {
        Self::new(Exited::without_agent(cx, log, failure), acquired)
    }

    pub(super) fn new(exited: Exited<'a>, acquired: Acquired) -> Self {
        Self {
            exited,
            by_after_create: false,
            changed: None,
            outputs: Vec::new(),
            question: None,
            hand_over_failure: None,
            not_saved: None,
            acquired,
        }
    }

    /// Records the end in the journal and in the session log.
    ///
    /// # Errors
    /// When the disk is broken: the attempt stays as it is.
    pub(super) async fn conclude(mut self) -> Result<Concluded<'a>, Arc<LedgerError>> {
        let cx = self.exited.cx;
        let failure = std::mem::take(&mut self.exited.verdict).into_failure();
        let failed = failure
            .as_ref()
            .filter(|failure| failure.outcome == Outcome::Failed);
        if let Some(failure) = failed
            && !cx.disk.is_broken()
            && cx.disk_fails().await
            && cx.disk.is_broken()
            && !matches!(failure.class, Some(FailureClass::Hook | FailureClass::Verify))
        {
            cx.excuse_agent();
        }
        if let Some(error) = cx.disk.broken() {
            return Err(error);
        }
        let failure = match failure {
            Some(failure) if cx.disk.is_full() => {
                Some(failed_by_full_disk(failure, self.exited.agent.exit.as_ref()))
            }
            Some(failure) if cx.disk.is_out_of_files() => Some(failed_by_open_files(failure)),
            failure => failure,
        };
        // Without its lease, nothing of the attempt counts except that a process may be left.
        let failure = match failure {
            Some(failure) if failure.class == Some(FailureClass::UnprovenEnd) => Some(failure),
            failure => cx.check_lease().err().or(failure),
        };
        let ended = self.ended(failure);
        if let Err(failure) = cx.note_end(Step::over(&ended)) {
            tracing::error!(error = failure.reason, "cannot write the end of the journal");
            if let Some(error) = cx.disk.broken() {
                return Err(error);
            }
        }
        cx.remove_base_snapshot();
        let outputs = cx.output_results(self.outputs);
        cx.close_log(self.exited.log, &ended, &self.exited.agent, &outputs);
        Ok(Concluded {
            cx,
            ended,
            result: self.exited.agent.conclusion.result,
            partial_bytes: self.exited.agent.partial_bytes,
            not_saved: self.not_saved,
            acquired: self.acquired,
        })
    }

    fn ended(&self, failure: Option<AttemptFailure>) -> Ended {
        let Exited { cx, agent, .. } = &self.exited;
        let failure = failure.map(|failure| AttemptFailure {
            reason: masked(failure.reason),
            feedback: failure.feedback.map(masked),
            ..failure
        });
        let (conclusion, profile) = (&agent.conclusion, &cx.spec.profile);
        let outcome = failure
            .as_ref()
            .map_or(Outcome::Succeeded, |failure| failure.outcome);
        let failure_class = failure.as_ref().and_then(|failure| failure.class);
        let before_run = failure.as_ref().and_then(|failure| failure.before_run);
        let (spend, cost_source) = reported_spend(profile, conclusion.usage, conclusion.cost_usd);
        // An agent that did not start has not received the feedback for this attempt.
        let previous = cx.start().previous.as_ref().filter(|_| before_run.is_some());
        let undelivered = previous.and_then(|previous| previous.feedback.clone());
        let reason = failure.as_ref().map(|failure| failure.reason.clone());
        let resets_at = (failure_class == Some(FailureClass::RateLimit))
            .then(|| {
                let from_reason = || vik_agents::reset_time(reason.as_deref()?, &Zoned::now());
                conclusion.resets_at.or_else(from_reason)
            })
            .flatten();
        let exit = agent.exit.as_ref();
        let until = exit
            .and_then(|exit| Timestamp::from_millisecond(exit.ended_at_ms.try_into().ok()?).ok())
            .unwrap_or_else(Timestamp::now);
        let took = until.duration_since(cx.started_at).as_millis();
        let result = AttemptResult {
            outcome,
            failure_class,
            reason,
            feedback: failure.and_then(|failure| failure.feedback).or(undelivered),
            changed: self.changed,
            ran: agent.ran,
            answered: agent.answered,
            spend,
            cost_source,
            usage: conclusion.usage,
            resets_at,
            provider_session_id: conclusion.provider_session_id.clone(),
            resume_failed: agent.resume_failure.is_some() || cx.spec.resume_refused.is_some(),
            preparing: self.by_after_create,
            before_run,
            exit_code: exit.and_then(|record| record.code),
            proof: agent.proof.map(str::to_owned),
            hand_over_failure: self.hand_over_failure.clone().map(Box::new),
            question: self.question.clone().map(Box::new),
            turn: cx.turn_number(),
            // Whoever finds that a worker is lost reports the end of its attempts.
            worker_loss: None,
            log: None,
        };
        Ended {
            signal: exit.and_then(|record| record.signal),
            duration_ms: u64::try_from(took).unwrap_or(0),
            last_message: conclusion.last_message.clone(),
            ..Ended::new(result, profile.estimate)
        }
    }
}

impl AttemptContext<'_> {
    /// Notes in the journal, if there is still space, that the agent is not the cause of the
    /// failure. The next daemon runs the scripts again.
    fn excuse_agent(&self) {
        let failure = AttemptFailure::of(Outcome::Lost, "the disk refused further writes");
        let _ = self.journal().record(Step::Stopping { trouble: failure });
    }
}
