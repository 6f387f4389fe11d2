//! `vik doctor`: reports all problems of a workflow and whether `run` can work.
//!
//! It creates and changes nothing that lasts: missing folders are not created, and hooks and prompt
//! commands are rendered but never run. The commands that it does run (the pull command, MCP
//! servers, `--version` of agents, `sh -n`) run under the shim with a time limit. Effects of the
//! pull command and of the start of a server are up to their authors.

mod agents;
mod check;
mod environment_checks;
mod extensions;
mod issues;
mod notify;
mod orphans;
mod probe;
#[cfg(feature = "vex")]
mod provider;
mod repair;
mod sandbox;
mod secrets;
#[cfg(feature = "temporal")]
mod server;
#[cfg(feature = "vex")]
mod servers;
mod templates;
mod test_calls;
mod text;
mod tracker;
mod webhooks;

#[cfg(test)]
mod tests;

use std::path::Path;

use clap::Args;
use tokio_util::sync::CancellationToken;
use vik_core::issue::Issue;
use vik_core::workflow::Workflow;
use vik_workflow_reader::Severity;

pub use check::{Check, Examination, Status};
pub use text::{TextOptions, json, next_step, text};
pub use tracker::offer as offer_states;
pub(in crate::cli) use tracker::used_states;

pub(super) use probe::find as find_program;

use vik_base::report::{ErrorCode, Exit, Failure, colored, count};
use vik_daemon::Instance;
use vik_orchestrator::OpenFiles;
use vik_orchestrator::intake::PullResult;
use vik_orchestrator::signals::Signals;
use vik_session::host::{Host, own_environment};
use vik_workflow::{FileFindings, WorkflowFile, absolute};

use super::positional::Positional;
use super::{CliResult, engine, print, print_json, runtime};

use check::{Group, PULL, WORKFLOW};
pub(in crate::cli) use probe::Scratch;
use probe::with_progress_message;

/// `vik doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub workflow: Positional,
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// List passed checks too
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// Check files only, without running commands or agents
    #[arg(long)]
    pub offline: bool,
    /// Do not start MCP servers to list their tools
    #[arg(long)]
    pub no_servers: bool,
    /// Call the model of each agent once, which costs money
    #[arg(long, conflicts_with = "offline")]
    pub probe: bool,
    /// List the processes of this workflow with their owners; exit with 1 if a process has no owner
    #[arg(long, conflicts_with_all = ["strict", "verbose", "offline", "no_servers", "probe", "repair"])]
    pub orphans: bool,
    /// With --orphans: list the processes of all workflows on this host
    #[arg(long, requires = "orphans")]
    pub all: bool,
    /// Rebuild a damaged ledger from its remains and the session logs; the daemon must be stopped
    #[arg(long, conflicts_with_all = ["strict", "verbose", "offline", "no_servers", "probe"])]
    pub repair: bool,
}

/// Checks the workflow and tries what `run` will do.
pub fn run(workflow: &Path, args: &DoctorArgs) -> CliResult {
    if args.orphans {
        return orphans::run(workflow, args.all, args.json);
    }
    if args.repair {
        return repair::run(workflow, args.json);
    }
    let extent = match (args.offline, args.probe) {
        (true, _) => Extent::Files,
        (_, calls) => Extent::Commands {
            servers: !args.no_servers,
            calls,
        },
    };
    let mut examination = examine(workflow, extent)?;
    if args.json {
        print_json(&json(&examination, args.strict));
    } else {
        let options = TextOptions {
            strict: args.strict,
            verbose: args.verbose,
            color: colored(&std::io::stdout()),
        };
        print(&text(&examination, options));
        offer_states(&mut examination)?;
        print(&next_step(&examination, args.strict));
    }
    Ok(examination.exit(args.strict))
}

/// How much the checks may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Nothing: files are checked.
    Files,
    /// The commands of the workflow, and programs that print their version.
    Commands {
        /// Also the MCP servers, which list their tools.
        servers: bool,
        /// Also one call of each agent.
        calls: bool,
    },
}

impl Extent {
    /// What is tried by default.
    pub const TRY: Self = Self::Commands {
        servers: true,
        calls: false,
    };
}

