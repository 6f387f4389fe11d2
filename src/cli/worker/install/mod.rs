//! `vik worker install`: a worker on another machine, over SSH.
//!
//! Three connections: one inspects the host, one puts the files that differ in their places, and one
//! starts the unit and waits until the worker is connected. Each can end anywhere, and the command
//! can be repeated: nothing that a running worker uses is changed in place.

mod destination;
mod failure;
mod files;
mod host;
mod progress;
mod script;
mod ssh;
mod unit;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use vik_api::{InstallationStepName, SCHEMA, StepResult, WorkerInstallation};
use vik_base::report::{Exit, Failure, one_line};
use vik_workflow::{LoadedWorkflow, WorkflowFile, absolute};

use self::destination::{Destination, UnitName};
use self::files::{Part, RemoteFile};
use self::host::HostFacts;
use self::progress::Progress;
use self::ssh::Report;
use self::unit::Layout;
use super::options::WorkerOptions;
use crate::cli::{CliResult, print, print_json, warn};

/// `vik worker install`
#[derive(Debug, Args)]
#[command(
    after_help = "Copies the program, the workflow file with its prompts and skills, and a systemd user unit, starts \
                  the unit, and waits until the worker is connected. A second run changes only what differs. If the \
                  worker runs, it ends its attempts before it is restarted.\n\nUses the `ssh` of this system with \
                  its configuration, keys and known hosts, and asks for nothing. Secrets are copied only from \
                  --env-file."
)]
pub struct InstallArgs {
    /// Host, as for `ssh`: a name of ~/.ssh/config, or ssh://[USER@]HOST[:PORT]
    #[arg(value_name = "[USER@]HOST")]
    pub host: Destination,
    #[command(flatten)]
    pub options: WorkerOptions,
    /// File with NAME=VALUE lines for the environment of the worker, such as the API key of the server
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// Another file or folder that the workflow needs, such as scripts; relative to the workflow file (can be
    /// repeated)
    #[arg(long, value_name = "PATH")]
    pub include: Vec<PathBuf>,
    /// Program to install [default: this one]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// Name of the systemd user unit; another one for each workflow on the host
    #[arg(long, value_name = "NAME", default_value = "vik-worker")]
    pub unit: UnitName,
    /// Seconds to wait until the worker is connected
    #[arg(long, value_name = "SECS", default_value_t = 120)]
    pub timeout: u64,
    /// Inspect the host and print the steps and the unit, but change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Installs a worker, or brings an installed one up to date.
pub fn run(workflow: &Path, args: &InstallArgs) -> CliResult {
    let loaded = WorkflowFile::valid(&absolute(workflow), warn)?;
    let installation = Installation::prepare(&loaded, args)?;
    let mut progress = Progress {
        steps: Vec::new(),
        is_silent: args.json,
    };
    installation.run(&mut progress)?;
    if args.json {
        print_json(&WorkerInstallation {
            schema: SCHEMA,
            host: args.host.to_string(),
            unit: args.unit.to_string(),
            dry_run: args.dry_run,
            steps: progress.steps,
            unit_file: installation.unit_text,
        });
    } else if args.dry_run {
        print(&format!("\n{}", installation.unit_text));
    }
    Ok(Exit::Done)
}

struct Installation<'a> {
    args: &'a InstallArgs,
    layout: Layout<'a>,
    /// The name of the workflow file.
    workflow: String,
    unit_text: String,
    /// All files of the installation; the program is the last one.
    files: Vec<RemoteFile>,
}

impl<'a> Installation<'a> {
    fn prepare(loaded: &LoadedWorkflow, args: &'a InstallArgs) -> Result<Self, Failure> {
        let layout = Layout { unit: &args.unit };
        let mut files = files::workflow(layout, loaded, &args.include)?;
        let workflow = loaded.path.file_name().unwrap_or_default();
        let workflow = workflow.to_string_lossy().into_owned();
        let unit_text = unit::text(layout, &args.options, &workflow);
        if let Some(path) = &args.env_file {
            files.push(files::environment(layout, path)?);
        }
        let unit = unit_text.clone().into_bytes();
        files.push(RemoteFile::new(Part::Unit, layout.unit_file(), 0o644, unit));
        files.push(files::program(layout, args.program.as_deref())?);
        Ok(Self {
            args,
            layout,
            workflow,
            unit_text,
            files,
        })
    }

    fn run(&self, progress: &mut Progress) -> Result<(), Failure> {
        let host = &self.args.host;
        let mut facts = HostFacts::default();
        let script = script::inspect(self.layout, &self.files);
        ssh::run(host, &script, &[], &mut |report| facts.add(report))?;
        let program = self.files.last().map_or(&[][..], |file| &file.content);
        facts.check(host, program)?;
        let files = self.files.iter().enumerate();
        let changed: Vec<_> = files
            .filter(|(index, file)| !facts.has(*index, file))
            .map(|(_, file)| file)
            .collect();
        facts.check_space(host, &changed)?;
        progress.add_host(&facts);
        if self.args.dry_run {
            progress.add_files(self.layout, &self.files, &changed, true);
            self.plan_start(progress, &facts, !changed.is_empty());
            return Ok(());
        }
        self.place(progress, &changed)?;
        self.start(progress, &facts)
    }

