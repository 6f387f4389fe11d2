//! `vik doctor`: all that is wrong with a workflow, and whether `run` could do its work.
//!
//! Nothing that lasts is made or changed: folders that do not exist are not created, hooks and prompt commands are
//! rendered and never run. What is run (the pull command, `--version` of agents, `sh -n`) runs under the shim, bounded
//! in time; what the pull command itself leaves is its author's.

mod agents;
mod check;
mod issues;
mod notify;
mod orphans;
mod places;
mod probe;
mod repair;
mod sandbox;
mod secrets;
mod templates;
mod text;
mod webhooks;

#[cfg(test)]
mod tests;

use std::path::Path;

use tokio_util::sync::CancellationToken;
use vik_core::issue::Issue;
use vik_core::workflow::{Severity, Workflow};

pub use check::{Check, Examination, Status};
pub use text::{json, text};

pub(super) use probe::find as find_program;

use super::args::DoctorArgs;
use super::{CliResult, colored, print, print_json};
use crate::daemon::{self, Instance, Signals};
use crate::host::{Host, own_environment};
use crate::intake::PullResult;
use crate::report::{Exit, Failure};
use crate::workflow_file::{FileFindings, WorkflowFile, absolute};
use check::{Group, PULL, WORKFLOW};
pub(in crate::cli) use probe::Scratch;
use probe::patiently;

/// Checks the workflow, and tries what `run` will do.
pub fn run(workflow: &Path, args: &DoctorArgs) -> CliResult {
    if args.orphans {
        return orphans::run(args.json);
    }
    if args.repair {
        return repair::run(workflow, args.json);
    }
    let examination = examine(workflow, args.offline)?;
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
            return Ok(run_checks(workflow, true, &cancel).await);
        }
        let mut signals = Signals::listen()
            .map_err(|error| Failure::failed("doctor", "cannot listen to signals", &error))?;
        let mut checks = std::pin::pin!(run_checks(workflow, false, &cancel));
        tokio::select! {
            examination = &mut checks => return Ok(examination),
            _ = signals.next() => cancel.cancel(),
        }
        // What runs now is stopped first, and its files go.
        checks.await;
        Err(Failure::new(
            Exit::Interrupted,
            "interrupted",
            "doctor was interrupted",
        ))
    })
}

async fn run_checks(workflow: &Path, offline: bool, cancel: &CancellationToken) -> Examination {
    let workflow_path = absolute(workflow);
    let mut examination = Examination {
        workflow_path: workflow_path.clone(),
        offline,
        files: Vec::new(),
        checks: Vec::new(),
    };
    let checks = &mut examination.checks;
    let instance = instance(checks, &workflow_path);
    match WorkflowFile::read(&workflow_path) {
        Err(failure) => checks.push(Check::failure(Group::Workflow, WORKFLOW, &failure)),
        Ok(mut file) => {
            // One with errors is looked through for more of them; only a good one is tried.
            if let Some(workflow) = file.loaded.draft().cloned() {
                let is_usable = file.loaded.workflow.is_some();
                let sources = file.check_templates(&workflow);
                examination.files = std::mem::take(&mut file.prompts);
                checks.extend(notify::check(&workflow));
                let folder = workflow_path.parent().unwrap_or(Path::new("/"));
                checks.extend(sandbox::check(&workflow, |prompt| sources.prompt(prompt, folder)));
                let host = host(checks, &workflow_path, &workflow, instance.as_ref());
                if let Some(host) = host.filter(|_| is_usable) {
                    let scratch = if offline { None } else { scratch(checks) };
                    let issues = try_it(checks, &host, &workflow, scratch.as_ref(), cancel).await;
                    checks.extend(webhooks::check(&workflow));
                    for rendered in templates::render(&host, &workflow, &sources, &issues) {
                        checks.push(rendered.check(&host, scratch.as_ref(), cancel).await);
                    }
                }
            }
            let findings = std::mem::take(&mut file.loaded.diagnostics);
            examination.files.insert(
                0,
                FileFindings {
                    file: file.path,
                    text: file.text,
                    findings,
                },
            );
            let check = workflow_check(&examination, file.loaded.workflow.as_ref());
            examination.checks.insert(0, check);
        }
    }
    examination.checks.extend(system());
    examination
}

fn workflow_check(examination: &Examination, workflow: Option<&Workflow>) -> Check {
    let errors = examination
        .findings()
        .filter(|one| one.severity == Severity::Error)
        .count();
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
    let what = format!(
        "{}, {}",
        count(workflow.agents.len(), "agent"),
        count(workflow.issue.stages.len(), "stage")
    );
    if all > 0 {
        let message = format!("{shown}: {what}; {}", count(all, "warning"));
        return Check::warning(Group::Workflow, WORKFLOW, "workflow_warnings", message);
    }
    Check::ok(Group::Workflow, WORKFLOW, format!("{shown}: {what}"))
}

fn instance(checks: &mut Vec<Check>, workflow_path: &Path) -> Option<Instance> {
    match Instance::of(workflow_path) {
        Ok(instance) => {
            checks.push(places::writable(
                "instance",
                "the instance folder",
                instance.dir().path(),
            ));
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
            checks.push(places::ledger(&host.layout.service_dir()));
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
    scratch: Option<&Scratch>,
    cancel: &CancellationToken,
) -> Vec<Issue> {
    checks.extend(secrets::check(host, workflow, scratch, cancel).await);
    let Some(scratch) = scratch else {
        checks.extend(agents::check(host, workflow, None, cancel).await);
        checks.push(Check::ok(Group::Issues, PULL, "not tried"));
        return Vec::new();
    };
    let (agents, pull) = tokio::join!(
        agents::check(host, workflow, Some(scratch), cancel),
        pull(host, workflow, scratch, cancel),
    );
    checks.extend(agents);
    let (of_pull, issues) = issues::check(workflow, pull);
    checks.extend(of_pull);
    issues
}

fn scratch(checks: &mut Vec<Check>) -> Option<Scratch> {
    match Scratch::new() {
        Ok(scratch) => Some(scratch),
        Err(error) => {
            let message = format!(
                "no folder can be made in {}: {error}",
                std::env::temp_dir().display()
            );
            checks.push(
                Check::error(Group::Folders, "temporary", "not_writable", message)
                    .hint("set TMPDIR to a folder that is writable"),
            );
            None
        }
    }
}

/// Pulls once; what the command says on stderr does not last.
async fn pull(host: &Host, workflow: &Workflow, scratch: &Scratch, cancel: &CancellationToken) -> PullResult {
    let stderr = scratch.path().join("pull.stderr");
    let pull = crate::intake::pull(host, workflow, &stderr, cancel.cancelled());
    patiently("the pull command", pull).await
}

fn system() -> Vec<Check> {
    let path = own_environment().remove("PATH").unwrap_or_default();
    let mut checks = vec![places::platform(), places::git(&path)];
    checks.extend(places::kernel());
    checks
}