/// Runs all checks.
///
/// # Errors
/// If it is interrupted (exit 130), or cannot start.
pub fn examine(workflow: &Path, extent: Extent) -> Result<Examination, Failure> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let cancel = CancellationToken::new();
        if extent == Extent::Files {
            return Ok(Box::pin(run_checks(workflow, extent, &cancel)).await);
        }
        let mut signals = Signals::listen()
            .map_err(|error| Failure::failed(ErrorCode::Doctor, "cannot handle signals", &error))?;
        let mut checks = std::pin::pin!(run_checks(workflow, extent, &cancel));
        tokio::select! {
            examination = &mut checks => return Ok(examination),
            _ = signals.next() => cancel.cancel(),
        }
        // Running commands are stopped and their files removed first.
        checks.await;
        Err(Failure::new(
            Exit::Interrupted,
            ErrorCode::Interrupted,
            "doctor was interrupted",
        ))
    })
}

async fn run_checks(workflow: &Path, extent: Extent, cancel: &CancellationToken) -> Examination {
    let workflow_path = absolute(workflow);
    let mut examination = Examination {
        workflow_path: workflow_path.clone(),
        offline: extent == Extent::Files,
        files: Vec::new(),
        checks: Vec::new(),
        missing_states: Vec::new(),
    };
    let checks = &mut examination.checks;
    let instance = instance(checks, &workflow_path);
    match WorkflowFile::read(&workflow_path) {
        Err(failure) => checks.push(Check::failure(Group::Workflow, WORKFLOW, &failure)),
        Ok(mut file) => {
            // An invalid workflow is searched for further errors; only a valid one is tried.
            if let Some(workflow) = file.loaded.draft().cloned() {
                let is_usable = file.loaded.workflow.is_some();
                let sources = file.check_templates(&workflow);
                examination.files = std::mem::take(&mut file.prompts);
                checks.push(environment_checks::open_files(OpenFiles::of_daemon(), &workflow));
                let missing_engine = engine::finding(&workflow, &file.loaded);
                file.loaded
                    .add(missing_engine.map(|error| error.hint(engine::HINT)));
                checks.extend(notify::check(&workflow));
                let folder = workflow_path.parent().unwrap_or(Path::new("/"));
                checks.extend(sandbox::check(&workflow, |prompt| sources.prompt(prompt, folder)));
                if extent != Extent::Files {
                    checks.extend(environment_checks::commit(&workflow, folder));
                }
                let host = host(checks, &workflow_path, &workflow, instance.as_ref());
                if let Some(host) = host.filter(|_| is_usable) {
                    let scratch = if extent == Extent::Files {
                        None
                    } else {
                        scratch(checks)
                    };
                    let plan = Plan {
                        extent,
                        scratch: scratch.as_ref(),
                    };
                    let tried = try_agents_and_pull(checks, &host, &workflow, plan, cancel);
                    let issues = Box::pin(tried).await;
                    if let Some(scratch) = &scratch {
                        let found = tracker::check(&host, &workflow, scratch, cancel).await;
                        checks.extend(found.checks);
                        examination.missing_states = found.missing;
                        #[cfg(feature = "temporal")]
                        checks.extend(server::check(&host, &workflow_path, &workflow, scratch).await);
                    }
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
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    let all = examination.findings().count();
    let path = examination.workflow_path.display();
    if errors > 0 {
        let message = format!("{path}: {}", count(errors, "error"));
        return Check::error(Group::Workflow, WORKFLOW, "workflow_invalid", message);
    }
    let Some(workflow) = workflow else {
        return Check::error(Group::Workflow, WORKFLOW, "workflow_invalid", path.to_string());
    };
    let summary = format!(
        "{}, {}",
        count(workflow.agents.len(), "agent"),
        count(workflow.issue.stages.len(), "stage")
    );
    if all > 0 {
        let message = format!("{path}: {summary}; {}", count(all, "warning"));
        return Check::warning(Group::Workflow, WORKFLOW, "workflow_warnings", message);
    }
    Check::ok(Group::Workflow, WORKFLOW, format!("{path}: {summary}"))
}

fn instance(checks: &mut Vec<Check>, workflow_path: &Path) -> Option<Instance> {
    match Instance::of(workflow_path) {
        Ok(instance) => {
            checks.push(environment_checks::writable(
                "instance",
                "the instance folder",
                instance.dir().path(),
            ));
            checks.push(environment_checks::daemon(&instance.presence()));
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
    match vik_daemon::host(workflow_path, workflow, instance?) {
        Ok(host) => {
            let home = host.layout.home();
            checks.push(environment_checks::writable("home", "the workspace root", home));
            // Owners inside the home may have changed.
            for folder in [host.layout.root().to_owned(), host.layout.issues_dir()] {
                if folder.exists() {
                    let check = environment_checks::writable("home.workflow", "the folder", &folder);
                    if check.status != Status::Ok {
                        checks.push(check);
                    }
                }
            }
            checks.push(environment_checks::ledger(&host.layout.service_dir()));
            Some(host)
        }
        Err(failure) => {
            checks.push(Check::failure(Group::Folders, "home", &failure));
            None
        }
    }
}

/// What may be tried, and the folder for it.
#[derive(Clone, Copy)]
struct Plan<'s> {
    extent: Extent,
    scratch: Option<&'s Scratch>,
}

/// Tries the agents and the pull command. Returns the pulled issues.
async fn try_agents_and_pull(
    checks: &mut Vec<Check>,
    host: &Host,
    workflow: &Workflow,
    Plan { extent, scratch }: Plan<'_>,
    cancel: &CancellationToken,
) -> Vec<Issue> {
    checks.extend(extensions::check(host, workflow));
    checks.extend(secrets::check(host, workflow, scratch, cancel).await);
    let Some(scratch) = scratch else {
        checks.extend(agents::check(host, workflow, None, cancel).await.0);
        checks.extend(extensions::not_listed(workflow, "nothing is started"));
        checks.push(Check::ok(Group::Issues, PULL, "not tried"));
        return Vec::new();
    };
    let ((agents, usable), pull, servers) = tokio::join!(
        agents::check(host, workflow, Some(scratch), cancel),
        pull(host, workflow, scratch, cancel),
        servers(host, workflow, extent, scratch, cancel),
    );
    checks.extend(agents);
    checks.extend(servers);
    if matches!(extent, Extent::Commands { calls: true, .. }) {
        checks.extend(test_calls::check(host, workflow, &usable, scratch, cancel).await);
    }
    let (pull_checks, issues) = issues::check(workflow, pull);
    checks.extend(pull_checks);
    let lookup_host = probe::scratch_host(host, workflow, scratch);
    checks.extend(issues::compare_with_show(&lookup_host, workflow, &issues, cancel).await);
    issues
}

/// Starts the MCP servers, and returns the checks of their tools.
#[cfg(feature = "vex")]
async fn servers(
    host: &Host,
    workflow: &Workflow,
    extent: Extent,
    scratch: &Scratch,
    cancel: &CancellationToken,
) -> Vec<Check> {
    if matches!(extent, Extent::Commands { servers: true, .. }) {
        servers::check(host, workflow, scratch, cancel).await
    } else {
        extensions::not_listed(workflow, "servers are not started")
    }
}

/// Reports that the program that starts MCP servers is not in this build.
#[cfg(not(feature = "vex"))]
async fn servers(_: &Host, workflow: &Workflow, _: Extent, _: &Scratch, _: &CancellationToken) -> Vec<Check> {
    extensions::not_listed(workflow, "built without vex")
}

fn scratch(checks: &mut Vec<Check>) -> Option<Scratch> {
    match Scratch::new() {
        Ok(scratch) => Some(scratch),
        Err(error) => {
            let message = format!(
                "cannot create a folder in {}: {error}",
                std::env::temp_dir().display()
            );
            checks.push(
                Check::error(Group::Folders, "temporary", "not_writable", message)
                    .hint("set TMPDIR to a writable folder"),
            );
            None
        }
    }
}

/// Pulls once. The stderr output of the command is temporary.
async fn pull(host: &Host, workflow: &Workflow, scratch: &Scratch, cancel: &CancellationToken) -> PullResult {
    let stderr = scratch.path().join("pull.stderr");
    let pull = vik_orchestrator::intake::pull(host, workflow, &stderr, cancel.cancelled());
    with_progress_message("the pull command", pull).await
}

fn system() -> Vec<Check> {
    let path = own_environment().remove("PATH").unwrap_or_default();
    let mut checks = vec![environment_checks::platform(), environment_checks::git(&path)];
    checks.extend(environment_checks::kernel());
    checks
}
