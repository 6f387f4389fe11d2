//! The scripts of an attempt: hooks and `verify`, with what they may see.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use vik_core::event::Ended;
use vik_core::outcome::FailureClass;

use super::attempt::{Trouble, Work};
use super::context::stage_context;
use super::live::LivePhase;
use crate::hooks::{self, Hook, HookError, Place};
use crate::host::fit;
use crate::report;
use crate::template;

impl Work<'_> {
    pub(super) async fn verify(&mut self, workdir: &Path, context: &Value) -> Result<(), Trouble> {
        let Some(source) = &self.start().stage.verify else {
            return Ok(());
        };
        self.attempt.live.set(|facts| facts.phase = LivePhase::Verifying);
        self.hook(Hook::Verify, source, workdir, context)
            .await
            .map_err(|error| match error {
                HookError::Failed { ref tail, .. } => Trouble {
                    feedback: Some(tail.clone()),
                    ..Trouble::failed(FailureClass::Verify, error.to_string())
                },
                error @ HookError::Cancelled { .. } => Trouble::hook(&error),
                error => Trouble {
                    class: Some(FailureClass::Verify),
                    ..Trouble::hook(&error)
                },
            })
    }

    pub(super) async fn after_run(&mut self, workdir: &Path, ended: &Ended) {
        let Some(source) = &self.start().stage.after_run else {
            return;
        };
        self.attempt.live.set(|facts| facts.phase = LivePhase::Finishing);
        let mut context = stage_context(self.host(), self.start(), workdir);
        context.insert("session".to_owned(), self.session_value(ended));
        let done = self
            .hook(Hook::AfterRun, source, workdir, &Value::Object(context))
            .await;
        if let Err(error) = done {
            let start = self.start();
            let error = report::chain(&error);
            tracing::error!(issue = ?start.issue.id, stage = %start.stage.name, error, "after_run failed");
            self.attempt.live.set(|facts| facts.after_run_error = Some(error));
        }
    }

    fn session_value(&self, ended: &Ended) -> Value {
        let result = self.conclusion.result.as_ref();
        let result = result
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or(Value::Null);
        let log = self.files.log().to_string_lossy().into_owned();
        json!({
            "id": self.id,
            "outcome": ended.outcome.as_str(),
            "failure_class": ended.failure_class.map_or("", FailureClass::as_str),
            "reason": ended.reason.as_deref().unwrap_or(""),
            "exit_code": ended.exit_code,
            "last_message": ended.last_message.as_deref().unwrap_or(""),
            "usage": ended.usage,
            "cost": ended.cost_usd,
            "cost_usd": ended.cost_usd,
            "log": log,
            "log_path": log,
            "result": result,
        })
    }

    pub(super) async fn hook(
        &self,
        hook: Hook,
        source: &str,
        workdir: &Path,
        context: &Value,
    ) -> Result<(), HookError> {
        let timeout = match hook {
            Hook::Verify => self.start().stage.timeout.0,
            _ => self.start().stage.hook_timeout.0,
        };
        self.hook_within(hook, source, workdir, context, timeout).await
    }

    pub(super) async fn hook_within(
        &self,
        hook: Hook,
        source: &str,
        workdir: &Path,
        context: &Value,
        timeout: Duration,
    ) -> Result<(), HookError> {
        let script = template::script(source, context).map_err(|error| HookError::Template {
            name: hook.to_string(),
            source: Box::new(error),
        })?;
        if let Some(folder) = &self.folder {
            folder
                .check(&self.host().layout)
                .map_err(|source| HookError::Folder {
                    name: hook.to_string(),
                    source: Box::new(source),
                })?;
        }
        let log = self.files.hook(hook.as_str());
        // What the agent did is done: cut off, its tracker would never hear of it. Its own timeout bounds the wait.
        let orders = &self.attempt.orders;
        let stop = async {
            match hook {
                Hook::AfterRun => orders.killed().await,
                _ => drop(orders.halted().await),
            }
        };
        hooks::run(
            self.host(),
            hook,
            &script,
            self.place(workdir, timeout),
            &log,
            stop,
        )
        .await
    }

    pub(super) fn place<'p>(&'p self, workdir: &'p Path, timeout: Duration) -> Place<'p> {
        let mut env = self.host().environment.clone();
        self.add_own(&mut env);
        Place {
            cwd: workdir,
            env,
            attempt: &self.id,
            timeout,
            lock: self.lock.as_deref(),
        }
    }

    /// What hooks and agents get beside their environment.
    pub(super) fn add_own(&self, env: &mut BTreeMap<String, String>) {
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
            // A workspace without a repository of its own must not be taken for a part of one around it.
            (
                "GIT_CEILING_DIRECTORIES",
                host.layout.issues_dir().to_string_lossy().into_owned(),
            ),
        ];
        env.extend(own.map(|(name, value)| (name.to_owned(), fit(&value))));
    }
}
