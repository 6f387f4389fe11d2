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
    after_help = "Exit codes: 0 done, 1 a run failed, 2 usage, 3 workflow invalid, 4 no daemon, 5 already running, \
                  6 timed out, 7 budget, 8 no pull succeeded or issue not found, 9 no progress, 10 something waits, \
                  70 bug, 130 interrupted."
)]
pub struct Cli {
    /// The workflow file
    #[arg(
        short,
        long,
        global = true,
        value_name = "FILE",
        default_value = "./workflow.yml"
    )]
    pub workflow: PathBuf,
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write a workflow that works: tracker, agent, prompts
    Init(InitArgs),
    /// Check the workflow, and try what `run` will do
    Doctor(DoctorArgs),
    /// Take issues and run agents, in the foreground or detached
    Run(RunArgs),
    /// Show what the daemon does now
    Status(StatusArgs),
    /// Stop the daemon; returns when no process of it is left
    Stop(StopArgs),
    /// Stop the daemon, then start it again detached
    Restart(RestartArgs),
    /// Stop and remove the instance; history and workspaces stay
    Uninstall(UninstallArgs),
    /// List runs and their attempts
    Runs(RunsArgs),
    /// Show one issue's life: what holds it now, what was decided, its attempts
    Show(ShowArgs),
    /// Print session logs
    Logs(LogsArgs),
    /// Sum up what was done, how it went, and what it cost
    Report(ReportArgs),
    /// Tell which agent changed which lines, for which issue; check and export the records
    Trace(crate::cli::trace::TraceArgs),
    /// Watch what runs, waits and is parked in the terminal; follow sessions and steer
    Top(TopArgs),
    /// List the browsers that are signed in to the dashboard, and sign them out
    SignIns(SignInsArgs),
    /// Say why an issue runs, why not, and when next
    Explain(ExplainArgs),
    /// List the entries of the schedule: how they went last, when they are due next
    Schedule(ScheduleArgs),
    /// Look at the workflow and the issues now
    Refresh,
    /// Start nothing more for an issue, or at all; what runs goes on
    Pause(PauseArgs),
    /// Take `pause` back
    Continue(PauseArgs),
    /// Stop what runs for an issue, and park it
    Cancel(CancelArgs),
    /// Free what is parked for an issue
    Unpark(UnparkArgs),
    /// Let go on what waits for you: a start, a call of an agent, a result
    Approve(AnswerArgs),
    /// Deny what waits for you, or say what to do instead
    Deny(AnswerArgs),
    /// Start nothing more, and end when nothing runs
    Drain(DrainArgs),
    /// Remove old sessions and workspaces, after showing which
    Prune(PruneArgs),
    /// Try the notifiers of the workflow
    Notify(NotifyArgs),
    /// The embedded tracker: issues as Markdown files
    Issue(crate::cli::issue::IssueArgs),
    /// Git in the workspace of an issue, with nothing of the workspace's settings: for hooks
    Git(crate::cli::git::GitArgs),
    /// The built-in agent
    #[command(disable_help_flag = true)]
    Vex {
        /// Its own command line
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        args: Vec<OsString>,
    },
    /// Print the JSON Schema of workflow.yml
    Schema,
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// What is no verb
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
    /// The workflow file (the same as --workflow)
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
    /// Where issues live; asked for when not given
    #[arg(long, value_enum)]
    pub tracker: Option<TrackerKind>,
    /// Which agent works on them; asked for when not given
    #[arg(long, value_enum)]
    pub agent: Option<AgentKind>,
    /// Overwrite files that are there
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
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `vik doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    workflow: Positional,
    /// Warnings are errors
    #[arg(long)]
    pub strict: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Check the files only: run no command, start no agent
    #[arg(long)]
    pub offline: bool,
    /// List every process of Vik's on this host and who looks after it; exit 1 when one has nobody
    #[arg(long, conflicts_with_all = ["strict", "offline", "repair"])]
    pub orphans: bool,
    /// Rebuild a damaged ledger from what is left of it and the session logs; no daemon may run
    #[arg(long, conflicts_with_all = ["strict", "offline"])]
    pub repair: bool,
}

/// `vik run`
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    workflow: Positional,
    /// Run in the background; returns when the daemon is ready
    #[arg(short, long, alias = "detached", conflicts_with_all = ["once", "dry_run"])]
    pub detach: bool,
    /// Run until there is nothing left to do, then exit with a code that says what happened
    #[arg(long)]
    pub once: bool,
    /// Pull once and show what would start, with rendered prompts and hooks; starts nothing
    #[arg(long, conflicts_with = "once")]
    pub dry_run: bool,
    /// Only this issue (may be given more than once)
    #[arg(long, value_name = "ID")]
    pub issue: Vec<String>,
    /// Only this stage (may be given more than once)
    #[arg(long, value_name = "NAME")]
    pub stage: Vec<String>,
    /// End after this many pulls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_iterations: Option<u64>,
    /// Serve the dashboard and the HTTP API on this port; 0 takes a free one
    #[arg(long, value_name = "N", conflicts_with = "dry_run")]
    pub port: Option<u16>,
    /// The address to serve it at; others than loopback are reached from other machines, without encryption
    #[arg(long, value_name = "A", default_value = "127.0.0.1", requires = "port")]
    pub bind_address: IpAddr,
    /// Say more on stderr (-v info, -vv debug)
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// This process is the detached daemon
    #[arg(long, hide = true)]
    pub daemon_child: bool,
}

/// `vik status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    workflow: Positional,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Every daemon of this user
    #[arg(long)]
    pub all: bool,
}

