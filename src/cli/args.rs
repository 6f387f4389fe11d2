//! The arguments of the command line.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

/// Turns an issue tracker into a work queue for coding agents.
#[derive(Debug, Parser)]
#[command(
    name = "vik",
    version,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 success, 1 a run failed, 2 usage error, 3 invalid workflow, 4 no daemon, 5 \
                  already running, 6 timed out, 7 budget exceeded, 8 no pull succeeded or issue not found, \
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
    /// Stop the daemon and remove its instance; history and workspaces are kept
    Uninstall(UninstallArgs),
    /// List runs and their attempts
    Runs(RunsArgs),
    /// Show the history of an issue: current hold, decisions and attempts
    Show(ShowArgs),
    /// Print session logs
    Logs(LogsArgs),
    /// Summarize work, results and cost
    Report(ReportArgs),
    /// Show which agent changed which lines for which issue; verify and export the records
    Trace(crate::cli::trace::TraceArgs),
    /// Watch and control running, waiting and parked issues in the terminal
    Top(TopArgs),
    /// List browsers that are signed in to the dashboard, or sign them out
    SignIns(SignInsArgs),
    /// Explain why an issue runs or does not run, and when it runs next
    Explain(ExplainArgs),
    /// List schedule entries with their last result and next due time
    Schedule(ScheduleArgs),
    /// Reload the workflow and pull the issues now
    Refresh,
    /// Pause scheduling for one issue or for all; running attempts continue
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
    /// Deny a pending start, tool call or result, optionally with instructions
    Deny(AnswerArgs),
    /// Start no new attempts, and exit when the running ones have ended
    Drain(DrainArgs),
    /// List old sessions and workspaces, and remove them with --yes
    Prune(PruneArgs),
    /// Test the notifiers of the workflow
    Notify(NotifyArgs),
    /// Manage the issues of the embedded tracker (Markdown files)
    Issue(crate::cli::issue::IssueArgs),
    /// Run git in the workspace of an issue without its git settings, for hooks
    Git(crate::cli::git::GitArgs),
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
    Completions {
        /// Shell to generate completions for
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// An unknown command
    #[command(external_subcommand)]
    Unknown(Vec<OsString>),
}

impl Verb {
    /// Returns whether errors must be printed as JSON too.
    pub fn wants_json(&self) -> bool {
        match self {
            Self::Doctor(args) => args.json,
            Self::Status(args) => args.json,
            Self::Runs(args) => args.json,
            Self::Schedule(args) => args.json,
            Self::Show(args) => args.json,
            Self::Report(args) => args.json,
            Self::Notify(args) => args.wants_json(),
            Self::Explain(args) => args.json,
            Self::Trace(args) => args.wants_json(),
            Self::Logs(args) => args.json,
            Self::SignIns(args) => args.json,
            Self::Prune(args) => args.json,
            _ => false,
        }
    }
}

/// The workflow file as a positional argument.
#[derive(Debug, Args)]
pub struct Positional {
    /// Path to the workflow file (same as --workflow)
    #[arg(value_name = "WORKFLOW")]
    pub positional: Option<PathBuf>,
}

macro_rules! with_positional {
    ($($name:ident),*) => { $(
        impl $name {
            /// Returns the positional workflow, or else the given one.
            pub fn workflow_or<'a>(&'a self, workflow: &'a Path) -> &'a Path {
                self.workflow.positional.as_deref().unwrap_or(workflow)
            }
        }
    )* };
}

with_positional!(
    DoctorArgs,
    RunArgs,
    StatusArgs,
    StopArgs,
    RestartArgs,
    UninstallArgs
);

/// `vik init`
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Tracker that contains the issues; prompts if omitted
    #[arg(long, value_enum)]
    pub tracker: Option<TrackerKind>,
    /// Agent that works on the issues; prompts if omitted
    #[arg(long, value_enum)]
    pub agent: Option<AgentKind>,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
    /// Do not run `doctor` afterwards
    #[arg(long)]
    pub no_doctor: bool,
}

/// Trackers that `init` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TrackerKind {
    /// Markdown files in `issues/`
    Files,
    /// GitHub issues, with `gh`
    Github,
    /// GitLab issues, with `glab`
    Gitlab,
    /// Linear, with `curl`
    Linear,
    /// Jira, with `curl`
    Jira,
}

