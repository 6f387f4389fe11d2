//! The arguments of the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use vik_control::PointInTime;

use super::answer::AnswerArgs;
use super::answer_question::AnswerQuestionArgs;
use super::cancel::CancelArgs;
use super::diff::DiffArgs;
use super::doctor::DoctorArgs;
use super::drain::DrainArgs;
use super::explain::ExplainArgs;
use super::handback::HandbackArgs;
use super::init::InitArgs;
use super::issue_arg::OptionalIssue;
use super::message::MessageArgs;
use super::notify::NotifyArgs;
use super::pause::PauseArgs;
use super::prune::PruneArgs;
use super::report::ReportArgs;
use super::restart::RestartArgs;
use super::resume::ResumeArgs;
use super::retry::RetryArgs;
use super::run::RunArgs;
use super::runs::RunsArgs;
use super::schedule::ScheduleArgs;
use super::show::ShowArgs;
use super::sign_ins::SignInsArgs;
use super::status::StatusArgs;
use super::stop::StopArgs;
use super::takeover::TakeoverArgs;
use super::top::TopArgs;
use super::uninstall::UninstallArgs;

/// Turns an issue tracker into a work queue for coding agents.
#[derive(Debug, Parser)]
#[command(
    name = "vik",
    version,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "`vik COMMAND --help` shows the arguments and examples of a command.\n\nExit codes: 0 \
                  success, 1 a run failed, 2 usage error, 3 invalid workflow, 4 no daemon, 5 \
                  already running, 6 timed out, 7 a limit was reached, 8 no pull succeeded or issue not found, \
                  9 no progress, 10 work is waiting, 70 bug, 130 interrupted."
)]
pub struct Cli {
    /// Path to the workflow file
    #[arg(
        short,
        long,
        global = true,
        value_name = "FILE",
        default_value = "./workflow.yml"
    )]
    pub workflow: PathBuf,
    /// The command to run
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Create a working workflow for a tracker and an agent
    Init(InitArgs),
    /// Check the workflow and everything that `run` needs
    Doctor(DoctorArgs),
    /// Pull issues and run agents, in the foreground or detached
    Run(RunArgs),
    /// Show the current state of the daemon and its work
    Status(StatusArgs),
    /// Stop the daemon and wait until all of its processes have exited
    Stop(StopArgs),
    /// Stop the daemon and start it again, detached
    Restart(RestartArgs),
    /// Stop the daemon and remove its instance, but keep the history
    ///
    /// Workspaces are kept too.
    Uninstall(UninstallArgs),
    /// List runs and their attempts
    Runs(RunsArgs),
    /// Show the history of an issue: hold, decisions and attempts
    Show(ShowArgs),
    /// Show what an issue, or one of its attempts, changed
    Diff(DiffArgs),
    /// Print session logs
    Logs(LogsArgs),
    /// Summarize work, results and cost
    Report(ReportArgs),
    /// Show which agent changed which lines for which issue
    ///
    /// Verifies and exports the records too.
    Trace(crate::cli::trace::TraceArgs),
    /// Watch and control the issues in the terminal
    Top(TopArgs),
    /// List or sign out browsers that use the dashboard
    SignIns(SignInsArgs),
    /// Explain why an issue runs or does not run, and when it runs next
    Explain(ExplainArgs),
    /// List schedule entries with their last result and next due time
    Schedule(ScheduleArgs),
    /// Reload the workflow and pull the issues now
    Refresh,
    /// Pause scheduling for one issue or all; running attempts continue
    Pause(PauseArgs),
    /// Resume after `vik pause`
    #[command(alias = "continue")]
    Resume(ResumeArgs),
    /// Stop the running attempts of an issue and park it
    Cancel(CancelArgs),
    /// Retry the parked stages of an issue
    #[command(alias = "unpark")]
    Retry(RetryArgs),
    /// Approve a pending start, tool call or result
    Approve(AnswerArgs),
    /// Deny a pending start, tool call or result
    ///
    /// A message can instruct the agent.
    Deny(AnswerArgs),
    /// Answer the question of an agent
    ///
    /// The agent continues its conversation with the answer.
    Answer(AnswerQuestionArgs),
    /// Send a message to the agent of an issue
    ///
    /// The running agent gets it, or the next one. Lists and withdraws messages that wait, too.
    Message(MessageArgs),
    /// Take an issue over from its agent, to continue its conversation
    Takeover(TakeoverArgs),
    /// Hand an issue back that was taken over
    Handback(HandbackArgs),
    /// Start no new attempts, and exit when the running ones have ended
    Drain(DrainArgs),
    /// List old sessions and workspaces, and remove them with --yes
    Prune(PruneArgs),
    /// Test the notifiers of the workflow
    Notify(NotifyArgs),
    /// Manage the issues of the embedded tracker (Markdown files)
    Issue(crate::cli::issue::IssueArgs),
    /// Use a tracker through the tracker protocol, or test one
    Tracker(crate::cli::tracker::TrackerArgs),
    /// Run git safely in the workspace of an issue, for hooks
    ///
    /// The git settings of the workspace, which the agent controls, are not used.
    Git(crate::cli::git::GitArgs),
    /// Run a worker, or install one on another machine
    ///
    /// Workers run the attempts of a queue that several machines have in common. A worker has no
    /// ledger, and needs no credentials of the tracker.
    #[cfg(feature = "temporal")]
    Worker(crate::cli::worker::WorkerArgs),
    /// Run the built-in agent
    #[command(disable_help_flag = true)]
    Vex {
        /// Arguments of the built-in agent
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// Print the JSON Schema of workflow.yml
    Schema,
    /// Print shell completions
    ///
    /// They know commands and options, for packages. `VIK_COMPLETE=bash vik` prints completions that
    /// also know the issues, stages and states of the workflow: `source <(VIK_COMPLETE=bash vik)`.
    Completions {
        /// Shell to generate completions for
        shell: clap_complete::Shell,
    },
    /// Print a manual page, or write them all
    Man(super::schema::ManArgs),
    /// An unknown command
    #[command(external_subcommand)]
    Unknown(Vec<OsString>),
}

/// `vik logs`
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Follow the log as new events arrive
    #[arg(short, long)]
    pub follow: bool,
    #[command(flatten)]
    pub issue: OptionalIssue,
    /// Show only this session; a prefix of its id is enough
    #[arg(long, value_name = "ID", add = super::completion::sessions())]
    pub session: Option<String>,
    /// Show only the sessions of this stage
    #[arg(long, value_name = "NAME", add = super::completion::stages())]
    pub stage: Option<String>,
    /// Show only the last N events of each session; with --raw, lines
    #[arg(long, value_name = "N")]
    pub tail: Option<usize>,
    /// Show only events at or after this time, of all sessions: `10m`, `yesterday`, `2026-03-01` or a timestamp
    #[arg(long, value_name = "WHEN", conflicts_with = "raw")]
    pub since: Option<PointInTime>,
    /// Show each event's local date and time with the offset from UTC
    #[arg(long, conflicts_with_all = ["raw", "json"])]
    pub timestamps: bool,
    /// Print the agent's raw output with secrets masked; this reads the values of the workflow's secrets
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
    /// With --raw, do not mask secrets
    #[arg(long, requires = "raw")]
    pub unmasked: bool,
    /// Print events as JSON lines
    #[arg(long)]
    pub json: bool,
    /// Print inputs, outputs and usage in full
    #[arg(long, conflicts_with_all = ["raw", "json"])]
    pub full: bool,
}
