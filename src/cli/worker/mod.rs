//! `vik worker`: workers, which carry out attempts for hubs.

mod connection;
mod drain;
mod install;
mod options;

use std::num::NonZeroU32;
use std::path::Path;

use clap::{Args, Subcommand};
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::worker::{WorkerLabel, WorkerName};
use vik_core::workflow::Engine;
use vik_daemon::logging::Console;
use vik_temporal::engine::TemporalEngine;
use vik_temporal::worker_process::{self, serve_worker};
use vik_workflow::{LoadedWorkflow, WorkflowFile};

use self::options::WorkerOptions;
use super::positional::Positional;
use super::{CliResult, built_in_agent, warn};

/// `vik worker`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "SIGTERM ends the attempts, and hubs start them again on other workers; SIGUSR1 drains."
)]
pub struct WorkerArgs {
    /// The command to run
    #[command(subcommand)]
    pub command: Option<WorkerCommand>,
    #[command(flatten)]
    pub workflow: Positional,
    #[command(flatten)]
    pub options: WorkerOptions,
    /// Log more to stderr (-v debug)
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// The commands of `vik worker`.
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// Install a worker on another machine over SSH, or upgrade it
    Install(Box<install::InstallArgs>),
    /// Drain a worker: it takes no more attempts, and ends when the running ones have ended
    Drain(drain::DrainArgs),
}

/// Runs a worker, or a command of `vik worker`.
pub fn run(workflow: &Path, args: &WorkerArgs) -> CliResult {
    match &args.command {
        Some(WorkerCommand::Install(args)) => install::run(workflow, args),
        Some(WorkerCommand::Drain(args)) => drain::run(workflow, args),
        None => serve(args.workflow.or(workflow), args),
    }
}

fn serve(workflow: &Path, args: &WorkerArgs) -> CliResult {
    let loaded = WorkflowFile::valid(workflow, warn)?;
    built_in_agent::check(&loaded.workflow)?;
    let options = worker_process::WorkerOptions {
        name: name(args.options.name.as_ref())?,
        host: host_name(),
        labels: args
            .options
            .labels
            .iter()
            .cloned()
            .collect::<std::collections::BTreeSet<WorkerLabel>>(),
        capacity: args.options.capacity.unwrap_or_else(default_capacity),
        on_announced: report_connected,
    };
    let identity = format!("vik worker {} ({})", options.name, std::process::id());
    let engine = engine(&loaded, identity)?;
    let level = match args.verbose {
        0 => tracing::Level::INFO,
        _ => tracing::Level::DEBUG,
    };
    serve_worker(&engine, &loaded, &options, Console::From(level))?;
    Ok(Exit::Done)
}

/// Returns the engine of a workflow for a process that presents itself as `identity`.
fn engine(loaded: &LoadedWorkflow, identity: String) -> Result<TemporalEngine, Failure> {
    match &loaded.workflow.engine {
        Some(Engine::Temporal(temporal)) => TemporalEngine::new(temporal.clone(), identity),
        None => Err(Failure::new(
            Exit::Usage,
            ErrorCode::Usage,
            "a worker needs a workflow for several machines",
        )
        .hint("add `engine.temporal` to the workflow, the same on all machines")),
    }
}

fn report_connected(engine: &TemporalEngine) {
    let (address, queue) = engine.place();
    if let Err(error) = connection::report_connected(address, queue) {
        tracing::warn!(%error, "cannot report to systemd");
    }
}

/// Returns the name of a worker: that of its host, unless it has another one.
fn name(given: Option<&WorkerName>) -> Result<WorkerName, Failure> {
    if let Some(name) = given {
        return Ok(name.clone());
    }
    host_name().parse().map_err(|error| {
        Failure::failed(
            ErrorCode::Usage,
            "the name of this host cannot be that of a worker",
            &error,
        )
        .hint("add `--name NAME`")
    })
}

/// Returns the name of this host, without its domain; empty if it has none.
pub(super) fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    let name = name.to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// Returns one attempt for each processor.
fn default_capacity() -> NonZeroU32 {
    let processors = std::thread::available_parallelism().ok();
    let processors = processors.and_then(|count| u32::try_from(count.get()).ok());
    processors.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
}

#[cfg(test)]
mod tests {
    /// `cargo xtask generate` writes the reference from the default build, which has no worker.
    const REFERENCE: &str = include_str!("../../../docs/reference/cli-many-machines.md");

    #[test]
    fn reference_has_the_help_of_the_worker_and_each_of_its_commands() {
        let mut vik = crate::cli::command().term_width(100);
        vik.build();
        let worker = vik.find_subcommand("worker").unwrap();
        let commands = worker
            .get_subcommands()
            .filter(|command| command.get_name() != "help");
        for command in std::iter::once(worker).chain(commands) {
            let help = command.clone().render_long_help().to_string();
            let lines: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
            let name = command.get_bin_name().unwrap();
            let section = format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n"));
            assert!(REFERENCE.contains(&section), "the reference lacks:{section}");
        }
    }
}
