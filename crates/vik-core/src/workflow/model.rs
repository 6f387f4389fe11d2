//! The typed workflow, after loading: defaults filled in, wrong states impossible.
//!
//! Maps keep the order of the file: stages of one issue run in file order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::duration::Span;
use crate::ids::{AgentName, StageName};
use crate::limits::{Limit, Spend};
use crate::outputs::OutputPolicy;
use crate::workflow::triggers::{ScheduleEntry, Webhooks};

use super::approve::ApprovePolicy;
use super::intent::{ScopeConflicts, StageIntent, TrustPolicy};
pub use super::secrets::SecretSource;

pub use super::notify::{Notifier, NotifyAddress, NotifyChannel, NotifyEvent, NotifyKind, TimeOfDay};
pub use super::sandbox::{
    SandboxBackend, SandboxChoice, SandboxFiles, SandboxKeys, SandboxNetwork, SandboxPolicy,
};

/// A whole workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    /// `loop.max_issue_concurrency`: distinct issues at once.
    pub max_issue_concurrency: u32,
    /// `loop.max_iterations`: pulls; `None` is until shutdown.
    pub max_iterations: Option<u64>,
    /// `loop.orphan_grace`: how long an agent lives without a daemon. `None` is 10 minutes, or nothing for a daemon in
    /// the foreground.
    pub orphan_grace: Option<Span>,
    /// `loop.pressure`: when the machine is too busy to start more.
    pub pressure: Pressure,
    /// `limits`: all issues of one day (UTC).
    pub day_limit: Limit,
    /// `workspace.root`.
    pub workspace_root: WorkspaceRoot,
    /// `agents`, by name.
    pub agents: BTreeMap<AgentName, AgentProfile>,
    /// `issues.pull`.
    pub pull: Intake,
    /// `issues.show`: how one issue is looked at again.
    pub show: Option<Show>,
    /// `issue.*`.
    pub issue: IssuePolicy,
    /// `webhooks`.
    #[serde(default)]
    pub webhooks: Webhooks,
    /// `schedule`, by name.
    #[serde(default)]
    pub schedule: BTreeMap<String, ScheduleEntry>,
    /// `trust`; `None`: there is no rule.
    #[serde(default)]
    pub trust: Option<TrustPolicy>,
    /// `logging.retention_days`.
    pub retention_days: u32,
    /// `logging.format`.
    #[serde(default)]
    pub log_format: LogFormat,
    /// `notify`, by name.
    #[serde(default)]
    pub notify: BTreeMap<String, Notifier>,
    /// `secrets`, by name.
    #[serde(default)]
    pub secrets: BTreeMap<String, SecretSource>,
}

/// Where Vik keeps what belongs to this workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkspaceRoot {
    /// The section is absent: `.vik` beside the workflow file.
    BesideWorkflow,
    /// The section is there without a root: `VIK_HOME`, else `~/.vik`.
    UserHome,
    /// A path; relative ones start at the workflow file's directory, `~/` at the home directory.
    Path(String),
}

/// `issues.pull`: how snapshots of issues are taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intake {
    /// A shell command that prints a JSON array of issues.
    pub command: String,
    /// Names of secrets that it gets.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// How long to wait between two pulls.
    pub idle: Span,
    /// How long a pull may take.
    pub timeout: Span,
}

/// `issues.show`: one issue, looked at again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Show {
    /// A shell command, a template with `issue.id`. JSON is the snapshot, `null` is gone, a failure is unknown.
    pub command: String,
    /// Names of secrets that it gets.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// How long it may take.
    pub timeout: Span,
}

/// `loop.pressure`: nothing starts while the machine is under pressure. `None`: it does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// The least memory that must be available, in bytes.
    pub min_available_memory: Option<u64>,
    /// The most memory pressure (PSI, `some avg10`), in percent.
    pub max_memory_pressure: Option<f64>,
}