/// Agents that `init` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AgentKind {
    /// Codex CLI
    Codex,
    /// Claude Code
    Claude,
    /// The built-in agent
    Vex,
}

/// `vik schedule`
#[derive(Debug, Args)]
pub struct ScheduleArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `vik doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    workflow: Positional,
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Check files only, without running commands or agents
    #[arg(long)]
    pub offline: bool,
    /// List all Vik processes on this host with their owners; exit with 1 if a process has no owner
    #[arg(long, conflicts_with_all = ["strict", "offline", "repair"])]
    pub orphans: bool,
    /// Rebuild a damaged ledger from its remains and the session logs; the daemon must be stopped
    #[arg(long, conflicts_with_all = ["strict", "offline"])]
    pub repair: bool,
}

/// `vik run`
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    workflow: Positional,
    /// Run in the background; return when the daemon is ready
    #[arg(short, long, alias = "detached", conflicts_with_all = ["once", "dry_run"])]
    pub detach: bool,
    /// Run until no work is left, then exit with a code for the result
    #[arg(long)]
    pub once: bool,
    /// Pull once and show what would start, with rendered prompts and hooks, without starting anything
    #[arg(long, conflicts_with = "once")]
    pub dry_run: bool,
    /// Handle only this issue (can be repeated)
    #[arg(long, value_name = "ID")]
    pub issue: Vec<String>,
    /// Run only this stage (can be repeated)
    #[arg(long, value_name = "NAME")]
    pub stage: Vec<String>,
    /// Exit after this many pulls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_iterations: Option<u64>,
    /// Port of the dashboard and the HTTP API; 0 selects a free port
    #[arg(long, value_name = "N", conflicts_with = "dry_run")]
    pub port: Option<u16>,
    /// Address of the dashboard and the HTTP API; an address other than loopback exposes them to the network unencrypted
    #[arg(long, value_name = "A", default_value = "127.0.0.1", requires = "port")]
    pub bind_address: IpAddr,
    /// Log more to stderr (-v info, -vv debug)
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Run as the detached daemon process
    #[arg(long, hide = true)]
    pub daemon_child: bool,
}

/// `vik status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    workflow: Positional,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// List all daemons of this user
    #[arg(long)]
    pub all: bool,
}

/// `vik stop`
#[derive(Debug, Args)]
pub struct StopArgs {
    #[command(flatten)]
    workflow: Positional,
    /// Seconds to wait before killing the daemon
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    pub timeout: u64,
    /// Keep agents running for up to `loop.orphan_grace`, so that the next daemon can adopt them
    #[arg(long)]
    pub keep_sessions: bool,
}

/// `vik restart`
#[derive(Debug, Args)]
pub struct RestartArgs {
    #[command(flatten)]
    workflow: Positional,
    /// Seconds to wait for the old daemon to exit
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    pub timeout: u64,
    /// Keep agents running; the new daemon adopts them without losing output
    #[arg(long)]
    pub keep_sessions: bool,
}

/// `vik uninstall`
#[derive(Debug, Args)]
pub struct UninstallArgs {
    #[command(flatten)]
    workflow: Positional,
    /// Seconds to wait before killing the daemon
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    pub timeout: u64,
}

/// `vik runs`
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show only the runs of this issue
    #[arg(long, value_name = "ID")]
    pub issue: Option<String>,
}

/// `vik show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Issue ID
    pub issue: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `vik explain`
#[derive(Debug, Args)]
#[command(after_help = "The answer comes from the running daemon or, without one, from the ledger.")]
pub struct ExplainArgs {
    /// Issue ID
    pub issue: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `vik pause`
#[derive(Debug, Args)]
#[command(after_help = "A pause remains in force across restarts of the daemon, until `vik resume`.")]
pub struct PauseArgs {
    /// Issue ID [default: all issues]
    pub issue: Option<String>,
}

/// `vik resume`
#[derive(Debug, Args)]
#[command(after_help = "A pause of all issues and a pause of one issue are independent of each other.")]
pub struct ResumeArgs {
    /// Issue ID [default: all issues]
    pub issue: Option<String>,
}

/// `vik cancel`
#[derive(Debug, Args)]
#[command(
    after_help = "Agents get time to exit before they are killed. The stage stays parked until the issue \
                        changes or `vik retry` is run."
)]
pub struct CancelArgs {
    /// Issue ID
    pub issue: String,
}

