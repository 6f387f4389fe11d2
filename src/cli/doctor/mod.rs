//! `vik doctor`: all that is wrong with a workflow, and whether `run` could do its work.
//!
//! Nothing that lasts is made or changed: folders that do not exist are not created, hooks and prompt commands are
//! rendered and never run. What is run (the pull command, `--version` of agents) runs under the shim, bounded in time.

mod agents;
mod check;
mod issues;
mod places;
mod probe;
mod templates;
mod text;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use vik_core::issue::Issue;
use vik_core::workflow::{Severity, Workflow, WorkspaceRoot};

pub use check::{Check, Examination, FileFindings, Status};
pub use text::{json, text};

pub(super) use probe::find as find_program;

use super::args::DoctorArgs;
use super::{Done, colored, print, print_json};
use crate::daemon::{self, Instance, Signals};
use crate::host::{Host, own_environment};
use crate::report::{Exit, Failure};
use crate::workflow_file::{WorkflowFile, absolute};
use crate::workspace::{Layout, fs::create_private_dir_all};
use check::{Group, PULL, WORKFLOW};
use probe::{Scratch, patiently};
use templates::Sources;

/// Checks the workflow, and tries what `run` will do.
pub fn run(workflow: PathBuf, args: &DoctorArgs) -> Done {
    let examination = examine(&workflow, args.offline)?;
    if args.json {
        print_json(&json(&examination, args.strict));
    } else {
        print(&text(&examination, args.strict, colored(&std::io::stdout())));
    }
    Ok(examination.exit(args.strict))
}

/// Looks at everything; `offline` runs no command.
///
/// # Errors
/// When it was interrupted (exit 130), or could not even begin.
pub fn examine(workflow: &Path, offline: bool) -> Result<Examination, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed("runtime", "cannot start", &error))?;
    runtime.block_on(async {
        let cancel = CancellationToken::new();
        if offline {
            return Ok(look(workflow, true, &cancel).await);
        }
        let mut signals =
            Signals::listen().map_err(|error| Failure::failed("doctor", "cannot listen to signals", &error))?;
        let mut looking = std::pin::pin!(look(workflow, false, &cancel));
        tokio::select! {
            examination = &mut looking => return Ok(examination),
            _ = signals.next() => cancel.cancel(),
        }
        // What runs now is stopped first, and its files go.
        looking.await;
        Err(Failure::new(Exit::Interrupted, "interrupted", "doctor was interrupted"))
    })
}

async fn look(workflow: &Path, offline: bool, cancel: &CancellationToken) -> Examination {
    let workflow_path = absolute(workflow);
    let mut examination = Examination { workflow_path: workflow_path.clone(), files: Vec::new(), checks: Vec::new() };
    let checks = &mut examination.checks;
    let instance = instance(checks, &workflow_path);
    match WorkflowFile::read(&workflow_path) {
        Err(failure) => checks.push(Check::failure(Group::Workflow, WORKFLOW, &failure)),
        Ok(mut file) => {
            if let Some(workflow) = file.loaded.workflow.clone() {
                let folder = workflow_path.parent().unwrap_or(Path::new("/"));
                let mut sources = Sources::read(&workflow, &file.loaded, folder);
                file.loaded.add(std::mem::take(&mut sources.workflow));
                examination.files = std::mem::take(&mut sources.files);
                if let Some(host) = host(checks, &workflow_path, &workflow, instance.as_ref()) {
                    let issues = try_it(checks, &host, &workflow, instance.as_ref(), offline, cancel).await;
                    checks.extend(templates::render(&host, &workflow, &sources, &issues));
                }
            }
            let findings = std::mem::take(&mut file.loaded.diagnostics);
            examination.files.insert(0, FileFindings { file: file.path, text: file.text, findings });
            let check = workflow_check(&examination, file.loaded.workflow.as_ref());
            examination.checks.insert(0, check);
        }
    }
    examination.checks.extend(system());
    examination
}

fn workflow_check(examination: &Examination, workflow: Option<&Workflow>) -> Check {
    let errors = examination.findings().filter(|one| one.severity == Severity::Error).count();
    let all = examination.findings().count();
    let shown = examination.workflow_path.display();
    let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    if errors > 0 {
        let message = format!("{shown}: {}", count(errors, "error"));
        return Check::error(Group::Workflow, WORKFLOW, "workflow_invalid", message);
    }
    let Some(workflow) = workflow else {
        return Check::error(Group::Workflow, WORKFLOW, "workflow_invalid", shown.to_string());
    };
    let what = format!("{}, {}", count(workflow.agents.len(), "agent"), count(workflow.issue.stages.len(), "stage"));
    if all > 0 {
        let message = format!("{shown}: {what}; {}", count(all, "warning"));
        return Check::warning(Group::Workflow, WORKFLOW, "workflow_warnings", message);
    }
    Check::ok(Group::Workflow, WORKFLOW, format!("{shown}: {what}"))
}

