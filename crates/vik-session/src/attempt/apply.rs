//! Has the outputs of an attempt carried out: on this machine, or by the hub that leads.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use uuid::Uuid;
use vik_core::outcome::Outcome;
use vik_core::outputs::{self as core, Line, Output, OutputNote, OutputPolicy, Progress};
use vik_store::{AttemptFailure, OutputBook};

use super::acceptance::Checked;
use super::commands::StopCause;
use super::live::LivePhase;
use super::opened::AttemptContext;
use super::scripts::ScriptRunner;
use crate::outputs::{
    AppliedOutputs, NotApplied, OutputAttempt, OutputControl, OutputHub, OutputRequest, OutputResponse,
    OutputRunner,
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
    pub(super) async fn apply_outputs(&self, workdir: &Path, checked: Checked<'_>) -> AppliedOutputs {
        let Checked { policy, lines, book } = checked;
        if let Some(cause) = self.cx.attempt.commands.stop_cause() {
            return NotApplied::from(cause.failure()).into();
        }
        self.cx
            .attempt
            .updates
            .set_facts(|facts| facts.phase = LivePhase::Finishing);
        match book {
            RunBook::Here(book) => {
                let attempt = LocalAttempt { cx: self.cx, book };
                let runner = self.output_runner(workdir, &policy.secrets, attempt);
                runner.apply(&policy, lines).await
            }
            RunBook::OnHub(hub) => match self.push_outputs(workdir, &policy, &lines, hub).await {
                Ok(()) => self.cx.apply_on_hub(hub, &lines).await,
                Err(failure) => failure.into(),
            },
        }
    }

    /// Pushes what the hub needs of the workspace for outputs that are not done, with the credentials
    /// of this machine.
    async fn push_outputs(
        &self,
        workdir: &Path,
        policy: &OutputPolicy,
        lines: &[Line],
        hub: &dyn OutputHub,
    ) -> Result<(), NotApplied> {
        let runner = self.output_runner(workdir, &[], self.cx);
        for line in lines {
            let last = core::last_note(hub.notes(), &line.key);
            let is_done = last.is_some_and(|note| note.progress == Progress::Applied);
            let rule = policy.rules.get(&line.output.kind()).filter(|_| !is_done);
            if let Some(rule) = rule {
                runner.push(rule, line).await?;
            }
        }
        Ok(())
    }

    fn output_runner<A>(&self, workdir: &Path, secrets: &[String], attempt: A) -> OutputRunner<'_, A> {
        let cx = self.cx;
        let mut env = cx.host().environment.shared();
        cx.add_vik_variables(&mut env);
        env.extend(self.secret_variables(secrets));
        OutputRunner {
            host: cx.host(),
            start: cx.start(),
            values: cx.context(workdir),
            env,
            lock: Some(self.lock),
            log: cx.files.outputs_log(),
            attempt,
        }
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
}

impl OutputControl for LocalAttempt<'_> {
    fn check(&self) -> Result<(), AttemptFailure> {
        self.cx.check()
    }

    async fn killed(&self) {
        self.cx.killed().await;
    }

    fn kill_failure(&self) -> Option<AttemptFailure> {
        self.cx.kill_failure()
    }
}

impl OutputControl for &AttemptContext<'_> {
    fn check(&self) -> Result<(), AttemptFailure> {
        self.check_lease()
    }

    async fn killed(&self) {
        self.attempt.commands.killed().await;
    }

    fn kill_failure(&self) -> Option<AttemptFailure> {
        let commands = &self.attempt.commands;
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
            match commands.stop_cause() {
                // Outputs that have started are completed, whatever becomes of the issue.
                Some(StopCause::Own(_)) | None if !commands.is_killed() => sleep(PAUSE).await,
                // What a hub may have done is in its book.
                cause => {
                    let cause = cause.unwrap_or(StopCause::All);
                    return NotApplied::from(cause.failure()).into();
                }
            }
        }
    }
}
