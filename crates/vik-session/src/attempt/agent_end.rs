//! How the agent of an attempt ended, and what it used.

use std::borrow::Cow;

use vik_agents::{Adapter, Conclusion, Exit, driver};
use vik_core::limits::{LimitHit, LimitScope, Spend};
use vik_core::money::MicroUsd;
use vik_core::outcome::{CostSource, FailureClass, Usage};
use vik_core::workflow::{AgentProfile, Price};
use vik_proc::{ExitRecord, Proof};
use vik_store::AttemptFailure;

use super::opened::AttemptContext;
use crate::secrets::masked::read_tail;

/// The number of bytes at the end of an agent's stderr that are searched for the cause of a
/// failure.
const STDERR_TAIL_BYTES: u64 = 16 * 1024;

/// How the agent of an attempt ended. The default is an attempt without an agent.
#[derive(Debug, Default)]
pub(super) struct AgentEnd {
    /// Whether the agent's own program was started.
    pub(super) ran: bool,
    /// The proof that the process tree has ended.
    pub(super) proof: Option<&'static str>,
    /// The exit record; `None` if the shim wrote none.
    pub(super) exit: Option<ExitRecord>,
    /// Whether the agent's model answered; `None` if not all of its output was read.
    pub(super) answered: Option<bool>,
    /// The number of bytes of partial lines; `None` if not all of its output was read.
    pub(super) partial_bytes: Option<u64>,
    pub(super) conclusion: Conclusion,
    /// Why the earlier conversation was not resumed.
    pub(super) resume_failure: Option<String>,
}

impl AgentEnd {
    /// Creates the end of an agent whose output was not read.
    pub(super) fn unread(proof: &Proof) -> Self {
        Self {
            ran: true,
            proof: Some(proof.name()),
            ..Self::default()
        }
    }
}

impl AttemptContext<'_> {
    /// Evaluates the agent's output and the end of its process.
    pub(super) fn evaluate_output(&self, adapter: &mut dyn Adapter, agent: &mut AgentEnd) {
        let stderr = read_tail(&self.files.stderr(), STDERR_TAIL_BYTES);
        let exit = match agent.exit.as_ref().map(|record| (record.code, record.signal)) {
            Some((Some(code), _)) => Exit::Code(code),
            Some((None, Some(signal))) => Exit::Signal(signal),
            _ => Exit::Signal(9),
        };
        agent.conclusion = adapter.conclude(exit, &stderr);
        if let Some(resume) = &self.start().resume {
            let asked = &resume.provider_session_id;
            let why = driver(self.spec.profile.runtime).resume_failure(asked, &agent.conclusion);
            agent.resume_failure = why.map(Cow::into_owned);
        }
    }

    /// Returns the attempt's limit that the reported usage has reached.
    pub(super) fn reached_limit(&self, agent: &AgentEnd) -> Option<LimitHit> {
        let conclusion = &agent.conclusion;
        let (spend, _) = reported_spend(&self.spec.profile, conclusion.usage, conclusion.cost_usd);
        self.start().stage.limit.reached(LimitScope::Attempt, spend?)
    }
}

/// Returns the usage that the agent reported, as money and tokens; `None` if it reported nothing.
pub fn reported_spend(
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

/// Returns the failure for an end that is not proven.
pub(super) fn unproven_end_failure(proof: &Proof) -> Option<AttemptFailure> {
    let reason = "some of its processes could not be killed";
    (!proof.is_proven()).then(|| AttemptFailure::failed(FailureClass::UnprovenEnd, reason))
}