fn instance(checks: &mut Vec<Check>, workflow_path: &Path) -> Option<Instance> {
    match Instance::of(workflow_path) {
        Ok(instance) => {
            checks.push(places::writable("instance", "the instance folder", instance.dir().path()));
            checks.push(places::daemon(&instance));
            Some(instance)
        }
        Err(failure) => {
            checks.push(Check::failure(Group::Folders, "instance", &failure));
            None
        }
    }
}

fn host(
    checks: &mut Vec<Check>,
    workflow_path: &Path,
    workflow: &Workflow,
    instance: Option<&Instance>,
) -> Option<Host> {
    match daemon::host(workflow_path, workflow, instance?) {
        Ok(host) => {
            let home = host.layout.home();
            checks.push(places::writable("home", "the workspace root", home));
            // Within it anything may have changed hands.
            for folder in [host.layout.root().to_owned(), host.layout.issues_dir()] {
                if folder.exists() {
                    let check = places::writable("home.workflow", "the folder", &folder);
                    if check.status != Status::Ok {
                        checks.push(check);
                    }
                }
            }
            Some(host)
        }
        Err(failure) => {
            checks.push(Check::failure(Group::Folders, "home", &failure));
            None
        }
    }
}

/// Tries the agents and the pull command; gives the issues that it brought.
async fn try_it(
    checks: &mut Vec<Check>,
    host: &Host,
    workflow: &Workflow,
    instance: Option<&Instance>,
    offline: bool,
    cancel: &CancellationToken,
) -> Vec<Issue> {
    let scratch = if offline { None } else { scratch(checks) };
    let Some(scratch) = &scratch else {
        checks.extend(agents::check(host, workflow, None, cancel).await);
        checks.push(Check::ok(Group::Issues, PULL, "not tried"));
        return Vec::new();
    };
    let (agents, pull) = tokio::join!(
        agents::check(host, workflow, Some(scratch), cancel),
        pull(host, workflow, instance, scratch, cancel),
    );
    checks.extend(agents);
    match pull {
        Ok(pull) => {
            let (of_pull, issues) = issues::check(workflow, pull);
            checks.extend(of_pull);
            issues
        }
        Err(failure) => {
            checks.push(Check::failure(Group::Issues, PULL, &failure));
            Vec::new()
        }
    }
}

fn scratch(checks: &mut Vec<Check>) -> Option<Scratch> {
    match Scratch::new() {
        Ok(scratch) => Some(scratch),
        Err(error) => {
            let message = format!("no folder can be made in {}: {error}", std::env::temp_dir().display());
            checks.push(
                Check::error(Group::Folders, "temporary", "not_writable", message)
                    .hint("set TMPDIR to a folder that is writable"),
            );
            None
        }
    }
}

/// Pulls once, with a service folder that does not last.
async fn pull(
    host: &Host,
    workflow: &Workflow,
    instance: Option<&Instance>,
    scratch: &Scratch,
    cancel: &CancellationToken,
) -> Result<crate::intake::PullResult, Failure> {
    let root = WorkspaceRoot::Path(scratch.path().to_string_lossy().into_owned());
    let fail = |error: &dyn std::error::Error| Failure::failed("pull_not_started", "the pull cannot be prepared", error);
    let layout = Layout::resolve(&host.workflow_path, &root).map_err(|error| fail(&error))?;
    create_private_dir_all(&layout.service_dir()).map_err(|error| fail(&error))?;
    let host = Host {
        workflow_path: host.workflow_path.clone(),
        workflow_dir: host.workflow_dir.clone(),
        layout,
        environment: host.environment.clone(),
        supervisor: host.supervisor.clone(),
        instance: instance.map(Instance::name).unwrap_or_default(),
        vik: host.vik.clone(),
    };
    Ok(patiently("the pull command", crate::intake::pull(&host, &workflow.pull, cancel.cancelled())).await)
}

fn system() -> Vec<Check> {
    let path = own_environment().remove("PATH").unwrap_or_default();
    let mut checks = vec![places::platform(), places::git(&path)];
    checks.extend(places::kernel());
    checks
}
