//! The workspace of an attempt: its lock, its creation, and the way back into it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::spawn_blocking;
use vik_base::report;
use vik_core::ids::IssueId;
use vik_core::outcome::{FailureClass, Outcome};
use vik_proc::{FileLock, Graces};
use vik_store::{AttemptFailure, Step};
use vik_workspace::{Fingerprint, Prepared, Workspace, WorkspaceError, fs as private, git};

use super::context::issue_context;
use super::opened::AttemptContext;
use super::scripts::ScriptRunner;
use crate::hooks::Hook;
use crate::host::Host;
use crate::secrets::Values;

/// The interval at which a locked workspace is polled.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The workspace of an attempt, under its lock.
pub(super) struct Workplace {
    /// Held until no process of the attempt is alive, including `after_run`.
    pub(super) lock: Arc<FileLock>,
    /// The handle of the folder, as an agent may put another folder at its path.
    pub(super) folder: Workspace,
    /// The fingerprint of the workspace before the agent ran, if it is known.
    pub(super) before: Option<Fingerprint>,
}

impl Workplace {
    pub(super) fn workdir(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the runner of scripts in this workspace.
    pub(super) fn scripts<'s>(&'s self, cx: &'s AttemptContext<'_>, secrets: &'s Values) -> ScriptRunner<'s> {
        ScriptRunner {
            cx,
            secrets,
            lock: &self.lock,
            folder: Some(&self.folder),
        }
    }
}

/// What an attempt had acquired when it came to its end. `after_run` acquires the rest.
#[derive(Default)]
pub(super) struct Acquired {
    pub(super) secrets: Option<Values>,
    pub(super) lock: Option<Arc<FileLock>>,
    pub(super) folder: Option<Workspace>,
}

impl Acquired {
    pub(super) fn new(secrets: Option<Values>, workplace: Workplace) -> Self {
        Self {
            secrets,
            lock: Some(workplace.lock),
            folder: Some(workplace.folder),
        }
    }
}

/// Why there is no workspace.
pub(super) struct NoWorkspace {
    pub(super) failure: AttemptFailure,
    /// Whether `after_create` failed: the workspace is created again in a clean folder.
    pub(super) by_after_create: bool,
}

impl From<AttemptFailure> for NoWorkspace {
    fn from(failure: AttemptFailure) -> Self {
        Self {
            failure,
            by_after_create: false,
        }
    }
}

impl NoWorkspace {
    fn after_create(failure: AttemptFailure) -> Self {
        Self {
            failure,
            by_after_create: true,
        }
    }
}

impl AttemptContext<'_> {
    /// Acquires the lock of the workspace, without which nothing starts there; the shim holds it as
    /// long as a process of the attempt is alive. A stage that may run beside others has its own
    /// lock.
    pub(super) async fn lock_workspace(&self) -> Result<Arc<FileLock>, AttemptFailure> {
        let (layout, start) = (&self.host().layout, self.start());
        let path = if start.stage.parallel {
            layout.stage_lock(&start.issue.id, &start.stage.name)
        } else {
            layout.issue_lock(&start.issue.id)
        };
        private::create_parent(&path).map_err(|error| cannot_lock(&path, &error))?;
        // The shims of a daemon that died may still be ending their processes.
        let deadline = Instant::now() + Graces::default().total();
        loop {
            if let Some(lock) = FileLock::try_acquire(&path).map_err(|error| cannot_lock(&path, &error))? {
                return Ok(Arc::new(lock));
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
            cause = self.attempt.commands.stopped() => Err(cause.failure()),
        }
    }

    /// Enters the workspace that an earlier daemon made ready.
    pub(super) async fn reenter_workspace(&self) -> Result<Workspace, AttemptFailure> {
        self.in_workspace(|host, id| vik_workspace::open(&host.layout, id))
            .await?
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
}

impl ScriptRunner<'_> {
    /// Enters the issue workspace, and creates it if it does not exist.
    pub(super) async fn workspace(&self) -> Result<Workspace, NoWorkspace> {
        let folder = if self.cx.start().stage.parallel {
            self.workspace_beside_others().await?
        } else {
            self.workspace_alone().await?
        };
        self.cx.note(Step::WorkspaceReady)?;
        Ok(folder)
    }

    /// Does the same as [`workspace_alone`](Self::workspace_alone) while another stage may be
    /// working in the workspace or creating it.
    async fn workspace_beside_others(&self) -> Result<Workspace, NoWorkspace> {
        let path = self.cx.host().layout.issue_lock(&self.cx.start().issue.id);
        loop {
            let existing = self
                .cx
                .in_workspace(|host, id| vik_workspace::open(&host.layout, id))
                .await?;
            if let Some(workspace) = existing {
                return Ok(workspace);
            }
            if let Some(lock) = FileLock::try_acquire(&path).map_err(|error| cannot_lock(&path, &error))? {
                let created = self.workspace_alone().await;
                drop(lock);
                return created;
            }
            self.cx.pause().await?;
        }
    }

    async fn workspace_alone(&self) -> Result<Workspace, NoWorkspace> {
        let cx = self.cx;
        // Without a hook, a workspace cannot be incomplete.
        let made_by_hook = cx.spec.after_create.is_some();
        let was_created = match cx.script_result(Hook::AfterCreate.as_str()) {
            Some(Some(failure)) => return Err(NoWorkspace::after_create(failure)),
            ended => ended.is_some(),
        };
        let is_durable = cx.attempt.workflow.workspace_durable.is_some();
        let prepared = cx
            .in_workspace(move |host, id| {
                // The hook succeeded, and the daemon died before it marked the workspace as ready.
                let record = |workspace: &Workspace| record_repository(host, id, workspace, is_durable);
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
            Prepared::Existing(workspace) => return Ok(workspace),
            Prepared::Created(workspace) => workspace,
        };
        // The commits of a workspace that was removed may not exist in this one.
        let _ = std::fs::remove_file(cx.files.base_commit(cx.start().run));
        if let Some(source) = &cx.spec.after_create {
            let workdir = fresh.path();
            let context = Value::Object(issue_context(cx.host(), &cx.start().issue, workdir));
            self.hook(Hook::AfterCreate, source, workdir, &context)
                .await
                .map_err(NoWorkspace::after_create)?;
        }
        let ready = cx.in_workspace(move |host, id| {
            if made_by_hook {
                record_repository(host, id, &fresh, is_durable);
            }
            // Until the mark is set, the folder counts as incomplete: it is removed and created
            // again.
            fresh.mark_ready()?;
            Ok(fresh)
        });
        Ok(ready.await?)
    }
}

/// Records the repository that `after_create` made, before an agent works there. Without a record
/// `vik git` refuses and reports it.
fn record_repository(host: &Host, issue: &IssueId, workspace: &Workspace, is_durable: bool) {
    if let Err(error) = git::take_record(&host.layout, issue, workspace) {
        let error = report::chain(&error);
        tracing::warn!(error, "the git repository of the workspace was not recorded");
    }
    // Without the note, the work that another machine saved would not replace what is there.
    if is_durable && let Err(error) = git::durable::note_created(&host.layout, issue) {
        let error = report::chain(&error);
        tracing::warn!(error, "the creation of the workspace was not recorded");
    }
}

fn cannot_lock(path: &Path, error: &std::io::Error) -> AttemptFailure {
    AttemptFailure::failed(
        FailureClass::Hook,
        format!("cannot lock {}: {error}", path.display()),
    )
}