    fn plan_start(&self, progress: &mut Progress, facts: &HostFacts, is_changed: bool) {
        if !facts.lingers {
            let text = "to be enabled, so that the worker runs without a login";
            progress.add(InstallationStepName::Lingering, StepResult::Planned, text);
        }
        let text = if is_changed {
            "to be started; a running worker ends its attempts first"
        } else {
            "to be started if it does not run with these files"
        };
        progress.add(InstallationStepName::Service, StepResult::Planned, text);
    }

    /// Copies the files that differ, and checks with the copied program that agents can run there.
    fn place(&self, progress: &mut Progress, changed: &[&RemoteFile]) -> Result<(), Failure> {
        let host = &self.args.host;
        let script = script::place(self.layout, &self.workflow, changed);
        let mut findings = String::new();
        ssh::run(host, &script, changed, &mut |report| match &*report.key {
            "placed" => progress.add_files(self.layout, &self.files, changed, false),
            "doctor" => {
                findings.push_str(&report.value);
                findings.push('\n');
            }
            _ => {}
        })?;
        for check in needs(&findings) {
            let hint = check.hint.unwrap_or_default();
            if check.check == "sandbox" {
                return Err(failure::of_host(host, &one_line(&check.message, 300), hint));
            }
            let text = format!("{}: {}", check.check, check.message);
            progress.add(InstallationStepName::Check, StepResult::Warning, text);
        }
        Ok(())
    }

    fn start(&self, progress: &mut Progress, facts: &HostFacts) -> Result<(), Failure> {
        let host = &self.args.host;
        let script = script::start(self.layout, self.args.timeout);
        ssh::run(host, &script, &[], &mut |report| {
            if let Some((step, result, text)) = self.start_step(report, facts) {
                progress.add(step, result, text);
            }
        })
    }

    /// Returns the step that a report of the start describes.
    fn start_step(
        &self,
        report: &Report,
        facts: &HostFacts,
    ) -> Option<(InstallationStepName, StepResult, String)> {
        let unit = self.layout.unit;
        let lingering = |result, text: &str| (InstallationStepName::Lingering, result, text.to_owned());
        let service = |result, text: &str| (InstallationStepName::Service, result, format!("{unit} {text}"));
        Some(match (&*report.key, &*report.value) {
            ("linger", "unchanged") => {
                lingering(StepResult::Unchanged, "enabled: the worker runs without a login")
            }
            ("linger", "changed") => lingering(
                StepResult::Changed,
                "enabled now: the worker runs without a login",
            ),
            ("linger", _) => {
                let command = failure::enable_linger(&facts.user);
                let text = format!("not allowed: the worker ends with the last login; run `{command}` there");
                lingering(StepResult::Warning, &text)
            }
            ("service", "unchanged") => service(StepResult::Unchanged, "runs already"),
            ("service", "restarted") => service(StepResult::Changed, "restarts"),
            ("service", _) => service(StepResult::Changed, "started"),
            ("draining", _) => service(
                StepResult::Unchanged,
                "ends the attempts of the previous worker first",
            ),
            ("connected", status) => (
                InstallationStepName::Connection,
                StepResult::Unchanged,
                status.to_owned(),
            ),
            _ => return None,
        })
    }
}

/// What `vik doctor --json` found.
#[derive(Deserialize)]
struct Findings {
    checks: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    check: String,
    status: String,
    message: String,
    hint: Option<String>,
}

/// Returns what agents need and the host does not have: a sandbox, and the agents themselves.
/// Other checks are those of a hub. An older or newer program may print something else.
fn needs(findings: &str) -> Vec<Finding> {
    let findings: Result<Findings, _> = serde_json::from_str(findings);
    let checks = findings.map(|findings| findings.checks).unwrap_or_default();
    let is_need = |check: &Finding| {
        let is_of_agent = check.check == "sandbox" || check.check.starts_with("agent.");
        is_of_agent && check.status == "error"
    };
    checks.into_iter().filter(is_need).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_those_of_agents() {
        let findings = r#"{"checks": [
            {"check": "sandbox", "status": "error", "code": "x", "message": "no Landlock", "hint": "h", "new": 1},
            {"check": "sandbox.limits", "status": "error", "message": "m", "hint": null},
            {"check": "agent.codex", "status": "error", "message": "not found", "hint": null},
            {"check": "agent.vex", "status": "warning", "message": "old", "hint": null},
            {"check": "pull", "status": "error", "message": "no gh", "hint": null}
        ]}"#;
        let names: Vec<_> = needs(findings).into_iter().map(|need| need.check).collect();
        assert_eq!(names, ["sandbox", "agent.codex"]);
        assert!(needs("").is_empty());
    }
}
