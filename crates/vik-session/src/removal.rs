//! Removes the workspace of an issue, for the daemon and for `vik prune`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::spawn_blocking;
use vik_base::report;
use vik_core::issue::Issue;
use vik_core::workflow::Workflow;
use vik_proc::FileLock;
use vik_workspace::git::durable::DurableResult;
use vik_workspace::{UnsavedWork, Workspace, WorkspaceError, WorkspaceLock, fs as private};

use crate::attempt::issue_context;
use crate::durable;
use crate::hooks::{self, Hook, ScriptContext};
use crate::host::Host;
use crate::sandbox;
use crate::secrets::Resolver;

/// How often a workspace that is in use is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The progress of a removal, on disk, because `before_remove` cannot be undone.
#[derive(Serialize, Deserialize)]
struct Record {
    /// The attempt mark of the hook's processes.
    id: String,
    /// Whether the hook has succeeded.
    hook_ended: bool,
}

/// What happens to work that exists nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsaved {
    /// The workspace is kept.
    Keep,
    /// It is removed with the workspace.
    Remove,
}

/// The result of a removal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    Removed {
        bytes: u64,
    },
    /// There was no workspace.
    Absent,
    /// The workspace was kept, with the reason.
    Kept(String),
}

/// Why a removal failed. The workspace is kept.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    #[error("it is in use")]
    InUse,
    /// The hook `before_remove` failed.
    #[error("{0}")]
    Hook(String),
    #[error(transparent)]
    Files(#[from] WorkspaceError),
    #[error("bug in Vik")]
    Bug(#[from] tokio::task::JoinError),
}

/// Removes the workspace of an issue, with its scratch folder, after its hook `before_remove`. Waits
/// for up to `patience` while a process uses the workspace.
///
/// # Errors
/// When a process uses the workspace, the hook fails, or something cannot be removed.
pub async fn remove(
    host: &Arc<Host>,
    workflow: &Workflow,
    issue: &Issue,
    (unsaved, patience): (Unsaved, Duration),
    cancel: impl Future<Output = ()>,
) -> Result<Removal, RemovalError> {
    let locked = lock(host, issue, patience).await?;
    let found = blocking(host, issue, |host, issue| {
        vik_workspace::open(&host.layout, &issue.id)
    })
    .await?;
    // An incomplete workspace holds no work, so it needs neither the check nor the hook.
    if let Some(found) = &found {
        if unsaved == Unsaved::Keep {
            let scratch = host.layout.service_dir();
            let leftover = vik_workspace::unsaved_work(&host.supervisor, found.path(), &scratch).await;
            if let Some(why) = UnsavedWork::reason(&leftover) {
                return Ok(Removal::Kept(why));
            }
        }
        if let Some(source) = &workflow.issue.before_remove {
            before_remove(host, workflow, issue, source, found, locked.issue(), cancel)
                .await
                .map_err(|error| RemovalError::Hook(report::chain(&*error)))?;
        }
        remove_saved_work(host, workflow, issue, found, locked.issue()).await;
    }
    let removed = blocking(host, issue, |host, issue| {
        vik_workspace::remove(&host.layout, &issue.id)
    })
    .await?;
    let _ = std::fs::remove_file(host.layout.removing_record(&issue.id));
    Ok(match removed.found {
        true => Removal::Removed { bytes: removed.bytes },
        false => Removal::Absent,
    })
}

async fn before_remove(
    host: &Host,
    workflow: &Workflow,
    issue: &Issue,
    source: &str,
    workspace: &Workspace,
    lock: &FileLock,
    cancel: impl Future<Output = ()>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let path = host.layout.removing_record(&issue.id);
    if private::read_json(&path).is_ok_and(|record: Record| record.hook_ended) {
        return Ok(());
    }
    let mut record = Record {
        id: uuid::Uuid::now_v7().to_string(),
        hook_ended: false,
    };
    private::write_json_atomic(&path, &record)?;
    let context = Value::Object(issue_context(host, issue, workspace.path()));
    let script = vik_template::script(source, &context)?;
    let sessions = host.layout.issue_sessions_dir(&issue.id);
    private::create_private_dir_all(&sessions)?;
    workspace.check(&host.layout)?;
    let mut env = host.command_env();
    host.add_issue(issue, &mut env);
    let sandbox = sandbox::confine_hook(host, workflow, &issue.id, workspace.path(), &mut env)?;
    let resolver = Resolver {
        host,
        secrets: &workflow.secrets,
        folder: &sessions,
    };
    let mut cancel = std::pin::pin!(cancel);
    let names = &workflow.issue.hook_secrets;
    let values = resolver.values(names, &mut cancel).await?;
    env.extend(values.of(names));
    let place = ScriptContext {
        cwd: workspace.path(),
        env,
        attempt: &record.id,
        timeout: workflow.issue.hook_timeout.0,
        runs_agent_code: sandbox.is_some(),
        sandbox,
        stdin: None,
        lock: Some(lock),
    };
    let log = sessions.join(format!("before_remove-{}.log", record.id));
    hooks::run(host, Hook::BeforeRemove.as_str(), &script, place, &log, cancel).await?;
    record.hook_ended = true;
    Ok(private::write_json_atomic(&path, &record)?)
}

/// Removes the saved work of a durable workspace from the remote, unless another machine has taken
/// the issue over. If that fails, the workspace is removed all the same: the issue is over, and the
/// remote may be gone.
async fn remove_saved_work(
    host: &Host,
    workflow: &Workflow,
    issue: &Issue,
    workspace: &Workspace,
    lock: &FileLock,
) {
    let Some(spec) = durable::spec_of(workflow) else {
        return;
    };
    let sessions = host.layout.issue_sessions_dir(&issue.id);
    let log = sessions.join("remove-durable.log");
    let removed = async {
        private::create_private_dir_all(&sessions)?;
        let resolver = Resolver {
            host,
            secrets: &workflow.secrets,
            folder: &sessions,
        };
        let names = &workflow.issue.hook_secrets;
        let values = resolver.values(names, std::future::pending()).await?;
        let mut env = host.command_env();
        host.add_issue(issue, &mut env);
        env.extend(values.of(names));
        let mark = uuid::Uuid::now_v7().to_string();
        let place = ScriptContext {
            cwd: workspace.path(),
            env,
            attempt: &mark,
            timeout: workflow.issue.hook_timeout.0,
            sandbox: None,
            runs_agent_code: false,
            stdin: None,
            lock: Some(lock),
        };
        let command = durable::command(host, &spec, "remove", 0, &place, &log);
        let run = host
            .supervisor
            .output_with_callback(
                &command,
                Some(lock),
                durable::limits(&place),
                std::future::pending(),
                |_| {},
            )
            .await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(durable::read_result(&run, &log))
    };
    let error = match removed.await {
        Ok(DurableResult::Failed { reason, .. }) => reason,
        Ok(_) => return,
        Err(error) => report::chain(&*error),
    };
    tracing::warn!(issue = %issue.id, error, "the saved work of the workspace was not removed from its remote");
}

/// Takes the locks of the workspace, which is kept while any process uses it.
async fn lock(host: &Arc<Host>, issue: &Issue, patience: Duration) -> Result<WorkspaceLock, RemovalError> {
    let deadline = Instant::now() + patience;
    loop {
        let locked = blocking(host, issue, |host, issue| {
            vik_workspace::lock(&host.layout, &issue.id)
        });
        match locked.await? {
            Some(locked) => return Ok(locked),
            None if Instant::now() >= deadline => return Err(RemovalError::InUse),
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

async fn blocking<T: Send + 'static>(
    host: &Arc<Host>,
    issue: &Issue,
    operation: impl FnOnce(&Host, &Issue) -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<T, RemovalError> {
    let (host, issue) = (Arc::clone(host), issue.clone());
    Ok(spawn_blocking(move || operation(&host, &issue)).await??)
}
