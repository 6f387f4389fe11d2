//! The command line.

mod args;
mod chat;
mod config;
mod doctor;
mod exec;
mod mcp_tools;
mod models;
mod output;
mod prompt;
mod provider;
mod sessions;
mod skills;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use args::{ChoiceArgs, ExecArgs};
pub use config::{ConfigArgs, ConfigVerb};
pub use doctor::DoctorArgs;
pub use mcp_tools::McpToolsArgs;
pub use models::ModelsArgs;
pub use sessions::{SessionsArgs, SessionsVerb};
pub use skills::SkillsArgs;

use crate::events::ExitReason;

/// Coding agent that is built into Vik
///
/// Works on a task with any model, in any workspace, and without supervision: vex never asks a
/// question, and its exit code reports the result.
#[derive(Debug, Parser)]
#[command(
    name = "vex",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        ANTHROPIC_API_KEY=… vex exec -m claude-sonnet-5-5 'Fix the failing test'\n  \
        vex exec --base-url http://127.0.0.1:8080/v1 -m qwen 'Explain src/main.rs' --permission read-only\n  \
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
    /// Run one task, then exit
    #[command(
        args_override_self = true,
        after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 settings, 4 login or model refused, 5 limit reached,\n\
                            6 no progress, 7 tool call denied, 130 interrupted\n\n\
                            Each option can also be set in a settings file or the environment (VEX_MODEL, VEX_MAX_TURNS, …).\n\
                            `vex config show` prints the origin of each value."
    )]
    Exec(Box<ExecArgs>),
    /// List the models of a provider
    Models(ModelsArgs),
    /// Check whether a run could start: settings, keys, sandbox, provider
    Doctor(DoctorArgs),
    /// Show the settings and their origins
    Config(ConfigArgs),
    /// List the sessions that `vex exec --resume ID` can resume
    Sessions(SessionsArgs),
    /// List the skills that the model can load, with their origins
    Skills(SkillsArgs),
    /// List the tools of MCP servers as JSON, for `vik doctor`
    #[command(hide = true)]
    McpTools(McpToolsArgs),
    /// Generate shell completions
    Completions {
        /// Shell
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
        VexCommand::Skills(args) => skills::run(&args),
        VexCommand::McpTools(args) => mcp_tools::run(&args),
        VexCommand::Completions { shell } => completions(shell),
    };
    ExitCode::from(reason.code())
}

fn completions(shell: clap_complete::Shell) -> ExitReason {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut crate::cli(), "vex", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}
