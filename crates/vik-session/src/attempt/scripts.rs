//! The scripts of an attempt (hooks and `verify`), with their environment and secrets.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use vik_base::{failpoint, report};
use vik_core::ended::Ended;
use vik_core::outcome::FailureClass;
use vik_proc::Graces;
use vik_store::{AttemptFailure, ScriptProgress, Step};

use super::commands::StopCause;
use super::context::stage_context;
use super::live::LivePhase;
use super::runner::AttemptRunner;
use crate::hooks::{self, Hook, HookError, ScriptContext};
use crate::host::{ATTEMPT_MARK, env_value};
use crate::secrets::{Resolver, SecretError};

/// The name of the prompt's commands in the journal.
pub const PROMPT: &str = "prompt";

impl AttemptRunner<'_> {
    pub(super) async fn verify(&mut self, workdir: &Path) -> Result<(), AttemptFailure> {
        let Some(source) = self.start().stage.verify.clone() else {
            return Ok(());
        };
        self.attempt
            .updates
            .set_facts(|facts| facts.phase = LivePhase::Verifying);
        let context = self.context(workdir);
        self.hook(Hook::Verify, &source, workdir, &context).await
    }

    pub(super) async fn after_run(&mut self, ended: &Ended) {
        let Some(source) = self.start().stage.after_run.clone() else {
            return;
        };
        self.attempt
            .updates
            .set_facts(|facts| facts.phase = LivePhase::Finishing);
        if let Err(failure) = self.run_after(&source, ended).await {
            let start = self.start();
            let error = failure.reason;
            tracing::error!(issue = start.issue.id.as_str(), stage = %start.stage.name, error, "after_run failed");
            self.attempt
                .updates
                .set_facts(|facts| facts.after_run_error = Some(error));
        }
    }

    async fn run_after(&mut self, source: &str, ended: &Ended) -> Result<(), AttemptFailure> {
        self.lock_workspace().await?;
        self.resolve_secrets().await?;
        let workdir = match self.workdir.clone() {
            Some(workdir) => workdir,
            None => self.reenter_workspace().await?,
        };
        let mut context = stage_context(self.host(), self.start(), &workdir);
        context.insert("session".to_owned(), self.session_value(ended));
        self.hook(Hook::AfterRun, source, &workdir, &Value::Object(context))
            .await
    }

    fn session_value(&self, ended: &Ended) -> Value {
        let result = self.conclusion.result.as_ref();
        let result = result
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or(Value::Null);
        let log = self.files.log().to_string_lossy().into_owned();
        json!({
            "id": self.id,
            "outcome": ended.result.outcome.as_str(),
            "failure_class": ended.result.failure_class.map_or("", FailureClass::as_str),
            "reason": ended.result.reason.as_deref().unwrap_or(""),
            "exit_code": ended.result.exit_code,
            "last_message": ended.last_message.as_deref().unwrap_or(""),
            "usage": ended.result.usage,
            "cost": ended.cost_usd,
            "cost_usd": ended.cost_usd,
            "log": log,
            "log_path": log,
            "result": result,
        })
    }

    /// Runs a hook once: if the journal contains its end, that result is returned.
    pub(super) async fn hook(
        &self,
        hook: Hook,
        source: &str,
        workdir: &Path,
        context: &Value,
    ) -> Result<(), AttemptFailure> {
        if let Some(failure) = self.script_result(hook.as_str()) {
            return failure.map_or(Ok(()), Err);
        }
        let script = vik_template::script(source, context).map_err(|error| {
            self.hook_failure(&HookError::Template {
                name: hook.to_string(),
                source: Box::new(error),
            })
        })?;
        self.note_started(hook.as_str()).await?;
        match hook {
            Hook::BeforeRun => failpoint::reach("before_run_started"),
            Hook::AfterRun => failpoint::reach("after_run_started"),
            _ => {}
        }
        let names = match hook {
            Hook::AfterCreate => &self.spec.create_secrets,
            _ => &self.start().stage.hook_secrets,
        };
        let mut place = self.place(workdir, self.hook_timeout(hook), names);
        self.confine_script(hook, workdir, &mut place)?;
        if hook == Hook::Verify {
            self.withhold_credentials_from_verify(workdir, &mut place.env, place.sandbox.as_mut())?;
        }
        let done = self.run_hook(hook, &script, place).await;
        let done = done.map_err(|error| match hook {
            Hook::Verify => self.verify_failure(error),
            _ => self.hook_failure(&error),
        });
        if done.is_err() && self.disk_fails().await {
            // The journal gets no end, so the hook runs again when there is space.
            return done;
        }
        self.note_for_good(Step::Finished {
            script: hook.to_string(),
            trouble: done.as_ref().err().cloned(),
        })
        .await?;
        match hook {
            Hook::BeforeRun => failpoint::reach("before_run_ended"),
            Hook::Verify => failpoint::reach("verify_ended"),
            Hook::AfterRun => failpoint::reach("after_run_ended"),
            _ => {}
        }
        done
    }

    /// Records the start of a script. Processes of the same script that an earlier daemon left are
    /// ended first.
    pub(super) async fn note_started(&self, script: &str) -> Result<(), AttemptFailure> {
        let was_started = self.journal().script_progress(script) == ScriptProgress::Started;
        if was_started {
            let (_, alive) = vik_proc::end_marked(ATTEMPT_MARK, &self.id, &[], &Graces::short()).await;
            if !alive.is_empty() {
                let reason = format!("cannot kill the processes of an interrupted `{script}`");
                return Err(AttemptFailure::failed(FailureClass::UnprovenEnd, reason));
            }
        }
        self.note_for_good(Step::Started {
            script: script.to_owned(),
        })
        .await
    }

    fn hook_timeout(&self, hook: Hook) -> Duration {
        match hook {
            Hook::Verify => self.start().stage.timeout.0,
            Hook::AfterCreate => self.spec.create_timeout.0,
            _ => self.start().stage.hook_timeout.0,
        }
    }

    async fn run_hook(&self, hook: Hook, script: &str, place: ScriptContext<'_>) -> Result<(), HookError> {
        if let Some(folder) = &self.folder {
            folder
                .check(&self.host().layout)
                .map_err(|source| HookError::Folder {
                    name: hook.to_string(),
                    source: Box::new(source),
                })?;
        }
        // The agent's work is complete. If the hook were cut off, the tracker would not learn of
        // it. Its own timeout bounds the wait.
        let commands = &self.attempt.commands;
        let stop = async {
            match hook {
                Hook::AfterRun => commands.killed().await,
                _ => {
                    commands.stopped().await;
                }
            }
        };
        let log = self.files.hook(hook.as_str());
        hooks::run(self.host(), hook.as_str(), script, place, &log, stop).await
    }

    pub(super) fn hook_failure(&self, error: &HookError) -> AttemptFailure {
        match error {
            HookError::Cancelled { .. } => {
                let halt = self.attempt.commands.stop_cause();
                halt.unwrap_or(StopCause::All).failure()
            }
            error => AttemptFailure::failed(FailureClass::Hook, report::chain(error)),
        }
    }

    fn verify_failure(&self, error: HookError) -> AttemptFailure {
        match error {
            HookError::Failed { ref tail, .. } => AttemptFailure {
                feedback: Some(tail.clone()),
                ..AttemptFailure::failed(FailureClass::Verify, error.to_string())
            },
            error @ HookError::Cancelled { .. } => self.hook_failure(&error),
            error => AttemptFailure::failed(FailureClass::Verify, report::chain(&error)),
        }
    }

    /// Returns the folder, the environment and the secrets of a script.
    pub(super) fn place<'p>(
        &'p self,
        workdir: &'p Path,
        timeout: Duration,
        names: &[String],
    ) -> ScriptContext<'p> {
        let mut env = self.host().environment.shared();
        self.add_vik_variables(&mut env);
        env.extend(self.secret_variables(names));
        ScriptContext {
            cwd: workdir,
            env,
            attempt: &self.id,
            timeout,
            sandbox: None,
            runs_agent_code: false,
            stdin: None,
            lock: self.lock.as_deref(),
        }
    }

    /// Resolves the secrets that this attempt needs, once. From then on they are masked.
    pub(super) async fn resolve_secrets(&mut self) -> Result<(), AttemptFailure> {
        if self.secrets.is_some() {
            return Ok(());
        }
        let mut names = self.spec.profile.secrets.clone();
        names.extend_from_slice(&self.start().stage.hook_secrets);
        if self.spec.after_create.is_some() {
            names.extend_from_slice(&self.spec.create_secrets);
        }
        if let Some(outputs) = &self.start().stage.outputs {
            names.extend_from_slice(&outputs.secrets);
        }
        let resolver = Resolver {
            host: self.host(),
            secrets: &self.attempt.workflow.secrets,
            folder: self.files.dir(),
        };
        let stop = async {
            self.attempt.commands.stopped().await;
        };
        let values = resolver.values(&names, stop).await.map_err(|error| match error {
            SecretError::Cancelled { .. } => self
                .attempt
                .commands
                .stop_cause()
                .unwrap_or(StopCause::All)
                .failure(),
            error => AttemptFailure::failed(error.class(), report::chain(&error)),
        })?;
        self.secrets = Some(values);
        Ok(())
    }

    /// Returns those of the attempt's secrets that `names` lists.
    pub(super) fn secret_variables(&self, names: &[String]) -> Vec<(String, String)> {
        self.secrets.iter().flat_map(|values| values.of(names)).collect()
    }

    /// Adds the variables that hooks and agents get in addition to their environment.
    pub(super) fn add_vik_variables(&self, env: &mut BTreeMap<String, String>) {
        let (host, start) = (self.host(), self.start());
        host.add_own(env);
        let own = [
            ("VIK_ISSUE_ID", start.issue.id.to_string()),
            ("VIK_ISSUE_TITLE", start.issue.title.to_string()),
            ("VIK_ISSUE_STATE", start.issue.state.to_string()),
            ("VIK_STAGE", start.stage.name.to_string()),
            ("VIK_RUN_ID", start.run.to_string()),
            ("VIK_ATTEMPT", start.attempt.to_string()),
            ("VIK_WORKFLOW", host.workflow_path.to_string_lossy().into_owned()),
            // git must not use a repository around a workspace that has none itself.
            (
                "GIT_CEILING_DIRECTORIES",
                host.layout.issues_dir().to_string_lossy().into_owned(),
            ),
        ];
        env.extend(own.map(|(name, value)| (name.to_owned(), env_value(&value))));
    }
}
