//! The scripts of an attempt (hooks and `verify`), with their environment and secrets.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use vik_base::{failpoint, report};
use vik_core::attempt::{BeforeRunFailure, Start};
use vik_core::outcome::FailureClass;
use vik_proc::{FileLock, Graces};
use vik_store::{AttemptFailure, ScriptProgress, Step};
use vik_workspace::{Workspace, fs as private, git};

use super::commands::StopCause;
use super::live::LivePhase;
use super::opened::AttemptContext;
use crate::hooks::{self, Hook, HookError, ScriptContext};
use crate::host::{ATTEMPT_MARK, Host, env_value};
use crate::secrets::{Resolver, SecretError, Values};

/// The name of the prompt's commands in the journal.
pub const PROMPT: &str = "prompt";

/// The length of the hexadecimal id of a commit in a repository with SHA-256.
const LONGEST_COMMIT_ID: u64 = 64;

/// Runs the scripts of an attempt: with its secrets, and under the lock of its workspace.
#[derive(Clone, Copy)]
pub(super) struct ScriptRunner<'s> {
    pub(super) cx: &'s AttemptContext<'s>,
    pub(super) secrets: &'s Values,
    pub(super) lock: &'s FileLock,
    /// The workspace, once it exists. An agent may put another folder at its path.
    pub(super) folder: Option<&'s Workspace>,
}