/// `vik retry`
#[derive(Debug, Args)]
#[command(after_help = "`vik status` lists parked issues, with their reasons and how to unpark them.")]
pub struct RetryArgs {
    /// Issue ID
    pub issue: String,
    /// Retry only this stage [default: every parked stage]
    #[arg(long, value_name = "NAME")]
    pub stage: Option<String>,
    /// Allow at least this many more attempts, regardless of `max_attempts` and `issue.limits.attempts`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: Option<u32>,
}

/// `vik approve`, `vik deny`
#[derive(Debug, Args)]
#[command(
    after_help = "`vik status` lists pending requests and their deadlines. If nobody answers in time, \
                  `approve.on_timeout` of the stage decides.\n\n`deny --message` rejects a tool call and \
                  sends the text to the agent; for a denied result, the next attempt gets the text. \
                  Without a message, a denied start or result stays parked until the issue changes or `vik \
                  retry` is run."
)]
pub struct AnswerArgs {
    /// Issue ID
    pub issue: String,
    /// Stage, if several stages have pending requests
    #[arg(long, value_name = "NAME")]
    pub stage: Option<String>,
    /// Answer only this request; `vik status --json` prints the id
    #[arg(long, value_name = "ID")]
    pub request: Option<String>,
    /// Message for the agent
    #[arg(long, short, value_name = "TEXT")]
    pub message: Option<String>,
}

/// `vik drain`
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Wait until the daemon has exited
    #[arg(long)]
    pub wait: bool,
    /// Seconds to wait [default: no limit]
    #[arg(long, value_name = "SECS", requires = "wait")]
    pub timeout: Option<u64>,
}

/// `vik logs`
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Follow the log as new events arrive
    #[arg(short, long)]
    pub follow: bool,
    /// Show only sessions of this issue
    #[arg(long, value_name = "ID")]
    pub issue: Option<String>,
    /// Show only this session; a prefix of its id is enough
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
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

/// `vik top`
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Connect to a daemon on another host: the link that `vik status` prints there, or a URL such as
    /// http://127.0.0.1:8080 with the token in VIK_API_TOKEN or VIK_API_TOKEN_FILE
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
}

/// `vik sign-ins`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SignInsArgs {
    /// Command [default: list the sign-ins]
    #[command(subcommand)]
    pub verb: Option<SignInsVerb>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The verbs of `vik sign-ins`.
#[derive(Debug, Subcommand)]
pub enum SignInsVerb {
    /// Sign a browser out immediately
    #[command(after_help = "Run `vik sign-ins` to list the ids.")]
    Revoke {
        /// Id of the sign-in
        #[arg(value_name = "ID", required_unless_present = "all")]
        id: Option<String>,
        /// Sign out all browsers
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

/// `vik report`
#[derive(Debug, Args)]
#[command(
    after_help = "The report covers the attempts that started in this period. It reads the ledger and needs no daemon. Times are UTC."
)]
pub struct ReportArgs {
    /// Start of the period: a duration (`24h`, `7d`), date (`2026-03-01`) or time (`2026-03-01T12:00:00Z`)
    #[arg(long, value_name = "WHEN", default_value = "7d")]
    pub since: vik_control::figures::Since,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown
    #[arg(long)]
    pub markdown: bool,
}

/// `vik prune`
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Minimum age of what is removed
    #[arg(long, value_name = "AGE", default_value = "30d")]
    pub older_than: vik_core::duration::Span,
    /// Remove instead of only listing
    #[arg(short, long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `vik notify`
#[derive(Debug, Args)]
pub struct NotifyArgs {
    /// The command to run
    #[command(subcommand)]
    pub verb: NotifyVerb,
}

/// The verbs of `vik notify`.
#[derive(Debug, Subcommand)]
pub enum NotifyVerb {
    /// Send a test notification and print the result
    Test {
        /// Notifier to test [default: all]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
}

impl NotifyArgs {
    fn wants_json(&self) -> bool {
        let NotifyVerb::Test { json, .. } = &self.verb;
        *json
    }
}
