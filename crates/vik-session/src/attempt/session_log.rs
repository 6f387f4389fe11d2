//! The session log of an attempt after its agent: Vik's own lines, and the last one.

use jiff::Timestamp;
use vik_base::report;
use vik_core::ended::Ended;
use vik_core::event::Event;
use vik_core::outcome::Outcome;
use vik_session_log::{Reopened, SessionLog};
use vik_store::StoreError;

use super::agent_end::AgentEnd;
use super::opened::AttemptContext;
use super::questions::question_event;

/// The session log of an attempt whose agent has ended or was never started.
#[derive(Debug)]
pub(super) struct ClosableLog {
    /// `None` if it could not be written: it is opened again for its end.
    log: Option<SessionLog>,
    /// Whether an earlier daemon wrote its last line.
    is_ended: bool,
}

impl ClosableLog {
    pub(super) fn new(log: Option<SessionLog>, is_ended: bool) -> Self {
        Self { log, is_ended }
    }
}

impl From<Reopened> for ClosableLog {
    fn from(opened: Reopened) -> Self {
        Self::new(Some(opened.log), opened.is_ended)
    }
}

impl AttemptContext<'_> {
    /// Writes a line of Vik itself to the log of an attempt whose agent has ended.
    pub(super) fn log_note(&self, log: &mut ClosableLog, text: &str) {
        if let Some(log) = &mut log.log {
            self.write_note(log, text);
        }
    }

    /// Writes a line of Vik itself to the session log.
    pub(super) fn write_note(&self, log: &mut SessionLog, text: &str) {
        let written = log
            .push(Timestamp::now(), &Event::note(text.to_owned()))
            .and_then(|_| log.flush());
        if let Err(error) = written {
            self.disk.note(&error);
            let error = report::chain(&error);
            tracing::warn!(error, "cannot write a line to the session log");
        }
    }

    /// Writes the last lines of the session log, unless an earlier daemon wrote them.
    pub(super) fn close_log(&self, log: ClosableLog, ended: &Ended, agent: &AgentEnd, outputs: &[Event<'_>]) {
        if log.is_ended {
            return;
        }
        let log = match log.log {
            Some(log) => Ok(log),
            None => SessionLog::reopen(&self.files.log()).map(|reopened| reopened.log),
        };
        let closed = log.and_then(|mut log| {
            self.write_own_events(ended, agent, outputs, &mut log)?;
            log.push(Timestamp::now(), &Event::Ended(ended.clone()))?;
            log.flush()
        });
        if let Err(error) = closed {
            self.disk.note(&error);
            let error = report::chain(&error);
            tracing::error!(error, "cannot write the end of a session log");
        }
    }

    /// Writes Vik's own events to the log, before the last one.
    fn write_own_events(
        &self,
        ended: &Ended,
        agent: &AgentEnd,
        outputs: &[Event<'_>],
        log: &mut SessionLog,
    ) -> Result<(), StoreError> {
        let now = Timestamp::now();
        let result = &ended.result;
        let reason = result.reason.as_deref();
        if let Some(resume) = self.start().resume.as_ref().filter(|_| result.resume_failed) {
            let why = agent.resume_failure.as_deref().or(reason);
            let failed = Event::ResumeFailed {
                resumed_from: resume.attempt_id,
                reason: why.unwrap_or_default().into(),
            };
            log.push(now, &failed)?;
        }
        // An attempt that was stopped because of a limit already has this event.
        let is_logged = self
            .attempt
            .commands
            .stop_cause()
            .is_some_and(|cause| cause.limit().is_some());
        let crossed = self
            .reached_limit(agent)
            .filter(|_| result.outcome == Outcome::OverBudget && !is_logged);
        if let Some(hit) = crossed {
            let percent = hit.percent();
            log.push(now, &Event::Limit { hit, percent })?;
        }
        for message in self
            .reverted_message()
            .into_iter()
            .chain(self.refused_host_messages())
        {
            log.push(now, &Event::note(message))?;
        }
        for output in outputs {
            log.push(now, output)?;
        }
        if let Some(question) = &result.question {
            log.push(now, &question_event(question))?;
        }
        // The agent did not report this failure.
        let has_no_exit = result.exit_code.is_none() && ended.signal.is_none();
        if let Some(reason) = reason.filter(|_| has_no_exit) {
            let error = Event::Error {
                message: reason.into(),
                fatal: true,
                failure_class: result.failure_class,
                http_status: None,
            };
            log.push(now, &error)?;
        }
        Ok(())
    }
}