impl ScriptRunner<'_> {
    pub(super) async fn verify(&self, workdir: &Path) -> Result<(), AttemptFailure> {
        let Some(source) = self.cx.start().stage.verify.clone() else {
            return Ok(());
        };
        self.cx
            .attempt
            .updates
            .set_facts(|facts| facts.phase = LivePhase::Verifying);
        if let Some(checked) = self.cx.unchanged_check(workdir).await {
            return checked.trouble.map_or(Ok(()), Err);
        }
        let context = self.cx.context(workdir);
        self.hook(Hook::Verify, &source, workdir, &context).await
    }

    /// Runs `verify` after a turn, while the agent waits for input. Nothing is recorded: after the
    /// end of the agent it runs again, unless the attempt records this result. `cancel` stops it.
    pub(super) async fn verify_turn(
        &self,
        workdir: &Path,
        cancel: impl Future<Output = ()>,
    ) -> Result<(), TurnVerifyError> {
        let Some(source) = self.cx.start().stage.verify.clone() else {
            return Ok(());
        };
        let updates = &self.cx.attempt.updates;
        updates.set_facts(|facts| facts.phase = LivePhase::Verifying);
        let failed = TurnVerifyError::Failed;
        let context = self.cx.context(workdir);
        let script = vik_template::script(&source, &context).map_err(|error| {
            failed(self.cx.hook_failure(&HookError::Template {
                name: Hook::Verify.to_string(),
                source: Box::new(error),
            }))
        })?;
        let mut place = self
            .hook_place(Hook::Verify, workdir, &self.cx.start().stage.hook_secrets)
            .map_err(failed)?;
        // A search for processes of the attempt must not find the agent here, or `verify` there.
        let mark = format!("{}.verify", self.cx.id);
        place.attempt = &mark;
        match self.run_hook(Hook::Verify, &script, place, cancel).await {
            Ok(()) => Ok(()),
            Err(HookError::Cancelled { .. }) => Err(TurnVerifyError::Cancelled),
            Err(error) => Err(failed(self.cx.verify_failure(error))),
        }
    }

    /// Returns the folder, the environment, the secrets and the sandbox of a hook.
    fn hook_place<'p>(
        &'p self,
        hook: Hook,
        workdir: &'p Path,
        names: &[String],
    ) -> Result<ScriptContext<'p>, AttemptFailure> {
        let mut place = self.place(workdir, self.cx.hook_timeout(hook), names);
        self.cx.confine_script(hook, workdir, &mut place)?;
        if hook == Hook::Verify {
            self.withhold_credentials_from_verify(workdir, &mut place.env, place.sandbox.as_mut())?;
        }
        Ok(place)
    }

    /// Runs a hook once: if the journal contains its end, that result is returned.
    pub(super) async fn hook(
        &self,
        hook: Hook,
        source: &str,
        workdir: &Path,
        context: &Value,
    ) -> Result<(), AttemptFailure> {
        match self.cx.script_result(hook.as_str()) {
            Some(failure) => failure.map_or(Ok(()), Err),
            None => self.repeat_hook(hook, source, workdir, context).await,
        }
    }

    /// Runs a hook, whether or not it has run.
    pub(super) async fn repeat_hook(
        &self,
        hook: Hook,
        source: &str,
        workdir: &Path,
        context: &Value,
    ) -> Result<(), AttemptFailure> {
        let script = vik_template::script(source, context).map_err(|error| {
            self.cx.hook_failure(&HookError::Template {
                name: hook.to_string(),
                source: Box::new(error),
            })
        })?;
        self.cx.note_started(hook.as_str()).await?;
        match hook {
            Hook::BeforeRun => failpoint::reach("before_run_started"),
            Hook::AfterRun => failpoint::reach("after_run_started"),
            _ => {}
        }
        let names = match (hook, &self.cx.start().stage.start_state) {
            (Hook::AfterCreate, _) => &self.cx.spec.create_secrets,
            (Hook::StartState, Some(start)) => &start.secrets,
            _ => &self.cx.start().stage.hook_secrets,
        };
        let place = self.hook_place(hook, workdir, names)?;
        // The agent's work is complete. If `after_run` were cut off, the tracker would not learn of
        // it. Its own timeout bounds the wait.
        let commands = &self.cx.attempt.commands;
        let stop = async {
            match hook {
                Hook::AfterRun => commands.killed().await,
                _ => {
                    commands.stopped().await;
                }
            }
        };
        let done = self.run_hook(hook, &script, place, stop).await;
        let done = done.map_err(|error| match hook {
            Hook::Verify => self.cx.verify_failure(error),
            Hook::StartState | Hook::BeforeRun => AttemptFailure {
                before_run: before_run_failure(&error),
                ..self.cx.hook_failure(&error)
            },
            _ => self.cx.hook_failure(&error),
        });
        if done.is_err() && self.cx.disk_fails().await {
            // The journal gets no end, so the hook runs again when there is space.
            return done;
        }
        self.cx
            .note_for_good(Step::Finished {
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

    async fn run_hook(
        &self,
        hook: Hook,
        script: &str,
        place: ScriptContext<'_>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), HookError> {
        if let Some(folder) = self.folder {
            folder
                .check(&self.cx.host().layout)
                .map_err(|source| HookError::Folder {
                    name: hook.to_string(),
                    source: Box::new(source),
                })?;
        }
        let log = self.cx.files.hook(hook.as_str());
        hooks::run(self.cx.host(), hook.as_str(), script, place, &log, stop).await
    }

    /// Returns the folder, the environment and the secrets of a script.
    pub(super) fn place<'p>(
        &'p self,
        workdir: &'p Path,
        timeout: Duration,
        names: &[String],
    ) -> ScriptContext<'p> {
        let mut env = self.cx.host().environment.shared();
        self.cx.add_vik_variables(&mut env);
        env.extend(self.secret_variables(names));
        ScriptContext {
            cwd: workdir,
            env,
            attempt: &self.cx.id,
            timeout,
            sandbox: None,
            runs_agent_code: false,
            stdin: None,
            lock: Some(self.lock),
        }
    }

    /// Returns those of the attempt's secrets that `names` lists.
    pub(super) fn secret_variables(&self, names: &[String]) -> Vec<(String, String)> {
        self.secrets.of(names).collect()
    }
}

/// Why `verify` did not pass after a turn.
#[derive(Debug)]
pub(super) enum TurnVerifyError {
    Failed(AttemptFailure),
    /// It was stopped, so nothing is known.
    Cancelled,
}

/// Returns how `before_run` failed. A script that could not be run, or that left a process, is
/// corrected by a person.
fn before_run_failure(error: &HookError) -> Option<BeforeRunFailure> {
    match *error {
        HookError::Failed {
            requested_wait: Some(wait),
            ..
        } => Some(BeforeRunFailure::TryLater { wait }),
        HookError::Failed {
            is_unproven: false, ..
        } => Some(BeforeRunFailure::Failed),
        _ => None,
    }
}

