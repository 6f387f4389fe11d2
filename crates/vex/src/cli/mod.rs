//! The command line.

mod args;
mod config;
mod doctor;
mod exec;
mod models;
mod output;
mod prompt;
mod provider;
mod sessions;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use args::{ChoiceArgs, ExecArgs};
pub use config::{ConfigArgs, ConfigVerb};
pub use doctor::DoctorArgs;
pub use models::ModelsArgs;
pub use sessions::{SessionsArgs, SessionsVerb};

use crate::events::ExitReason;

/// The coding agent that is built into Vik
///
/// It works on a task with a model of your choice, in a workspace of your choice, and is made to be
/// left alone: it never asks, and its exit code tells the truth.
#[derive(Debug, Parser)]
#[command(
    name = "vex",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        ANTHROPIC_API_KEY=… vex exec -m claude-sonnet-5-5 'Fix the failing test'\n  \
        vex exec --base-url http://127.0.0.1:8080/v1 -m qwen 'Say what src/main.rs does' --permission read-only\n  \
        git diff | vex exec -m gpt-5 --json -o review.md -\n  \
        vex doctor --probe"
)]
pub struct VexArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: VexCommand,
}

/// The verbs of vex.
#[derive(Debug, Subcommand)]
pub enum VexCommand {
    /// Work on one prompt, then exit
    #[command(
        args_override_self = true,
        after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 settings, 4 login or model refused, 5 limit reached,\n\
                            6 no progress, 7 denied by the permission, 130 interrupted\n\n\
                            Each option can also stand in a settings file or in the environment (VEX_MODEL, VEX_MAX_TURNS, …):\n\
                            `vex config show` tells where each value comes from."
    )]
    Exec(Box<ExecArgs>),
    /// List the models of a provider
    Models(ModelsArgs),
    /// Look whether a run could begin: settings, keys, sandbox, provider
    Doctor(DoctorArgs),
    /// Show the settings and where each comes from
    Config(ConfigArgs),
    /// List what can go on with `vex exec --resume ID`
    Sessions(SessionsArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Runs vex on a parsed command line. Handles signals and writes to stdout and stderr.
pub fn run(args: VexArgs) -> ExitCode {
    let reason = match args.command {
        VexCommand::Exec(args) => exec::run(&args),
        VexCommand::Models(args) => models::run(&args),
        VexCommand::Doctor(args) => doctor::run(&args),
        VexCommand::Config(args) => config::run(&args),
        VexCommand::Sessions(args) => sessions::run(&args),
        VexCommand::Completions { shell } => completions(shell),
    };
    ExitCode::from(reason.code())
}

fn completions(shell: clap_complete::Shell) -> ExitReason {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut crate::cli(), "vex", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}
