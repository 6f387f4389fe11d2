//! The steps before the agent starts: the workspace's lock, the workspace, the prompt.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::spawn_blocking;
use vik_base::report;
use vik_core::ids::IssueId;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::workflow::PromptSource;
use vik_proc::{FileLock, Graces};
use vik_store::{AttemptFailure, ScriptProgress, Step};
use vik_template::{Fence, Part};
use vik_workspace::{Prepared, Workspace, WorkspaceError, fs as private, git};

use super::approval::human_message;
use super::context::issue_context;
use super::intent;
use super::runner::AttemptRunner;
use super::scripts::PROMPT;
use crate::hooks::{self, Hook};
use crate::host::Host;

/// The interval at which a locked workspace is polled.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The prompt of an agent that resumes an earlier conversation, if the workflow does not define
/// one.
const RESUME_PROMPT: &str = "\
Your work on this issue was cut off before it was done. Go on where you were: look at what is in the working directory \
first, and do not do again what is done already.
{% if attempt.feedback %}
What you had done did not pass the check. The end of what it printed:

{{ attempt.feedback }}
{% endif %}";

impl AttemptRunner<'_> {
    /// Acquires the lock of the workspace, without which nothing starts there; the shim holds it as
    /// long as a process of the attempt is alive. A stage that may run beside others has its own
    /// lock.
    pub(super) async fn lock_workspace(&mut self) -> Result<(), AttemptFailure> {
        if self.lock.is_some() {
            return Ok(());
        }
        let (layout, start) = (&self.host().layout, self.start());
        let path = if start.stage.parallel {
            layout.stage_lock(&start.issue.id, &start.stage.name)
        } else {
            layout.issue_lock(&start.issue.id)
        };
        if let Some(folder) = path.parent() {
            private::create_private_dir_all(folder).map_err(|error| cannot_lock(&path, &error))?;
        }
        // The shims of a daemon that died may still be ending their processes.
        let deadline = Instant::now() + Graces::default().total();
        loop {
            if let Some(lock) = FileLock::try_acquire(&path).map_err(|error| cannot_lock(&path, &error))? {
                self.lock = Some(Arc::new(lock));
                return Ok(());
            }
            if Instant::now() >= deadline {
                let reason = "the workspace is locked: a process of an earlier attempt still runs in it";
                return Err(AttemptFailure::of(Outcome::Lost, reason));
            }
            self.pause().await?;
        }
    }

    /// Waits for one poll interval, or until the attempt must stop.
    async fn pause(&self) -> Result<(), AttemptFailure> {
        tokio::select! {
            () = tokio::time::sleep(LOCK_POLL_INTERVAL) => Ok(()),
            halt = self.attempt.commands.stopped() => Err(halt.failure()),
        }
    }

    /// Enters the issue workspace, and creates it if it does not exist.
    pub(super) async fn workspace(&mut self) -> Result<PathBuf, AttemptFailure> {
        let workdir = if self.start().stage.parallel {
            self.workspace_beside_others().await?
        } else {
            self.workspace_alone().await?
        };
        self.note(Step::WorkspaceReady)?;
        Ok(workdir)
    }

    /// Does the same as [`workspace_alone`](Self::workspace_alone) while another stage may be
    /// working in the workspace or creating it.
    async fn workspace_beside_others(&mut self) -> Result<PathBuf, AttemptFailure> {
        let path = self.host().layout.issue_lock(&self.start().issue.id);
        loop {
            let existing = self
                .in_workspace(|host, id| vik_workspace::open(&host.layout, id))
                .await?;
            if let Some(workspace) = existing {
                return Ok(self.enter(workspace));
            }
            if let Some(lock) = FileLock::try_acquire(&path).map_err(|error| cannot_lock(&path, &error))? {
                let workdir = self.workspace_alone().await;
                drop(lock);
                return workdir;
            }
            self.pause().await?;
        }
    }

    async fn workspace_alone(&mut self) -> Result<PathBuf, AttemptFailure> {
        // Without a hook, a workspace cannot be incomplete.
        let made_by_hook = self.spec.after_create.is_some();
        let was_created = match self.script_result(Hook::AfterCreate.as_str()) {
            Some(Some(failure)) => {
                self.preparing = true;
                return Err(failure);
            }
            ended => ended.is_some(),
        };
        let prepared = self
            .in_workspace(move |host, id| {
                // The hook succeeded, and the daemon died before it marked the workspace as ready.
                let record = |workspace: &Workspace| record_repository(host, id, workspace);
                let finished = if was_created {
                    vik_workspace::finish(&host.layout, id, record)?
                } else {
                    None
                };
                match finished {
                    Some(workspace) => Ok(Prepared::Existing(workspace)),
                    None => vik_workspace::prepare(&host.layout, id, made_by_hook),
                }
            })
            .await?;
        let fresh = match prepared {
            Prepared::Existing(workspace) => return Ok(self.enter(workspace)),
            Prepared::Created(workspace) => workspace,
        };
        let workdir = fresh.path().to_owned();
        if let Some(source) = self.spec.after_create.clone() {
            let context = Value::Object(issue_context(self.host(), &self.start().issue, &workdir));
            self.preparing = true;
            self.hook(Hook::AfterCreate, &source, &workdir, &context).await?;
            self.preparing = false;
        }
        let ready = self
            .in_workspace(move |host, id| {
                if made_by_hook {
                    record_repository(host, id, &fresh);
                }
                // Until the mark is set, the folder counts as incomplete: it is removed and created
                // again.
                fresh.mark_ready()?;
                Ok(fresh)
            })
            .await?;
        Ok(self.enter(ready))
    }

    fn enter(&mut self, workspace: Workspace) -> PathBuf {
        let workdir = workspace.path().to_owned();
        self.workdir = Some(workdir.clone());
        self.folder = Some(workspace);
        workdir
    }

    /// Enters the workspace that an earlier daemon made ready.
    pub(super) async fn reenter_workspace(&mut self) -> Result<PathBuf, AttemptFailure> {
        let workspace = self
            .in_workspace(|host, id| vik_workspace::open(&host.layout, id))
            .await?;
        workspace
            .map(|workspace| self.enter(workspace))
            .ok_or_else(|| AttemptFailure::failed(FailureClass::Hook, "the issue workspace is missing"))
    }

    async fn in_workspace<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Host, &IssueId) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, AttemptFailure> {
        let failed =
            |error: &dyn std::error::Error| AttemptFailure::failed(FailureClass::Hook, report::chain(error));
        let (host, id) = (Arc::clone(&self.attempt.host), self.start().issue.id.clone());
        spawn_blocking(move || act(&host, &id))
            .await
            .map_err(|error| failed(&error))?
            .map_err(|error| failed(&error))
    }

    /// Renders the prompt. Its commands may have side effects, so they run only once.
    pub(super) async fn prompt(&mut self, workdir: &Path, context: &Value) -> Result<(), AttemptFailure> {
        match self.script_result(PROMPT) {
            Some(None) => return Ok(()),
            Some(Some(failure)) => return Err(failure),
            None => {}
        }
        let failed = |text: String| AttemptFailure::failed(FailureClass::Hook, text);
        let (source, name) = self.prompt_template().await?;
        let fence = Fence::of(context, self.start().fenced);
        let prompt = vik_template::fenced_prompt(&source, context, &fence).map_err(|error| {
            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            failed(format!("{name}: {}{hint}", report::chain(&error)))
        })?;
        let has_commands = prompt
            .parts
            .iter()
            .any(|part| matches!(part, Part::Command { .. }));
        if has_commands {
            self.note_started(PROMPT).await?;
        }
        let mut added = intent::section(&self.start().intent, &source, &fence);
        added.push_str(&human_message(self.start(), &source));
        added.push_str(&self.output_section(&source, &fence));
        let written = self.write_prompt(workdir, &prompt.parts, &fence, &added).await;
        if written.is_err() && self.disk_fails().await {
            return written;
        }
        if has_commands {
            self.note_for_good(Step::Finished {
                script: PROMPT.to_owned(),
                trouble: written.as_ref().err().cloned(),
            })
            .await?;
        }
        written
    }

    async fn write_prompt(
        &self,
        workdir: &Path,
        parts: &[Part],
        fence: &Fence,
        added: &str,
    ) -> Result<(), AttemptFailure> {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Text(piece) => text.push_str(piece),
                Part::Command { script, has_data, .. } => {
                    let names = &self.start().stage.hook_secrets;
                    let mut place = self.place(workdir, Duration::ZERO, names);
                    // These commands run in the workspace like `before_run`.
                    self.confine_script(Hook::BeforeRun, workdir, &mut place)?;
                    let file = self.files.hook(PROMPT).with_extension("sh");
                    let stop = async {
                        self.attempt.commands.stopped().await;
                    };
                    let output = hooks::prompt_command(self.host(), script, place, &file, stop).await;
                    let output = output.map_err(|error| self.hook_failure(&error))?;
                    if *has_data && fence.is_closed() {
                        text.push_str(&fence.data(&output));
                    } else {
                        text.push_str(&output);
                    }
                }
            }
        }
        text.push_str(added);
        let text = fence.with_explanation(text);
        // The prompt is sent to a provider and shown to people.
        let text = vik_mask::mask(&text);
        private::write_private(&self.files.prompt(), text.as_bytes()).map_err(|error| {
            AttemptFailure::failed(FailureClass::Hook, format!("cannot write the prompt: {error}"))
        })
    }

    /// Returns the prompt's template and its name in messages.
    async fn prompt_template(&self) -> Result<(String, String), AttemptFailure> {
        let stage = &self.start().stage;
        if self.start().resume.is_some() {
            let template = stage.resume_prompt.as_deref().unwrap_or(RESUME_PROMPT);
            return Ok((template.to_owned(), "the resume prompt".to_owned()));
        }
        let (host, prompts) = (Arc::clone(&self.attempt.host), Arc::clone(&self.attempt.prompts));
        let prompt = stage.prompt.clone();
        let name = match &prompt {
            PromptSource::File(file) => format!("the prompt {file}"),
            PromptSource::Inline(_) => "the prompt".to_owned(),
        };
        let failed = |text: String| AttemptFailure::failed(FailureClass::Hook, text);
        // The file is read again after a restart. It may be on a disk that does not answer, and
        // stopping must not wait for that.
        tokio::select! {
            read = spawn_blocking(move || prompts.source(&host.workflow_dir, &prompt)) => match read {
                Ok(source) => Ok((source.map_err(failed)?, name)),
                Err(error) => Err(failed(format!("{name}: {error}"))),
            },
            halt = self.attempt.commands.stopped() => Err(halt.failure()),
        }
    }

    /// Returns how a script of this attempt ended, if its end is known: `Some(None)` for success,
    /// `Some(Some(_))` for a failure.
    pub(super) fn script_result(&self, script: &str) -> Option<Option<AttemptFailure>> {
        match self.journal().script_progress(script) {
            ScriptProgress::Ended(failure) => Some(failure.cloned()),
            ScriptProgress::NotStarted | ScriptProgress::Started => None,
        }
    }
}

/// Records the repository that `after_create` made, before an agent works there. Without a record
/// `vik git` refuses and reports it.
fn record_repository(host: &Host, issue: &IssueId, workspace: &Workspace) {
    if let Err(error) = git::take_record(&host.layout, issue, workspace) {
        let error = report::chain(&error);
        tracing::warn!(
            issue = issue.as_str(),
            error,
            "the git repository of the workspace was not recorded"
        );
    }
}

fn cannot_lock(path: &Path, error: &std::io::Error) -> AttemptFailure {
    AttemptFailure::failed(
        FailureClass::Hook,
        format!("cannot lock {}: {error}", path.display()),
    )
}
