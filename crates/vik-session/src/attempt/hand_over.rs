//! Repeats the hand-over of an attempt that succeeded: its outputs that are not carried out, then
//! `after_run`. The book of outputs decides which of them may be repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use vik_core::attempt::{AttemptResult, HandOverFailure};
use vik_core::ended::Ended;
use vik_core::limits::Spend;
use vik_core::outcome::Outcome;
use vik_core::outputs::{self as core, Refusal};
use vik_proc::identity::boot_id;
use vik_store::{AttemptFailure, ResumePoint};

use super::acceptance::Checked;
use super::commands::StopCause;
use super::concluded::Concluded;
use super::durable::not_saved;
use super::finish::Finish;
use super::live::LivePhase;
use super::opened::{Attempt, AttemptContext, OpenError};
use super::workplace::{Acquired, Workplace};
use crate::outputs::NotApplied;
use crate::secrets::masked::masked;

/// The name of what precedes the steps.
const PREPARATION: &str = "hand_over";

/// Carries out the steps of the hand-over that are not done, with the scripts of `attempt.start`.
pub(super) async fn run(attempt: Attempt) -> Finish {
    let attempt = attempt.under_lease();
    let files = attempt.host.attempt_files(&attempt.start);
    if !files.record().exists() {
        return Finish::HandedOver(Err(failed("the session files of the attempt are gone", true)));
    }
    let (mut cx, log) = match AttemptContext::open(&attempt, &files) {
        Ok(opened) => opened,
        Err(OpenError::Failed(failure)) => return Finish::HandedOver(Err(failed(failure.reason, false))),
        Err(OpenError::TooManyOpenFiles) => {
            return Finish::HandedOver(Err(failed("too many open files", false)));
        }
        Err(OpenError::StorageFailed(error)) => return Finish::StorageFailed(error),
    };
    // The log of the attempt is complete.
    drop(log);
    cx.spec.start.clone_from(&attempt.start);
    let ended = match cx.journal().plan(&boot_id()) {
        ResumePoint::Over { ended } => *ended,
        // The disk was full when it ended, and only the ledger has its result.
        _ => Ended::new(AttemptResult::new(Outcome::Succeeded), Spend::default()),
    };
    attempt
        .updates
        .set_facts(|facts| facts.phase = LivePhase::Finishing);
    let result = cx.repeat_hand_over(ended).await;
    let result = match cx.check_lease() {
        Ok(()) => result,
        Err(lost) => Err(failed(lost.reason, false)),
    };
    if let Some(error) = cx.disk.broken() {
        return Finish::StorageFailed(error);
    }
    match result {
        // The next daemon continues with the steps that are not done.
        Err(_) if attempt.commands.stop_cause() == Some(StopCause::All) => Finish::Detached,
        result => Finish::HandedOver(result),
    }
}

impl AttemptContext<'_> {
    async fn repeat_hand_over(&self, ended: Ended) -> Result<(), HandOverFailure> {
        let prepared = |failure: AttemptFailure| failed(failure.reason, false);
        let secrets = self.resolve_secrets().await.map_err(prepared)?;
        let workplace = Workplace {
            lock: self.lock_workspace().await.map_err(prepared)?,
            folder: self.reenter_workspace().await.map_err(prepared)?,
            before: None,
        };
        if let Some(checked) = self.outputs_to_repeat()? {
            let scripts = workplace.scripts(self, &secrets);
            match scripts.apply_outputs(workplace.workdir(), checked).await.failure {
                None => {}
                Some(NotApplied::HandOver(failure)) => return Err(failure),
                Some(NotApplied::Attempt(failure)) => return Err(failed(failure.reason, false)),
                Some(NotApplied::Refused(refusals)) => return Err(refused(&refusals)),
            }
        }
        let scripts = workplace.scripts(self, &secrets);
        scripts.save_work(&workplace.folder).await.map_err(not_saved)?;
        let Some(source) = self.start().stage.after_run.clone() else {
            return Ok(());
        };
        if let Some(cause) = self.attempt.commands.stop_cause() {
            return Err(self.after_run_failure(cause.failure()));
        }
        let concluded = Concluded {
            cx: self,
            ended,
            result: self.mapped_result().await,
            partial_bytes: None,
            not_saved: None,
            acquired: Acquired::default(),
        };
        let acquired = Acquired::new(Some(secrets), workplace);
        concluded
            .run_after(&source, acquired)
            .await
            .map_err(|failure| self.after_run_failure(failure))
    }

    /// Returns the requested outputs, if there are any, as the rules of the current workflow allow
    /// them. Their number was checked when the agent ended.
    fn outputs_to_repeat(&self) -> Result<Option<Checked<'_>>, HandOverFailure> {
        if !self.files.outputs().exists() {
            return Ok(None);
        }
        let unread = |failure: AttemptFailure| failed(failure.reason, false);
        let lines = self.requested_outputs().map_err(unread)?;
        let lines = lines.map_err(|refusals| refused(&refusals))?;
        let Some(policy) = self.start().stage.outputs.clone() else {
            let message = "the outputs cannot be carried out: the stage has no `outputs` any more";
            return if lines.is_empty() {
                Ok(None)
            } else {
                Err(failed(message, true))
            };
        };
        let refusals = core::check(&lines, &policy, &BTreeMap::new());
        if !refusals.is_empty() {
            return Err(refused(&refusals));
        }
        let book = self.open_output_book().map_err(unread)?;
        Ok(Some(Checked { policy, lines, book }))
    }
}

fn refused(refusals: &[Refusal]) -> HandOverFailure {
    let list: Vec<_> = refusals.iter().map(ToString::to_string).collect();
    failed(format!("the outputs are rejected: {}", list.join("; ")), true)
}

fn failed(reason: impl Into<String>, needs_person: bool) -> HandOverFailure {
    HandOverFailure {
        step: PREPARATION.to_owned(),
        reason: masked(reason.into()),
        wait: Duration::ZERO,
        needs_person,
    }
}
