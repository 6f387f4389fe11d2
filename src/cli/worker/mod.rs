//! `vik worker`: workers, which carry out attempts for hubs.

mod connection;
mod install;
mod options;

use std::path::Path;

use clap::{Args, Subcommand};

use super::CliResult;

/// `vik worker`
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// The command to run
    #[command(subcommand)]
    pub command: WorkerCommand,
}

/// The commands of `vik worker`.
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// Install a worker on another machine over SSH, or upgrade it
    Install(Box<install::InstallArgs>),
}

/// Runs a command of `vik worker`.
pub fn run(workflow: &Path, args: &WorkerArgs) -> CliResult {
    match &args.command {
        WorkerCommand::Install(args) => install::run(workflow, args),
    }
}
