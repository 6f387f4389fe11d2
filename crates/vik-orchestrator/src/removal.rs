//! Removes the workspace of an issue that needs no more work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::spawn_blocking;
use vik_base::report;
use vik_core::issue::Issue;
use vik_core::workflow::{RemoveWorkspace, Workflow};
use vik_proc::{FileLock, Graces};
use vik_session::attempt::issue_context;
use vik_session::hooks::{self, Hook, ScriptContext};
use vik_session::host::{Host, env_value};
use vik_session::sandbox;
use vik_session::secrets::Resolver;
use vik_workspace::{UnsavedWork, Workspace, WorkspaceLock, fs as private};

use crate::effects::Removal;

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

/// Removes the workspace if the workflow allows it. After any failure, the workspace is kept.
pub(crate) async fn remove(
    host: &Arc<Host>,
    workflow: &Workflow,
    issue: &Issue,
    cancel: impl Future<Output = ()>,
) -> Removal {
    match try_remove(host, workflow, issue, cancel).await {
        Ok(removal) => removal,
        Err(why) => Removal::Kept(why),
    }
}

async fn try_remove(
    host: &Arc<Host>,
    workflow: &Workflow,
    issue: &Issue,
    cancel: impl Future<Output = ()>,
) -> Result<Removal, String> {
    let policy = workflow.issue.remove_workspace;
    if policy == RemoveWorkspace::Never {
        return Ok(Removal::Kept("`workspace.remove` is `never`".to_owned()));
    }
    if host.layout.issue_dir(&issue.id).symlink_metadata().is_err() {
        return Ok(Removal::Absent);
    }
    let locked = lock(host, issue).await?;
    let found = blocking(host, issue, |host, issue| {
        vik_workspace::open(&host.layout, &issue.id)
    })
    .await?;
    // An incomplete workspace holds no work, so it needs neither the check nor the hook.
    if let Some(found) = &found {
        if policy == RemoveWorkspace::Clean {
            let scratch = host.layout.service_dir();
            let leftover = vik_workspace::unsaved_work(&host.supervisor, found.path(), &scratch).await;
            if let Some(why) = UnsavedWork::reason(&leftover) {
                return Ok(Removal::Kept(why));
            }
        }
        if let Some(source) = &workflow.issue.before_remove {
            before_remove(host, workflow, issue, source, found, locked.issue(), cancel).await?;
        }
    }
    blocking(host, issue, |host, issue| {
        vik_workspace::remove(&host.layout, &issue.id)
    })
    .await?;
    let _ = std::fs::remove_file(host.layout.removing_record(&issue.id));
    Ok(Removal::Removed)
}

async fn before_remove(
    host: &Host,
    workflow: &Workflow,
    issue: &Issue,
    source: &str,
    workspace: &Workspace,
    lock: &FileLock,
    cancel: impl Future<Output = ()>,
) -> Result<(), String> {
    let path = host.layout.removing_record(&issue.id);
    let previous = private::read(&path)
        .ok()
        .and_then(|text| serde_json::from_slice::<Record>(&text).ok());
    if previous.is_some_and(|record| record.hook_ended) {
        return Ok(());
    }
    let message = |error: &dyn std::error::Error| report::chain(error);
    let mut record = Record {
        id: uuid::Uuid::now_v7().to_string(),
        hook_ended: false,
    };
    private::write_json_atomic(&path, &record).map_err(|error| message(&error))?;
    let context = Value::Object(issue_context(host, issue, workspace.path()));
    let script = vik_template::script(source, &context).map_err(|error| message(&error))?;
    let sessions = host.layout.issue_sessions_dir(&issue.id);
    private::create_private_dir_all(&sessions).map_err(|error| message(&error))?;
    workspace.check(&host.layout).map_err(|error| message(&error))?;
    let mut env = host.command_env();
    env.extend([
        ("VIK_ISSUE_ID".to_owned(), env_value(issue.id.as_str())),
        ("VIK_ISSUE_TITLE".to_owned(), env_value(&issue.title)),
        ("VIK_ISSUE_STATE".to_owned(), env_value(&issue.state)),
        (
            "VIK_WORKFLOW".to_owned(),
            env_value(&host.workflow_path.to_string_lossy()),
        ),
        (
            "GIT_CEILING_DIRECTORIES".to_owned(),
            host.layout.issues_dir().to_string_lossy().into_owned(),
        ),
    ]);
    let sandbox = sandbox::confine_hook(host, workflow, &issue.id, workspace.path(), &mut env);
    let sandbox = sandbox.map_err(|error| message(&error))?;
    let resolver = Resolver {
        host,
        secrets: &workflow.secrets,
        folder: &sessions,
    };
    let mut cancel = std::pin::pin!(cancel);
    let names = &workflow.issue.hook_secrets;
    let values = resolver
        .values(names, &mut cancel)
        .await
        .map_err(|error| message(&error))?;
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
    hooks::run(host, Hook::BeforeRemove.as_str(), &script, place, &log, cancel)
        .await
        .map_err(|error| message(&error))?;
    record.hook_ended = true;
    private::write_json_atomic(&path, &record).map_err(|error| message(&error))
}

/// Takes the locks of the workspace, which is kept while any process uses it. Waits for a shim that
/// is just ending.
async fn lock(host: &Arc<Host>, issue: &Issue) -> Result<WorkspaceLock, String> {
    let deadline = Instant::now() + Graces::default().total();
    loop {
        let locked = blocking(host, issue, |host, issue| {
            vik_workspace::lock(&host.layout, &issue.id)
        });
        match locked.await? {
            Some(locked) => return Ok(locked),
            None if Instant::now() >= deadline => return Err("a process still runs in it".to_owned()),
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

async fn blocking<T: Send + 'static>(
    host: &Arc<Host>,
    issue: &Issue,
    operation: impl FnOnce(&Host, &Issue) -> Result<T, vik_workspace::WorkspaceError> + Send + 'static,
) -> Result<T, String> {
    let (host, issue) = (Arc::clone(host), issue.clone());
    spawn_blocking(move || operation(&host, &issue))
        .await
        .map_err(|error| report::chain(&error))?
        .map_err(|error| report::chain(&error))
}
