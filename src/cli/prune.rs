//! `vik prune`: removes old sessions and workspaces, after showing which.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::json;
use vik_base::report::{ErrorCode, Exit, Failure, ago, one_line, table};
use vik_core::ids::IssueId;
use vik_core::issue::Issue;
use vik_core::workflow::Workflow;
use vik_daemon::{Instance, Presence};
use vik_session::attempt::issue_context;
use vik_session::hooks::{self, Hook, ScriptContext};
use vik_session::host::{Host, env_value};
use vik_session::sandbox;
use vik_store::PastAttempt;
use vik_workflow::{LoadedWorkflow, WorkflowFile, absolute};
use vik_workspace::{Layout, WorkspaceLock};

use super::{CliResult, history, print, print_json};

/// `vik prune`
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Minimum age of what is removed
    #[arg(long, value_name = "AGE", default_value = "30d")]
    pub older_than: vik_core::duration::Span,
    /// Remove instead of only listing
    #[arg(short, long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The issues to remove.
#[derive(Debug, Serialize)]
struct Plan {
    schema: u32,
    removed: bool,
    issues: Vec<OldIssue>,
}

#[derive(Debug, Serialize)]
struct OldIssue {
    issue_id: IssueId,
    last_used: Timestamp,
    sessions: usize,
    workspace: Option<PathBuf>,
}

/// Shows old sessions and workspaces, and removes them with `--yes`.
pub fn run(workflow: &Path, args: &PruneArgs) -> CliResult {
    let path = absolute(workflow);
    if let Presence::Running(info) = Instance::of(&path)?.presence() {
        return Err(Failure::new(
            Exit::AlreadyRunning,
            ErrorCode::DaemonRunning,
            format!("the daemon (pid {}) may be using these files", info.process.pid),
        )
        .hint("stop it first with `vik stop`"));
    }
    let instance = Instance::of(&path)?;
    let LoadedWorkflow { path, workflow, .. } = WorkflowFile::valid(&path, |_| {})?;
    // While this lock is held, no daemon can start.
    let _lock = instance.acquire()?;
    let host = vik_daemon::host(&path, &workflow, &instance)?;
    let layout = &host.layout;
    let age = SignedDuration::try_from(args.older_than.0).unwrap_or(SignedDuration::MAX);
    let now = Timestamp::now();
    let oldest = now.checked_sub(age).unwrap_or(Timestamp::MIN);
    let past = history::attempts(layout, None)?;
    let mut by_issue: BTreeMap<&IssueId, Vec<&PastAttempt>> = BTreeMap::new();
    for attempt in &past {
        by_issue
            .entry(&attempt.record.issue_id)
            .or_default()
            .push(attempt);
    }
    let used = |attempt: &&PastAttempt| attempt.ended_at.unwrap_or(attempt.record.started_at);
    let mut plan = Plan {
        schema: vik_api::SCHEMA,
        removed: args.yes,
        issues: Vec::new(),
    };
    for (issue, attempts) in by_issue {
        let Some(last_used) = attempts.iter().map(used).max().filter(|last| *last < oldest) else {
            continue;
        };
        let workspace = layout.issue_dir(issue);
        plan.issues.push(OldIssue {
            issue_id: issue.clone(),
            last_used,
            sessions: attempts.len(),
            workspace: workspace.exists().then_some(workspace),
        });
        if args.yes {
            // Processes of a dead daemon may still use the workspace.
            let locked = lock(layout, issue)?;
            if let Some(last) = attempts.last() {
                before_remove(&host, &workflow, last, &locked)?;
            }
            remove(layout, issue)?;
        }
    }
    if args.json {
        print_json(&plan);
    } else {
        print(&text(&plan, args, now));
    }
    Ok(Exit::Done)
}

