//! The steps before the agent starts: the secrets, the workspace and its lock, the prompt.

use vik_base::failpoint;
use vik_store::AttemptFailure;
use vik_workspace::Workspace;

use super::judged::Judged;
use super::opened::Opened;
use super::prepared::Prepared;
use super::scripts::ScriptRunner;
use super::workplace::{Acquired, NoWorkspace, Workplace};
use crate::hooks::Hook;

impl<'a> Opened<'a> {
    /// Takes the steps before the agent, except those that an earlier daemon completed.
    ///
    /// # Errors
    /// The failed attempt.
    pub(super) async fn prepare(self) -> Result<Prepared<'a>, Box<Judged<'a>>> {
        let Self { cx, log } = self;
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
        match workplace
            .scripts(cx, &secrets)
            .before_agent(&workplace.folder)
            .await
        {
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
}
