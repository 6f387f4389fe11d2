//! The typed workflow, after loading: defaults filled in, wrong states impossible.
//!
//! Maps keep the order of the file: stages of one issue run in file order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::duration::Span;
use crate::ids::{AgentName, StageName};

/// A whole workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    /// `loop.max_issue_concurrency`: distinct issues at once.
    pub max_issue_concurrency: u32,
    /// `loop.max_iterations`: pulls; `None` is until shutdown.
    pub max_iterations: Option<u64>,
    /// `workspace.root`.
    pub workspace_root: WorkspaceRoot,
    /// `agents`, by name.
    pub agents: BTreeMap<AgentName, AgentProfile>,
    /// `issues.pull`.
    pub pull: Intake,
    /// `issue.*`.
    pub issue: IssuePolicy,
    /// `logging.retention_days`.
    pub retention_days: u32,
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
    /// How long to wait between two pulls.
    pub idle: Span,
    /// How long a pull may take.
    pub timeout: Span,
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
    /// The program and its arguments: required for `command`; elsewhere it replaces the program name only.
    pub command: Vec<String>,
    /// What a `command` agent prints.
    pub output: OutputFormat,
    /// Variables set for the agent, over the allow-list.
    pub env: BTreeMap<String, String>,
    /// Names of the daemon's variables that the agent gets too.
    pub env_pass: Vec<String>,
    /// Whose settings folder the agent uses.
    pub home: Home,
    /// Prices, used where the agent reports no cost.
    pub price: Option<Price>,
    /// For vex: the model provider.
    pub provider: Option<String>,
    /// The address of the model API, in place of the agent's own.
    pub base_url: Option<String>,
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
    /// `hooks.timeout`, each.
    pub hook_timeout: Span,
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
    /// Where the prompt comes from.
    pub prompt: PromptSource,
    /// `hooks.before_run`
    pub before_run: Option<String>,
    /// `hooks.after_run`
    pub after_run: Option<String>,
    /// `hooks.timeout`, each.
    pub hook_timeout: Span,
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
}
