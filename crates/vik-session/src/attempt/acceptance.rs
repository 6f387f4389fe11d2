//! The steps between the end of an agent and the success of its attempt: `verify`, the checks of its
//! outputs, and a person's approval. All outputs are checked before the first one is applied.

use std::path::Path;

use tokio::task::spawn_blocking;
use vik_base::failpoint;
use vik_core::attempt::HandOverFailure;
use vik_core::event::Event;
use vik_core::outcome::FailureClass;
use vik_core::outputs::{self as core, Line, OutputPolicy, Refusal, Rule};
use vik_store::{AttemptFailure, StoreError};
use vik_workspace::fs as private;

use super::apply::RunBook;
use super::opened::AttemptContext;
use super::outputs::{refusal_event, result_events};
use super::scripts::ScriptRunner;
use super::session_log::ClosableLog;
use crate::outputs::{self, NotApplied};

/// The number of refusals in a reason, and in the feedback for the next attempt.
const NAMED: usize = 3;
const MAX_REPORTED: usize = 20;

/// An attempt whose agent succeeded, and whose result is to be accepted.
pub(super) struct Acceptance<'s> {
    pub(super) scripts: ScriptRunner<'s>,
    pub(super) workdir: &'s Path,
    pub(super) log: &'s mut ClosableLog,
    /// The results of the outputs so far.
    pub(super) results: &'s mut Vec<Event<'static>>,
}

/// Why a result is not accepted.
#[derive(Debug)]
pub(super) enum Unaccepted {
    Failed(AttemptFailure),
    /// The daemon exits while a person is asked: the next one continues to wait.
    Detached,
}

impl From<AttemptFailure> for Unaccepted {
    fn from(failure: AttemptFailure) -> Self {
        Self::Failed(failure)
    }
}

/// The outputs of an agent, all of which passed the checks.
pub(super) struct Checked<'s> {
    pub(super) policy: OutputPolicy,
    pub(super) lines: Vec<Line>,
    pub(super) book: RunBook<'s>,
}

impl<'s> Acceptance<'s> {
    pub(super) fn cx(&self) -> &'s AttemptContext<'s> {
        self.scripts.cx
    }

    /// Runs the steps between the agent's end and success: `verify`, a person's approval if one is
    /// required, and the outputs. Returns why an output was not carried out: the work is accepted
    /// nevertheless.
    pub(super) async fn run(&mut self) -> Result<Option<HandOverFailure>, Unaccepted> {
        // `verify` runs code that the agent wrote, and may depend on what the agent asks for.
        self.take_outputs().await?;
        let checked = self.checked_outputs()?;
        self.scripts.verify(self.workdir).await?;
        let asked_for = checked
            .as_ref()
            .map(|checked| outputs::to_be_approved(&checked.lines, &checked.policy))
            .unwrap_or_default();
        self.accept_result(asked_for).await?;
        let Some(checked) = checked else {
            return Ok(None);
        };
        let applied = self.scripts.apply_outputs(self.workdir, checked).await;
        *self.results = result_events(&applied.results);
        match applied.failure {
            None => Ok(None),
            Some(NotApplied::Attempt(failure)) => Err(failure.into()),
            Some(NotApplied::HandOver(failure)) => Ok(Some(failure)),
            Some(NotApplied::Refused(refusals)) => Err(self.refuse(&refusals).into()),
        }
    }

    /// Copies the agent's outputs once. No process of the agent is alive any more.
    async fn take_outputs(&mut self) -> Result<(), AttemptFailure> {
        let (from, to) = (self.cx().output_file(), self.cx().files.outputs());
        if self.cx().start().stage.outputs.is_none() || to.exists() {
            return Ok(());
        }
        let path = to.clone();
        let taken = spawn_blocking(move || match outputs::read_output_file(&from) {
            Ok(bytes) => private::write_atomic(&to, &bytes).map(Ok),
            Err(error) => Ok(Err(error)),
        });
        match taken.await.map_err(std::io::Error::other).flatten() {
            Ok(Ok(())) => {
                failpoint::reach("outputs_taken");
                Ok(())
            }
            Ok(Err(error)) => {
                let refusal = Refusal::of_file(Rule::NotText, format!("cannot read the file: {error}"));
                Err(self.refuse(&[refusal]))
            }
            Err(source) => Err(self.cx().cannot_keep(&StoreError::Write { path, source })),
        }
    }

    /// Returns the requested outputs if all of them are allowed.
    fn checked_outputs(&mut self) -> Result<Option<Checked<'s>>, AttemptFailure> {
        let Some(policy) = self.cx().start().stage.outputs.clone() else {
            return Ok(None);
        };
        let lines = match self.cx().requested_outputs()? {
            Ok(lines) => lines,
            Err(refusals) => return Err(self.refuse(&refusals)),
        };
        if lines.is_empty() {
            return Ok(None);
        }
        let secrets = outputs::secrets(&lines);
        if !secrets.is_empty() {
            return Err(self.refuse(&secrets));
        }
        let book = self.cx().open_output_book()?;
        let refusals = core::check(&lines, &policy, &core::counted_outputs(book.notes()));
        if !refusals.is_empty() {
            return Err(self.refuse(&refusals));
        }
        Ok(Some(Checked { policy, lines, book }))
    }

    /// Returns the failure of an attempt whose outputs are refused: none of them is applied.
    fn refuse(&mut self, refusals: &[Refusal]) -> AttemptFailure {
        let list = |max: usize, between: &str| {
            let some: Vec<_> = refusals.iter().take(max).map(ToString::to_string).collect();
            let more = match refusals.len().saturating_sub(max) {
                0 => String::new(),
                more => format!("{between}and {more} more"),
            };
            some.join(between) + &more
        };
        let reason = format!("its outputs were rejected: {}", list(NAMED, "; "));
        let feedback = format!(
            "What you asked for in the file of outputs is refused, and none of it was done:\n- {}\nAsk again for what these \
             rules allow.\n",
            list(MAX_REPORTED, "\n- ")
        );
        *self.results = refusals.iter().take(MAX_REPORTED).map(refusal_event).collect();
        AttemptFailure {
            feedback: Some(feedback),
            ..AttemptFailure::failed(FailureClass::Verify, reason)
        }
    }
}
