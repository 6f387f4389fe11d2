//! `vik prune`: removes old sessions and workspaces, after showing which.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Runtime;
use vik_base::report::{ErrorCode, Exit, Failure, ago, count, one_line, table};
use vik_core::ids::IssueId;
use vik_core::issue::Issue;
use vik_core::workflow::Workflow;
use vik_daemon::{Instance, Presence};
use vik_session::host::Host;
use vik_session::removal::{self, RemovalError, Unsaved};
use vik_store::PastAttempt;
use vik_store::ledger::Reader;
use vik_workflow::{LoadedWorkflow, WorkflowFile, absolute};
use vik_workspace::Layout;

use super::{CliResult, history, print_result, runtime};

/// `vik prune`
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Minimum age of what is removed
    #[arg(long, value_name = "AGE", default_value = "30d")]
    pub older_than: vik_core::duration::Span,
    /// Remove instead of only listing
    #[arg(short, long)]
    pub yes: bool,
    /// Also remove workspaces with work that exists nowhere else
    #[arg(long)]
    pub unsaved: bool,
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
    /// Old issues that are kept because a person has taken them over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taken_over: Vec<IssueId>,
}

#[derive(Debug, Serialize)]
struct OldIssue {
    issue_id: IssueId,
    last_used: Timestamp,
    sessions: usize,
    workspace: Option<PathBuf>,
    /// The work in the workspace that exists nowhere else. With it, nothing of the issue is removed
    /// without `--unsaved`.
    unsaved: Option<String>,
}

/// Shows old sessions and workspaces, and removes them with `--yes`.
pub fn run(workflow: &Path, args: &PruneArgs) -> CliResult {
    let path = absolute(workflow);
    let instance = Instance::of(&path)?;
    // The list alone changes nothing.
    if args.yes
        && let Presence::Running(info) = instance.presence()
    {
        return Err(Failure::new(
            Exit::AlreadyRunning,
            ErrorCode::DaemonRunning,
            format!("the daemon (pid {}) may be using these files", info.process.pid),
        )
        .hint("stop it first with `vik stop`"));
    }
    let LoadedWorkflow { path, workflow, .. } = WorkflowFile::valid(&path, |_| {})?;
    // While this lock is held, no daemon can start.
    let _lock = args.yes.then(|| instance.acquire()).transpose()?;
    let host = Arc::new(vik_daemon::host(&path, &workflow, &instance)?);
    let layout = &host.layout;
    let age = SignedDuration::try_from(args.older_than.0).unwrap_or(SignedDuration::MAX);
    let now = Timestamp::now();
    let oldest = now.checked_sub(age).unwrap_or(Timestamp::MIN);
    let past = history::attempts(layout, None)?;
    let taken_over = taken_over(layout)?;
    let mut by_issue: BTreeMap<&IssueId, Vec<&PastAttempt>> = BTreeMap::new();
    for attempt in &past {
        by_issue
            .entry(&attempt.record.issue_id)
            .or_default()
            .push(attempt);
    }
    let runtime = runtime()?;
    let used = |attempt: &&PastAttempt| attempt.ended_at.unwrap_or(attempt.record.started_at);
    let mut plan = Plan {
        schema: vik_api::SCHEMA,
        removed: args.yes,
        issues: Vec::new(),
        taken_over: Vec::new(),
    };
    for (issue, attempts) in by_issue {
        let Some(last_used) = attempts.iter().map(used).max().filter(|last| *last < oldest) else {
            continue;
        };
        if taken_over.contains(issue) {
            plan.taken_over.push(issue.clone());
            continue;
        }
        let workspace = Some(layout.issue_dir(issue)).filter(|workspace| workspace.exists());
        let unsaved = workspace.as_ref().and_then(|workspace| {
            let scratch = layout.service_dir();
            let inspection = vik_workspace::unsaved_work(&host.supervisor, workspace, &scratch);
            runtime.block_on(inspection).reason()
        });
        let old = OldIssue {
            issue_id: issue.clone(),
            last_used,
            sessions: attempts.len(),
            workspace,
            unsaved,
        };
        if args.yes
            && old.is_removed(args)
            && let Some(last) = attempts.last()
        {
            remove(&host, &workflow, last, &runtime)?;
        }
        plan.issues.push(old);
    }
    print_result(args.json, &plan, || text(&plan, args, now))
}