/// `vik stop`
#[derive(Debug, Args)]
pub struct StopArgs {
    #[command(flatten)]
    workflow: Positional,
    /// How long to wait, in seconds, before the daemon is made to end at once
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    pub timeout: u64,
    /// Leave the agents alone: they go on for `loop.orphan_grace`, and the next daemon takes them up
    #[arg(long)]
    pub keep_sessions: bool,
}

/// `vik restart`
#[derive(Debug, Args)]
pub struct RestartArgs {
    #[command(flatten)]
    workflow: Positional,
    /// How long to wait for the old daemon, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    pub timeout: u64,
    /// Leave the agents alone: the new daemon takes them up, at the byte where the old one was
    #[arg(long)]
    pub keep_sessions: bool,
}

/// `vik uninstall`
#[derive(Debug, Args)]
pub struct UninstallArgs {
    #[command(flatten)]
    workflow: Positional,
    /// How long to wait for the daemon, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    pub timeout: u64,
}

/// `vik runs`
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Only this issue
    #[arg(long, value_name = "ID")]
    pub issue: Option<String>,
}

/// `vik show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The issue
    pub issue: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `vik explain`
#[derive(Debug, Args)]
#[command(after_help = "It answers from a running daemon, else from the ledger that the last one left.")]
pub struct ExplainArgs {
    /// The issue
    pub issue: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `vik pause` and `vik continue`
#[derive(Debug, Args)]
#[command(after_help = "A pause outlives the daemon: it holds until `vik continue`.")]
pub struct PauseArgs {
    /// The issue; without it, everything
    pub issue: Option<String>,
}

/// `vik cancel`
#[derive(Debug, Args)]
#[command(
    after_help = "Its agents are stopped, gently first. Its stage stays parked until the issue changes, or until \
                        `vik unpark`."
)]
pub struct CancelArgs {
    /// The issue
    pub issue: String,
}

/// `vik unpark`
#[derive(Debug, Args)]
#[command(after_help = "`vik status` lists what is parked, why, and what else would free it.")]
pub struct UnparkArgs {
    /// The issue
    pub issue: String,
    /// Allow at least this many attempts more, whatever `max_attempts` and `issue.limits.attempts` say
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: Option<u32>,
}

