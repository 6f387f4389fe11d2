//! The conclusion of an attempt: its outcome, its usage and its charge.

use std::borrow::Cow;
use std::path::Path;

use jiff::{Timestamp, Zoned};
use vik_agents::{Exit, resume_failure};
use vik_core::attempt::{AttemptResult, Start};
use vik_core::ended::Ended;
use vik_core::event::Event;
use vik_core::limits::{LimitHit, LimitScope, Spend};
use vik_core::money::MicroUsd;
use vik_core::outcome::{CostSource, FailureClass, Outcome, Usage};
use vik_core::workflow::{AgentProfile, Price};
use vik_proc::identity::boot_id;
use vik_proc::{Census, Mark, ProcessId, Proof, ShimSpec};
use vik_store::{AttemptFailure, AttemptFiles, SessionLog, StoreError};

use super::finish::AttemptEnd;
use super::runner::AttemptRunner;
use crate::host::{ATTEMPT_MARK, Host};
use crate::secrets::masked::read_tail;

/// The number of bytes at the end of an agent's stderr that are searched for the cause of a
/// failure.
const STDERR_TAIL_BYTES: u64 = 16 * 1024;

impl AttemptRunner<'_> {
    /// Evaluates the agent's output and the end of its process.
    pub(super) fn evaluate_output(&mut self, adapter: &mut dyn vik_agents::Adapter) {
        let stderr = read_tail(&self.files.stderr(), STDERR_TAIL_BYTES);
        let exit = match self.exit.as_ref().map(|record| (record.code, record.signal)) {
            Some((Some(code), _)) => Exit::Code(code),
            Some((None, Some(signal))) => Exit::Signal(signal),
            _ => Exit::Signal(9),
        };
        self.conclusion = adapter.conclude(exit, &stderr);
        if let Some(resume) = &self.start().resume {
            let asked = &resume.provider_session_id;
            let why = resume_failure(self.spec.profile.runtime, asked, &self.conclusion);
            self.resume_failure = why.map(Cow::into_owned);
        }
    }

    /// Returns the attempt's limit that the reported usage has reached.
    pub(super) fn reached_limit(&self) -> Option<LimitHit> {
        let conclusion = &self.conclusion;
        let (spend, _) = reported_spend(&self.spec.profile, conclusion.usage, conclusion.cost_usd);
        self.start().stage.limit.reached(LimitScope::Attempt, spend?)
    }

    pub(super) fn conclude(&self, failure: Option<AttemptFailure>) -> Ended {
        let failure = failure.map(|failure| AttemptFailure {
            reason: masked(failure.reason),
            feedback: failure.feedback.map(masked),
            ..failure
        });
        let (conclusion, profile) = (&self.conclusion, &self.spec.profile);
        let outcome = failure
            .as_ref()
            .map_or(Outcome::Succeeded, |failure| failure.outcome);
        let failure_class = failure.as_ref().and_then(|failure| failure.class);
        let (spend, cost_source) = reported_spend(profile, conclusion.usage, conclusion.cost_usd);
        let reason = failure.as_ref().map(|failure| failure.reason.clone());
        let resets_at = (failure_class == Some(FailureClass::RateLimit))
            .then(|| {
                let from_reason = || vik_agents::reset_time(reason.as_deref()?, &Zoned::now());
                conclusion.resets_at.or_else(from_reason)
            })
            .flatten();
        let exit = self.exit.as_ref();
        let until = exit
            .and_then(|exit| Timestamp::from_millisecond(exit.ended_at_ms.try_into().ok()?).ok())
            .unwrap_or_else(Timestamp::now);
        let took = until.duration_since(self.started_at).as_millis();
        let result = AttemptResult {
            outcome,
            failure_class,
            reason,
            feedback: failure.and_then(|failure| failure.feedback),
            changed: self.changed,
            ran: self.agent_ran,
            answered: self.answered,
            spend,
            cost_source,
            usage: conclusion.usage,
            resets_at,
            provider_session_id: conclusion.provider_session_id.clone(),
            resume_failed: self.resume_failure.is_some() || self.spec.resume_refused.is_some(),
            preparing: self.preparing,
            exit_code: exit.and_then(|record| record.code),
            proof: self.proof.map(str::to_owned),
        };
        Ended {
            signal: exit.and_then(|record| record.signal),
            duration_ms: u64::try_from(took).unwrap_or(0),
            last_message: conclusion.last_message.clone(),
            ..Ended::new(result, profile.estimate)
        }
    }

    /// Writes Vik's own events to the log, before the last one.
    pub(super) fn write_own_events(&mut self, ended: &Ended, log: &mut SessionLog) -> Result<(), StoreError> {
        let now = Timestamp::now();
        let result = &ended.result;
        let reason = result.reason.as_deref();
        if let Some(resume) = self.start().resume.as_ref().filter(|_| result.resume_failed) {
            let why = self.resume_failure.as_deref().or(reason);
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
            .is_some_and(|halt| halt.limit().is_some());
        let crossed = self
            .reached_limit()
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
        for summary in self.take_output_summaries() {
            log.push(now, &summary.event())?;
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

    /// Returns the parts of the shim's specification that are the same for every process of this
    /// attempt.
    pub(super) fn shim_spec(&self, program: &str, workdir: &Path) -> ShimSpec {
        shim_spec(self.files, &self.id, program, workdir)
    }
}

fn shim_spec(files: &AttemptFiles, id: &str, program: &str, workdir: &Path) -> ShimSpec {
    let mut spec = ShimSpec::new(program, workdir);
    spec.mark = Some(Mark::new(ATTEMPT_MARK, id));
    spec.exit_record = Some(files.exit());
    spec.census = Some(files.census());
    spec.control = Some(files.control());
    spec
}

/// Returns the usage that the agent reported, as money and tokens; `None` if it reported nothing.
pub(super) fn reported_spend(
    profile: &AgentProfile,
    usage: Usage,
    reported: Option<f64>,
) -> (Option<Spend>, CostSource) {
    let tokens = usage.total();
    let (usd, source) = match (reported, &profile.price) {
        (Some(usd), _) => (usd, CostSource::Reported),
        (None, Some(price)) if tokens > 0 => (cost_of(price, usage), CostSource::Price),
        (None, _) => (0.0, CostSource::None),
    };
    let is_known = tokens > 0 || source != CostSource::None;
    let spend = Spend {
        tokens,
        usd: MicroUsd::from_usd(usd),
    };
    (is_known.then_some(spend), source)
}

fn cost_of(price: &Price, usage: Usage) -> f64 {
    let fresh = usage
        .input_tokens
        .saturating_sub(usage.cached_input_tokens + usage.cache_write_input_tokens);
    let parts = [
        (fresh, price.input),
        (usage.cached_input_tokens, price.cached_input),
        (usage.cache_write_input_tokens, price.cache_write),
        (usage.output_tokens, price.output),
    ];
    parts
        .into_iter()
        .map(|(tokens, usd_per_million)| tokens as f64 * usd_per_million / 1e6)
        .sum()
}

impl AttemptEnd {
    /// Returns the end of an attempt that could not be recorded or read, or whose task broke.
    /// Processes that it may have left are found by its mark and ended first: only then is its slot
    /// free.
    pub async fn broken(host: &Host, start: &Start, failure: AttemptFailure) -> Self {
        let files = host.attempt_files(start);
        let id = start.attempt_id.to_string();
        let census = Census::read(&files.census());
        let spec = shim_spec(&files, &id, "", Path::new("/"));
        let no_process = ProcessId {
            pid: 0,
            start_time: 0,
        };
        let shim = census
            .as_ref()
            .and_then(|census| census.shim)
            .unwrap_or(no_process);
        let ran = census.as_ref().is_some_and(|census| census.agent.is_some());
        let boot = census.map_or_else(boot_id, |census| census.boot_id);
        let proof = match vik_proc::recover(&spec, shim, None, &boot).await {
            Ok(record) => record.proof,
            Err(lost) => lost.proof().clone(),
        };
        let failure = unproven_end_failure(&proof).unwrap_or(failure);
        let result = AttemptResult {
            failure_class: failure.class,
            reason: Some(failure.reason),
            ran,
            proof: Some(proof.name().to_owned()),
            ..AttemptResult::new(failure.outcome)
        };
        Self {
            ended: Ended::new(result, Spend::default()),
            log: files.log(),
        }
    }
}

/// Returns the text with its secrets masked.
fn masked(text: String) -> String {
    match vik_mask::mask(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(masked) => masked,
    }
}

/// Returns the failure for an end that is not proven.
pub(super) fn unproven_end_failure(proof: &Proof) -> Option<AttemptFailure> {
    let reason = "some of its processes could not be killed";
    (!proof.is_proven()).then(|| AttemptFailure::failed(FailureClass::UnprovenEnd, reason))
}