impl AttemptContext<'_> {
    /// Returns how a script of this attempt ended, if its end is known: `Some(None)` for success,
    /// `Some(Some(_))` for a failure.
    pub(super) fn script_result(&self, script: &str) -> Option<Option<AttemptFailure>> {
        match self.journal().script_progress(script) {
            ScriptProgress::Ended(failure) => Some(failure.cloned()),
            ScriptProgress::NotStarted | ScriptProgress::Started => None,
        }
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

    pub(super) fn hook_failure(&self, error: &HookError) -> AttemptFailure {
        match error {
            HookError::Cancelled { .. } => {
                let cause = self.attempt.commands.stop_cause();
                cause.unwrap_or(StopCause::All).failure()
            }
            error => AttemptFailure {
                requested_wait: match error {
                    HookError::Failed { requested_wait, .. } => *requested_wait,
                    _ => None,
                },
                ..AttemptFailure::failed(FailureClass::Hook, report::chain(error))
            },
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

    /// Resolves the secrets that this attempt needs. From then on they are masked.
    pub(super) async fn resolve_secrets(&self) -> Result<Values, AttemptFailure> {
        self.check_lease()?;
        let mut names = self.agent_secrets();
        for (_, server) in self.own_servers() {
            names.extend_from_slice(&server.secrets);
        }
        names.extend_from_slice(&self.start().stage.hook_secrets);
        if self.spec.after_create.is_some() {
            names.extend_from_slice(&self.spec.create_secrets);
        }
        if let Some(outputs) = &self.start().stage.outputs
            && self.attempt.hub.is_none()
        {
            names.extend_from_slice(&outputs.secrets);
        }
        if let Some(start) = &self.start().stage.start_state {
            names.extend_from_slice(&start.secrets);
        }
        let resolver = Resolver {
            host: self.host(),
            secrets: &self.attempt.workflow.secrets,
            folder: self.files.dir(),
        };
        let stop = async {
            self.attempt.commands.stopped().await;
        };
        resolver.values(&names, stop).await.map_err(|error| match error {
            SecretError::Cancelled { .. } => self
                .attempt
                .commands
                .stop_cause()
                .unwrap_or(StopCause::All)
                .failure(),
            error => AttemptFailure::failed(error.class(), report::chain(&error)),
        })
    }

    /// Adds the variables that hooks and agents get in addition to their environment.
    pub(super) fn add_vik_variables(&self, env: &mut BTreeMap<String, String>) {
        vik_variables(self.host(), self.start(), env);
        if let Some(durable) = &self.spec.durable {
            env.insert(
                git::durable::NUMBER_VARIABLE.to_owned(),
                self.start().fencing_number.to_string(),
            );
            env.insert(git::durable::QUEUE_VARIABLE.to_owned(), durable.queue.clone());
            if let Some(remote) = &durable.remote {
                env.insert(git::durable::REMOTE_VARIABLE.to_owned(), env_value(remote));
            }
        }
        if let Some(commit) = self.base_commit() {
            env.insert("VIK_BASE_COMMIT".to_owned(), commit);
        }
    }

    /// Returns the commit at which the run began; `None` before its first agent, or without git.
    pub(super) fn base_commit(&self) -> Option<String> {
        let file = private::open(&self.files.base_commit(self.start().run)).ok()?;
        let mut commit = String::new();
        // An agent without a sandbox can write the file.
        file.take(LONGEST_COMMIT_ID).read_to_string(&mut commit).ok()?;
        git::is_id(&commit).then_some(commit)
    }
}

/// Adds the variables that follow from the start of an attempt.
pub(crate) fn vik_variables(host: &Host, start: &Start, env: &mut BTreeMap<String, String>) {
    host.add_own(env);
    host.add_issue(&start.issue, env);
    let own = [
        ("VIK_STAGE", start.stage.name.to_string()),
        ("VIK_RUN_ID", start.run.to_string()),
        ("VIK_ATTEMPT", start.attempt.to_string()),
    ];
    env.extend(own.map(|(name, value)| (name.to_owned(), env_value(&value))));
}
