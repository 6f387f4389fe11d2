//! The work of a durable workspace: restored before the agent starts, saved after it.
//!
//! Git runs in `vik git durable`, under a shim like a hook and with the secrets of hooks: it ends
//! with the lease of the attempt, and an agent's settings have no effect on it.

use vik_base::report;
use vik_core::attempt::{BeforeRunFailure, HandOverFailure};
use vik_core::outcome::{FailureClass, Outcome};
use vik_store::AttemptFailure;
use vik_workspace::Workspace;
use vik_workspace::git::durable::DurableResult;

use super::judged::Judged;
use super::live::LivePhase;
use super::scripts::ScriptRunner;
use crate::durable::{command, limits, read_result};
use crate::secrets::masked::masked;

/// The name of the step for people, and of its output.
const STEP: &str = "workspace.durable";

impl ScriptRunner<'_> {
    /// Takes the issue over, so that no earlier attempt can save or push any more, and restores its
    /// work if another machine has saved it. Returns a line for the session log if there was any.
    pub(super) async fn restore_work(&self, folder: &Workspace) -> Result<Option<String>, AttemptFailure> {
        let Some(result) = self.durable_step("claim", folder).await? else {
            return Ok(None);
        };
        let refused = |reason: String| Err(AttemptFailure::failed(FailureClass::Hook, reason));
        match result {
            DurableResult::Claimed { work_ref, restored } => {
                Ok(restored.map(|work| format!("restored the workspace from {work_ref}: {work}")))
            }
            DurableResult::Fenced { holder } => Err(AttemptFailure::of(
                Outcome::Lost,
                format!("a newer attempt holds the issue ({holder})"),
            )),
            DurableResult::Diverged { saved } => refused(format!(
                "this workspace has work that was never saved, and the issue has continued on another machine \
                 ({saved}); take over what you need from it, and remove the workspace"
            )),
            DurableResult::Failed {
                reason,
                is_temporary: true,
            } => Err(AttemptFailure {
                before_run: Some(BeforeRunFailure::Failed),
                ..AttemptFailure::failed(
                    FailureClass::Hook,
                    format!("cannot restore the workspace (`{STEP}`): {reason}"),
                )
            }),
            DurableResult::Failed { reason, .. } => {
                refused(format!("cannot use the workspace (`{STEP}`): {reason}"))
            }
            DurableResult::Saved { .. } | DurableResult::Removed | DurableResult::NotClaimed => {
                refused(format!("unexpected result of `{STEP}`"))
            }
        }
    }

    /// Saves the work of the workspace. Returns a line for the session log if it was sent.
    pub(super) async fn save_work(&self, folder: &Workspace) -> Result<Option<String>, AttemptFailure> {
        let Some(result) = self.durable_step("save", folder).await? else {
            return Ok(None);
        };
        let reason = match result {
            DurableResult::Saved {
                work_ref,
                work,
                is_new,
                left_out,
            } => {
                let left_out = match left_out.as_slice() {
                    [] => String::new(),
                    folders => format!("; repositories inside are not saved: {}", folders.join(", ")),
                };
                let line = format!("saved the workspace to {work_ref}: {work}{left_out}");
                return Ok(is_new.then_some(line));
            }
            // The attempt failed before that, and says why.
            DurableResult::NotClaimed => return Ok(None),
            DurableResult::Fenced { holder: 0 } => {
                "the ref of the issue was removed from the remote".to_owned()
            }
            DurableResult::Fenced { holder } => format!("a newer attempt holds the issue ({holder})"),
            DurableResult::Failed { reason, .. } => reason,
            DurableResult::Claimed { .. } | DurableResult::Removed | DurableResult::Diverged { .. } => {
                "unexpected result".to_owned()
            }
        };
        let reason = format!("cannot save the workspace (`{STEP}`): {reason}");
        Err(AttemptFailure::failed(FailureClass::Hook, reason))
    }

    /// Carries out a step; `None` if the workspace is not durable.
    async fn durable_step(
        &self,
        step: &str,
        folder: &Workspace,
    ) -> Result<Option<DurableResult>, AttemptFailure> {
        let cx = self.cx;
        let Some(spec) = &cx.spec.durable else {
            return Ok(None);
        };
        cx.check_lease()?;
        let (start, host) = (cx.start(), cx.host());
        folder
            .check(&host.layout)
            .map_err(|error| AttemptFailure::failed(FailureClass::Hook, report::chain(&error)))?;
        let place = self.place(
            folder.path(),
            start.stage.hook_timeout.0,
            &start.stage.hook_secrets,
        );
        let log = cx.files.hook("durable");
        let command = command(host, spec, step, start.fencing_number, &place, &log);
        let run = host
            .supervisor
            .output_with_callback(
                &command,
                Some(self.lock),
                limits(&place),
                cx.attempt.commands.killed(),
                |_| {},
            )
            .await
            .map_err(|error| AttemptFailure::failed(FailureClass::Hook, report::chain(&error)))?;
        Ok(Some(read_result(&run, &log)))
    }
}

impl Judged<'_> {
    /// Saves the work of the workspace, whatever the outcome is.
    pub(super) async fn save_work(&mut self) {
        let cx = self.exited.cx;
        let verdict = &self.exited.verdict;
        let may_have_processes = verdict
            .failure()
            .is_some_and(|failure| failure.class == Some(FailureClass::UnprovenEnd));
        let acquired = &self.acquired;
        let (Some(lock), Some(folder)) = (&acquired.lock, &acquired.folder) else {
            return;
        };
        if cx.spec.durable.is_none() || may_have_processes || cx.disk.is_broken() || cx.check_lease().is_err()
        {
            return;
        }
        let Some(secrets) = &acquired.secrets else {
            let reason = "cannot save the workspace: the secrets of its hooks are not available";
            self.not_saved = Some(not_saved(AttemptFailure::failed(FailureClass::Hook, reason)));
            return;
        };
        let updates = &cx.attempt.updates;
        updates.set_facts(|facts| facts.phase = LivePhase::Finishing);
        let scripts = ScriptRunner {
            cx,
            secrets,
            lock,
            folder: Some(folder),
        };
        match scripts.save_work(folder).await {
            Ok(None) => {}
            Ok(Some(line)) => cx.log_note(&mut self.exited.log, &line),
            Err(failure) => {
                let error = &failure.reason;
                tracing::error!(error, "the workspace was not saved");
                cx.log_note(&mut self.exited.log, &masked(failure.reason.clone()));
                let failure = not_saved(failure);
                if self.exited.verdict.is_success() {
                    self.hand_over_failure.get_or_insert(failure);
                } else {
                    self.not_saved = Some(failure);
                }
            }
        }
    }
}

/// Returns the failure of a hand-over whose work is not saved: saving can be repeated.
pub(super) fn not_saved(failure: AttemptFailure) -> HandOverFailure {
    HandOverFailure {
        step: STEP.to_owned(),
        reason: masked(failure.reason),
        wait: std::time::Duration::ZERO,
        needs_person: false,
    }
}