impl OldIssue {
    /// Returns whether `--yes` removes it.
    fn is_removed(&self, args: &PruneArgs) -> bool {
        args.unsaved || self.unsaved.is_none()
    }
}

/// Removes the workspace of an issue and its sessions, unless a process uses the workspace.
fn remove(
    host: &Arc<Host>,
    workflow: &Workflow,
    last: &PastAttempt,
    runtime: &Runtime,
) -> Result<(), Failure> {
    let record = &last.record;
    let id = one_line(record.issue_id.as_str(), 60);
    let files = |error: &dyn std::error::Error| {
        Failure::failed(
            ErrorCode::Prune,
            format!("cannot remove the files of issue {id}"),
            error,
        )
    };
    let item = json!({
        "id": record.issue_id, "title": record.issue_title, "state": record.issue_state,
    });
    let issue = Issue::parse(&item.to_string()).unwrap_or_else(|_| Issue::bare(record.issue_id.clone()));
    let how = (Unsaved::Remove, Duration::ZERO);
    let removal = removal::remove(host, workflow, &issue, how, std::future::pending());
    let heading = format!("cannot remove the workspace of issue {id}");
    runtime.block_on(removal).map_err(|error| match error {
        RemovalError::InUse => Failure::new(Exit::Failed, ErrorCode::InUse, format!("{heading}: {error}"))
            .hint("stop the processes of a dead daemon with `vik stop`"),
        RemovalError::Hook(_) => Failure::failed(ErrorCode::BeforeRemove, heading, &error)
            .hint("fix the hook, or remove the workspace manually"),
        RemovalError::Files(_) | RemovalError::Bug(_) => files(&error),
    })?;
    let sessions = host.layout.issue_sessions_dir(&record.issue_id);
    vik_workspace::remove_beside(&sessions).map_err(|error| files(&error))?;
    Ok(())
}

/// Returns the issues that people have taken over.
fn taken_over(layout: &Layout) -> Result<BTreeSet<IssueId>, Failure> {
    let reader = Reader::open(&layout.service_dir())?;
    let stored = reader.map(|reader| reader.stored()).transpose();
    let machines = stored?.unwrap_or_default().machines;
    let held = machines.iter().filter(|machine| machine.taken_over().is_some());
    Ok(held.map(|machine| machine.issue().id.clone()).collect())
}

fn text(plan: &Plan, args: &PruneArgs, now: Timestamp) -> String {
    let kept = plan.taken_over.iter().map(|issue| {
        let id = one_line(issue.as_str(), 40);
        format!("issue {id} is kept: a person has taken it over\n")
    });
    let kept: String = kept.collect();
    if plan.issues.is_empty() {
        return match kept.is_empty() {
            true => format!("nothing is older than {}\n", args.older_than),
            false => kept,
        };
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
                old.unsaved.clone().unwrap_or_else(|| "-".to_owned()),
                workspace,
            ]
        })
        .collect();
    let mut text = table(
        ["ISSUE", "LAST USED", "SESSIONS", "UNSAVED WORK", "WORKSPACE"],
        &rows,
    );
    let removed = plan.issues.iter().filter(|old| old.is_removed(args)).count();
    let unsaved = plan.issues.len() - removed;
    text.push_str(&kept);
    let count = |issues: usize| count(issues, "issue");
    text.push_str(&match plan.removed {
        true => format!("removed the workspaces and sessions of {}\n", count(removed)),
        false => format!("nothing was removed; --yes removes {}\n", count(removed)),
    });
    if unsaved > 0 {
        let _ = writeln!(
            text,
            "{} with unsaved work kept; --unsaved removes them too",
            count(unsaved)
        );
    }
    text
}