/// `agents.N`: a named setting of one agent program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentProfile {
    /// Which adapter speaks to it.
    pub runtime: Runtime,
    /// The model; required but for `command`.
    pub model: Option<String>,
    /// Extra flags without their dashes, in file order; a name of one letter gets one dash.
    pub args: Vec<(String, ArgValue)>,
    /// How a list in `args` becomes flags.
    pub args_style: ArgsStyle,
    /// What the agent may do.
    pub permission: Permission,
    /// What the operating system lets it do; see [`SandboxPolicy`].
    #[serde(default)]
    pub sandbox: Option<SandboxChoice>,
    /// The program and its arguments: required for `command`; elsewhere it replaces the program name only.
    pub command: Vec<String>,
    /// What a `command` agent prints.
    pub output: OutputFormat,
    /// Variables set for the agent, over the allow-list.
    pub env: BTreeMap<String, String>,
    /// Names of the daemon's variables that the agent gets too.
    pub env_pass: Vec<String>,
    /// Names of secrets that the agent gets.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Whose settings folder the agent uses.
    pub home: Home,
    /// Prices, used where the agent reports no cost.
    pub price: Option<Price>,
    /// For vex: the model provider.
    pub provider: Option<String>,
    /// The address of the model API, in place of the agent's own.
    pub base_url: Option<String>,
    /// How many attempts of this profile may run at once.
    pub max_concurrency: Option<u32>,
    /// What an attempt is charged that was killed or failed without telling what it used.
    pub estimate: Spend,
}

/// Which adapter speaks to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// `codex exec --json`
    Codex,
    /// `claude -p --output-format stream-json`
    ClaudeCode,
    /// The built-in agent.
    Vex,
    /// Any other command line.
    Command,
}

impl Runtime {
    /// Whether a conversation with such an agent can be taken up again.
    pub fn can_resume(self) -> bool {
        matches!(self, Self::Codex | Self::ClaudeCode | Self::Vex)
    }

    /// The name used in the workflow file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::ClaudeCode => "claude_code",
            Self::Vex => "vex",
            Self::Command => "command",
        }
    }
}

/// A value under `agents.N.args`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ArgValue {
    /// `true` gives the bare flag, `false` nothing.
    Switch(bool),
    /// `--flag value`; numbers are kept as written.
    Text(String),
    /// See [`ArgsStyle`].
    List(Vec<String>),
}

/// How a list in `args` becomes flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArgsStyle {
    /// `--flag a --flag b` (default for codex).
    Repeat,
    /// `--flag a,b` (default elsewhere).
    Join,
}

/// What an agent may do without being asked; each adapter maps it to its agent's own switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Look, change nothing.
    ReadOnly,
    /// Edit and commit in its workspace, `.git` included.
    #[default]
    WorkspaceWrite,
    /// No limit by the agent itself.
    Full,
}

/// What a `command` agent prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// Lines of text: each is a message.
    #[default]
    Text,
    /// Lines of JSON.
    Jsonl,
}

/// Whose settings folder (`CODEX_HOME`, `CLAUDE_CONFIG_DIR`, …) the agent uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// The user's own.
    #[default]
    User,
    /// A folder of Vik's, empty at first.
    Private,
}

/// USD per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Price {
    /// Fresh input tokens.
    pub input: f64,
    /// Input tokens read from the cache.
    pub cached_input: f64,
    /// Input tokens written to the cache.
    pub cache_write: f64,
    /// Output tokens.
    pub output: f64,
}

/// `issue.*`: what happens to each issue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IssuePolicy {
    /// `hooks.after_create`: once per creation of a workspace.
    pub after_create: Option<String>,
    /// `hooks.before_remove`: before a workspace is removed.
    pub before_remove: Option<String>,
    /// `hooks.secrets`: names of secrets that these two get.
    #[serde(default)]
    pub hook_secrets: Vec<String>,
    /// `hooks.timeout`, each.
    pub hook_timeout: Span,
    /// `hooks.sandbox`: whether they run in the sandbox.
    #[serde(default)]
    pub hooks_in_sandbox: bool,
    /// `terminal_states`: an issue in one of them is done with.
    pub terminal_states: Vec<String>,
    /// `terminal_grace`: how long a run may go on after that.
    pub terminal_grace: Span,
    /// `remove_workspace`: what happens to its workspace then.
    pub remove_workspace: RemoveWorkspace,
    /// `limits.attempts`: starts of an agent in the issue's life.
    pub max_attempts: u32,
    /// `limits.tokens` and `limits.usd`, for the issue's life.
    pub limit: Limit,
    /// `scope_conflicts`: whether issues whose scopes may overlap run at once.
    #[serde(default)]
    pub scope_conflicts: ScopeConflicts,
    /// Stages in file order.
    pub stages: Vec<Stage>,
}