/// Takes all locks of the workspace of an issue. Nothing of an issue is removed while a process
/// uses its workspace.
fn lock(layout: &Layout, issue: &IssueId) -> Result<WorkspaceLock, Failure> {
    let heading = format!(
        "cannot remove the workspace of issue {}",
        one_line(issue.as_str(), 60)
    );
    match vik_workspace::lock(layout, issue) {
        Ok(Some(locked)) => Ok(locked),
        Ok(None) => Err(
            Failure::new(Exit::Failed, ErrorCode::InUse, format!("{heading}: it is in use"))
                .hint("stop the processes of a dead daemon with `vik stop`"),
        ),
        Err(error) => Err(Failure::failed(ErrorCode::Prune, heading, &error)),
    }
}

/// Runs `before_remove` in a workspace before its removal. A failure of the hook keeps the
/// workspace.
fn before_remove(
    host: &Host,
    workflow: &Workflow,
    last: &PastAttempt,
    locked: &WorkspaceLock,
) -> Result<(), Failure> {
    let record = &last.record;
    let workdir = host.layout.issue_dir(&record.issue_id);
    let Some(source) = workflow.issue.before_remove.as_ref().filter(|_| workdir.is_dir()) else {
        return Ok(());
    };
    let failure = |error: &dyn std::error::Error| {
        let id = one_line(record.issue_id.as_str(), 60);
        Failure::failed(
            ErrorCode::BeforeRemove,
            format!("cannot remove the workspace of issue {id}"),
            error,
        )
        .hint("fix the hook, or remove the workspace manually")
    };
    let item = json!({
        "id": record.issue_id, "title": record.issue_title, "state": record.issue_state,
    });
    let Ok(issue) = Issue::parse(&item.to_string()) else {
        return Ok(());
    };
    let context = issue_context(host, &issue, &workdir).into();
    let script = vik_template::script(source, &context).map_err(|error| failure(&error))?;
    let mut env = host.command_env();
    env.insert("VIK_ISSUE_ID".to_owned(), env_value(issue.id.as_str()));
    env.insert("VIK_ISSUE_TITLE".to_owned(), env_value(&issue.title));
    let id = record.session_id.to_string();
    let sandbox = sandbox::confine_hook(host, workflow, &issue.id, &workdir, &mut env)
        .map_err(|error| failure(&error))?;
    let hook_place = ScriptContext {
        cwd: &workdir,
        env,
        attempt: &id,
        timeout: workflow.issue.hook_timeout.0,
        runs_agent_code: sandbox.is_some(),
        sandbox,
        stdin: None,
        lock: Some(locked.issue()),
    };
    let log = last.files.hook(Hook::BeforeRemove.as_str());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failure(&error))?;
    let hook = hooks::run(
        host,
        Hook::BeforeRemove.as_str(),
        &script,
        hook_place,
        &log,
        std::future::pending(),
    );
    runtime.block_on(hook).map_err(|error| failure(&error))
}

fn remove(layout: &Layout, issue: &IssueId) -> Result<(), Failure> {
    let failure = |error: &dyn std::error::Error| {
        Failure::failed(
            ErrorCode::Prune,
            format!(
                "cannot remove the files of issue {}",
                one_line(issue.as_str(), 60)
            ),
            error,
        )
    };
    vik_workspace::remove(layout, issue).map_err(|error| failure(&error))?;
    let sessions = layout.issue_sessions_dir(issue);
    if sessions.exists() {
        std::fs::remove_dir_all(&sessions).map_err(|error| failure(&error))?;
    }
    Ok(())
}

fn text(plan: &Plan, args: &PruneArgs, now: Timestamp) -> String {
    if plan.issues.is_empty() {
        return format!("nothing is older than {}\n", args.older_than);
    }
    let rows: Vec<_> = plan
        .issues
        .iter()
        .map(|old| {
            let workspace = old
                .workspace
                .as_ref()
                .map_or_else(|| "-".to_owned(), |path| path.display().to_string());
            [
                one_line(old.issue_id.as_str(), 40),
                ago(old.last_used, now),
                old.sessions.to_string(),
                workspace,
            ]
        })
        .collect();
    let end = if plan.removed {
        "removed\n"
    } else {
        "nothing was removed; remove them with --yes\n"
    };
    format!(
        "{}{end}",
        table(["ISSUE", "LAST USED", "SESSIONS", "WORKSPACE"], &rows)
    )
}
