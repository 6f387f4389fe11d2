//! The steps before the agent starts: the secrets, the workspace and its lock, the prompt.

use serde_json::Value;
use vik_base::failpoint;
use vik_store::AttemptFailure;
use vik_template::TemplateError;
use vik_workspace::Workspace;

use super::context::sample_session;
use super::judged::Judged;
use super::opened::Opened;
use super::prepared::Prepared;
use super::scripts::ScriptRunner;
use super::workplace::{Acquired, NoWorkspace, Workplace};
use crate::hooks::{Hook, HookError};

impl<'a> Opened<'a> {
    /// Takes the steps before the agent, except those that an earlier daemon completed.
    ///
    /// # Errors
    /// The failed attempt.
    pub(super) async fn prepare(self) -> Result<Prepared<'a>, Box<Judged<'a>>> {
        let Self { cx, mut log } = self;
        let secrets = match cx.resolve_secrets().await {
            Ok(secrets) => secrets,
            Err(failure) => {
                let acquired = Acquired::default();
                return Err(Box::new(Judged::without_agent(cx, log, failure, acquired)));
            }
        };
        let lock = match cx.lock_workspace().await {
            Ok(lock) => lock,
            Err(failure) => {
                let acquired = Acquired {
                    secrets: Some(secrets),
                    ..Acquired::default()
                };
                return Err(Box::new(Judged::without_agent(cx, log, failure, acquired)));
            }
        };
        failpoint::reach("locked");
        let scripts = ScriptRunner {
            cx,
            secrets: &secrets,
            lock: &lock,
            folder: None,
        };
        let folder = match scripts.workspace().await {
            Ok(folder) => folder,
            Err(NoWorkspace {
                failure,
                by_after_create,
            }) => {
                let acquired = Acquired {
                    secrets: Some(secrets),
                    lock: Some(lock),
                    folder: None,
                };
                return Err(Box::new(Judged {
                    by_after_create,
                    ..Judged::without_agent(cx, log, failure, acquired)
                }));
            }
        };
        failpoint::reach("workspace_ready");
        let mut workplace = Workplace {
            lock,
            folder,
            before: None,
        };
        let scripts = workplace.scripts(cx, &secrets);
        let ready = match scripts.restore_work(&workplace.folder).await {
            Ok(line) => {
                if let Some(line) = line {
                    cx.write_note(&mut log.log, &line);
                }
                scripts.before_agent(&workplace.folder).await
            }
            Err(failure) => Err(failure),
        };
        match ready {
            Ok(()) => {
                workplace.before = cx.fingerprint(workplace.workdir()).await;
                Ok(Prepared {
                    cx,
                    log,
                    secrets,
                    workplace,
                })
            }
            Err(failure) => {
                let acquired = Acquired::new(Some(secrets), workplace);
                Err(Box::new(Judged::without_agent(cx, log, failure, acquired)))
            }
        }
    }
}

impl ScriptRunner<'_> {
    /// Moves the issue to the state of `start_state`, runs `before_run`, renders the prompt and
    /// takes a snapshot of the workspace.
    async fn before_agent(&self, folder: &Workspace) -> Result<(), AttemptFailure> {
        let cx = self.cx;
        let workdir = folder.path();
        let context = cx.context(workdir);
        self.check_later_scripts(&context)?;
        let (stage, issue) = (&cx.start().stage, &cx.start().issue);
        if let Some(start) = &stage.start_state
            && *issue.state != *start.state
        {
            let folder = &cx.host().workflow_dir;
            self.hook(Hook::StartState, &start.command, folder, &context)
                .await?;
        }
        if let Some(source) = &stage.before_run {
            self.hook(Hook::BeforeRun, source, workdir, &context).await?;
        }
        self.prompt(workdir, &context).await?;
        failpoint::reach("prompt_ready");
        cx.snapshot_before(folder).await?;
        failpoint::reach("base_taken");
        Ok(())
    }

    /// Refuses a script that would name a missing value after the agent has been paid: as far as it
    /// depends on the issue, that is certain before.
    fn check_later_scripts(&self, context: &Value) -> Result<(), AttemptFailure> {
        let (cx, stage) = (self.cx, &self.cx.start().stage);
        let mut after = context.clone();
        after["session"] = sample_session(&cx.files.log());
        for (hook, source, context) in [
            (Hook::Verify, &stage.verify, context),
            (Hook::AfterRun, &stage.after_run, &after),
        ] {
            // Only the agent knows its result, which a script can also name by another variable.
            let source = source.as_ref().filter(|source| !source.contains("result"));
            let rendered = source.map(|source| vik_template::script(source, context));
            if let Some(Err(error @ TemplateError::Undefined { .. })) = rendered {
                return Err(cx.hook_failure(&HookError::Template {
                    name: hook.to_string(),
                    source: Box::new(error),
                }));
            }
        }
        Ok(())
    }
}