/// `issue.stages.S`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Its key.
    pub name: StageName,
    /// `when.state`: exact, case-sensitive.
    pub when_state: String,
    /// The agent profile.
    pub agent: AgentName,
    /// What counts before the profile's sandbox.
    #[serde(default)]
    pub sandbox: Option<SandboxChoice>,
    /// Where the prompt comes from.
    pub prompt: PromptSource,
    /// `hooks.before_run`
    pub before_run: Option<String>,
    /// `hooks.after_run`
    pub after_run: Option<String>,
    /// `hooks.secrets`: names of secrets that hooks, `verify` and the commands of the prompt get.
    #[serde(default)]
    pub hook_secrets: Vec<String>,
    /// `hooks.timeout`, each.
    pub hook_timeout: Span,
    /// `hooks.sandbox`: whether they run in the sandbox.
    #[serde(default)]
    pub hooks_in_sandbox: bool,
    /// `intent`: what its attempts are to do, and where.
    #[serde(default)]
    pub intent: StageIntent,
    /// `approve`: what waits for a person.
    #[serde(default)]
    pub approve: Option<ApprovePolicy>,
    /// `outputs`: what its agents may ask for; `None`: nothing, and nothing is kept from them for that.
    #[serde(default)]
    pub outputs: Option<OutputPolicy>,
    /// `verify`: a command that must pass after the agent says it is done.
    pub verify: Option<String>,
    /// How long an attempt may take.
    pub timeout: Span,
    /// How long an agent may be silent while no tool call is open.
    pub stall_timeout: Span,
    /// How long one tool call may stay open.
    pub tool_timeout: Span,
    /// How often and how soon it is tried again.
    pub retry: Retry,
    /// `limits`: one attempt.
    pub limit: Limit,
    /// `max_concurrency`: how many attempts of this stage may run at once.
    pub max_concurrency: Option<u32>,
    /// `parallel`: whether it may run beside another stage of the same issue.
    pub parallel: bool,
    /// `on_state_change`: what happens to an attempt whose issue leaves the state.
    pub on_state_change: OnStateChange,
    /// `resume`: whether an attempt that was cut off is taken up again.
    pub resume: bool,
    /// `resume_prompt`: what the agent is told then; `None` is Vik's own words.
    pub resume_prompt: Option<String>,
}

/// `remove_workspace`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RemoveWorkspace {
    /// A git work tree with nothing uncommitted or unpushed, or an empty folder.
    #[default]
    Clean,
    /// It stays.
    Never,
    /// It goes, whatever is in it.
    Always,
}

/// `logging.format`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// `on_state_change`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnStateChange {
    /// The attempt goes on to its own end.
    #[default]
    Finish,
    /// The attempt is stopped.
    Cancel,
}

/// Where a prompt comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PromptSource {
    /// `prompt_file`, relative to the workflow file.
    File(String),
    /// `prompt`
    Inline(String),
}

/// `retry`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Starts of the agent before the (issue, stage) is parked; at least 1.
    pub max_attempts: u32,
    /// The wait after the first failure; it doubles.
    pub initial_backoff: Span,
    /// The longest wait.
    pub max_backoff: Span,
}

impl Workflow {
    /// The stage with this name.
    pub fn stage(&self, name: &StageName) -> Option<&Stage> {
        self.issue.stages.iter().find(|stage| stage.name == *name)
    }

    /// Whether an issue in this state is done with.
    pub fn is_terminal(&self, state: &str) -> bool {
        self.issue
            .terminal_states
            .iter()
            .any(|terminal| terminal == state)
    }
}
