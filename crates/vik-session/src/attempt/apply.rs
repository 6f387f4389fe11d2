//! Has the outputs of an attempt carried out: on this machine, or by the hub that leads.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use uuid::Uuid;
use vik_core::outcome::Outcome;
use vik_core::outputs::{self as core, Line, Output, OutputNote, OutputPolicy};
use vik_store::{AttemptFailure, OutputBook};

use super::acceptance::Checked;
use super::commands::StopCause;
use super::live::LivePhase;
use super::opened::AttemptContext;
use super::scripts::ScriptRunner;
use crate::outputs::{
    AppliedOutputs, NotApplied, OutputAttempt, OutputHub, OutputRequest, OutputResponse, OutputRunner,
};

/// The pause before the hub that leads is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a hub may not know the attempt: it has just started to lead, and recovers its attempts.
const MAX_UNKNOWN: Duration = Duration::from_secs(60);

/// Where the book of a run is, and its outputs are carried out.
pub(super) enum RunBook<'h> {
    Here(OutputBook),
    OnHub(&'h dyn OutputHub),
}

impl RunBook<'_> {
    pub(super) fn notes(&self) -> &[OutputNote] {
        match self {
            Self::Here(book) => book.notes(),
            Self::OnHub(hub) => hub.notes(),
        }
    }
}

impl ScriptRunner<'_> {
    /// Carries out outputs that passed the checks.
    pub(super) async fn apply_outputs(
        &self,
        workdir: &std::path::Path,
        checked: Checked<'_>,
    ) -> AppliedOutputs {
        let Checked { policy, lines, book } = checked;
        if let Some(cause) = self.cx.attempt.commands.stop_cause() {
            return NotApplied::from(cause.failure()).into();
        }
        self.cx
            .attempt
            .updates
            .set_facts(|facts| facts.phase = LivePhase::Finishing);
        match book {
            RunBook::Here(book) => self.apply_here(workdir, &policy, lines, book).await,
            RunBook::OnHub(hub) => self.cx.apply_on_hub(hub, &lines).await,
        }
    }

    async fn apply_here(
        &self,
        workdir: &std::path::Path,
        policy: &OutputPolicy,
        lines: Vec<Line>,
        book: OutputBook,
    ) -> AppliedOutputs {
        let cx = self.cx;
        let mut env = cx.host().environment.shared();
        cx.add_vik_variables(&mut env);
        env.extend(self.secret_variables(&policy.secrets));
        let runner = OutputRunner {
            host: cx.host(),
            start: cx.start(),
            values: cx.context(workdir),
            env,
            lock: Some(self.lock),
            log: cx.files.outputs_log(),
            attempt: LocalAttempt { cx, book },
        };
        runner.apply(policy, lines).await
    }
}

/// An attempt that carries out its outputs itself.
struct LocalAttempt<'s> {
    cx: &'s AttemptContext<'s>,
    book: OutputBook,
}

impl OutputAttempt for LocalAttempt<'_> {
    fn notes(&self) -> &[OutputNote] {
        self.book.notes()
    }

    async fn record(&mut self, note: OutputNote, output: &Output) -> Result<(), AttemptFailure> {
        let recorded = self.book.record_durably(note, output);
        recorded.map_err(|error| self.cx.cannot_keep(&error))
    }

    fn check(&self) -> Result<(), AttemptFailure> {
        self.cx.check_lease()
    }

    async fn killed(&self) {
        self.cx.attempt.commands.killed().await;
    }

    fn kill_failure(&self) -> Option<AttemptFailure> {
        let commands = &self.cx.attempt.commands;
        commands
            .is_killed()
            .then(|| commands.stop_cause().unwrap_or(StopCause::All).failure())
    }
}

impl AttemptContext<'_> {
    /// Asks the hub that leads, and the next one if it ends, until the attempt is to stop. A hub joins
    /// a repeated request, or finds out by its book what an earlier hub has done.
    async fn apply_on_hub(&self, hub: &dyn OutputHub, lines: &[Line]) -> AppliedOutputs {
        let request = OutputRequest {
            id: Uuid::now_v7(),
            issue: self.start().issue.id.clone(),
            attempt_id: self.start().attempt_id,
            lines: core::to_text(lines),
            base_commit: self.base_commit(),
        };
        let commands = &self.attempt.commands;
        let mut unknown_since = None;
        loop {
            let response = tokio::select! {
                response = hub.send(&request) => response,
                () = commands.killed() => Err("the attempt is killed".to_owned()),
            };
            match response {
                Ok(OutputResponse::Applied(applied)) => return applied,
                Ok(OutputResponse::UnknownAttempt) => {
                    let since = *unknown_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > MAX_UNKNOWN {
                        let reason = "the hub that leads does not know the attempt";
                        return NotApplied::from(AttemptFailure::of(Outcome::Lost, reason)).into();
                    }
                }
                Ok(OutputResponse::NotLeading) => unknown_since = None,
                Err(why) => {
                    unknown_since = None;
                    tracing::warn!(why, "the hub has not carried out outputs: asking again");
                }
            }
            // What a hub may have done is in its book.
            tokio::select! {
                cause = commands.stopped() => return NotApplied::from(cause.failure()).into(),
                () = sleep(PAUSE) => {}
            }
        }
    }
}