/// `vik approve`, `vik deny`
#[derive(Debug, Args)]
#[command(
    after_help = "`vik status` lists what waits, and until when. Where nobody answers, `approve.on_timeout` of the stage \
                  decides.\n\nWith `deny --message` a call is refused and its agent told the text; of a result that is denied, the \
                  text is what the next attempt is told. Without a message a denied result, like a denied start, rests until \
                  the issue changes or `vik unpark`."
)]
pub struct AnswerArgs {
    /// The issue
    pub issue: String,
    /// The stage, where several wait
    #[arg(long, value_name = "NAME")]
    pub stage: Option<String>,
    /// Only if what waits is this request, as `vik status --json` names it
    #[arg(long, value_name = "ID")]
    pub request: Option<String>,
    /// What the agent is told
    #[arg(long, short, value_name = "TEXT")]
    pub message: Option<String>,
}

/// `vik drain`
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Return when the daemon has ended
    #[arg(long)]
    pub wait: bool,
    /// How long to wait, in seconds; for ever without it
    #[arg(long, value_name = "SECS", requires = "wait")]
    pub timeout: Option<u64>,
}

/// `vik logs`
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Go on as events come
    #[arg(short, long)]
    pub follow: bool,
    /// Only this issue
    #[arg(long, value_name = "ID")]
    pub issue: Option<String>,
    /// Only this session (the start of its id is enough)
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// What the agent printed, byte for byte but for secrets: those of the workflow are looked up for that
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
    /// With --raw: secrets too
    #[arg(long, requires = "raw")]
    pub unmasked: bool,
    /// The events, a JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Shorten nothing: whole inputs and outputs, every figure
    #[arg(long, conflicts_with_all = ["raw", "json"])]
    pub full: bool,
}

/// `vik top`
#[derive(Debug, Args)]
pub struct TopArgs {
    /// A daemon elsewhere: the link that `vik status` prints there, or a URL as in http://127.0.0.1:8080 with the token in
    /// VIK_API_TOKEN or VIK_API_TOKEN_FILE
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
}

/// `vik sign-ins`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SignInsArgs {
    /// What to do; lists them without it
    #[command(subcommand)]
    pub verb: Option<SignInsVerb>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// The verbs of `vik sign-ins`.
#[derive(Debug, Subcommand)]
pub enum SignInsVerb {
    /// Sign a browser out at once
    #[command(after_help = "`vik sign-ins` lists the ids.")]
    Revoke {
        /// The id of the sign-in
        #[arg(value_name = "ID", required_unless_present = "all")]
        id: Option<String>,
        /// All of them
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

/// `vik report`
#[derive(Debug, Args)]
#[command(
    after_help = "It sums up the attempts that were started in that time, from the ledger: with or without a daemon. Times are UTC."
)]
pub struct ReportArgs {
    /// From when: a duration (`24h`, `7d`), a date or a time (`2026-03-01`, `2026-03-01T12:00:00Z`)
    #[arg(long, value_name = "WHEN", default_value = "7d")]
    pub since: crate::figures::Since,
    /// As JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// As Markdown, to paste into a tracker
    #[arg(long)]
    pub markdown: bool,
}

/// `vik prune`
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Remove what is older than this
    #[arg(long, value_name = "AGE", default_value = "30d")]
    pub older_than: vik_core::duration::Span,
    /// Remove; without it, only show
    #[arg(short, long)]
    pub yes: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `vik notify`
#[derive(Debug, Args)]
pub struct NotifyArgs {
    /// What to do
    #[command(subcommand)]
    pub verb: NotifyVerb,
}

/// The verbs of `vik notify`.
#[derive(Debug, Subcommand)]
pub enum NotifyVerb {
    /// Send a test notification now, and say what came of it
    Test {
        /// The notifier; all of them where none is named
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Print one JSON array
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
