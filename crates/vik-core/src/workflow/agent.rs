//! Agent profiles: the settings of agent programs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::sandbox::SandboxChoice;
use crate::duration::Span;
use crate::limits::Spend;
use crate::worker::WorkerLabel;

/// `agents.N`: named settings of an agent program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentProfile {
    pub runtime: Runtime,
    /// The model; required except for `command`.
    pub model: Option<String>,
    /// Extra flags without their dashes, in file order; a name of one letter gets one dash.
    pub args: Vec<(String, ArgValue)>,
    /// How a list in `args` becomes flags.
    pub args_style: ArgsStyle,
    pub permission: Permission,
    /// The restrictions by the operating system; see [`SandboxPolicy`](super::SandboxPolicy).
    #[serde(default)]
    pub sandbox: Option<SandboxChoice>,
    /// The program and its arguments: required for `command`; otherwise it replaces only the
    /// program name.
    pub command: Vec<String>,
    /// The output format of a `command` agent.
    pub output: OutputFormat,
    /// Variables set for the agent, over the allow-list.
    pub env: BTreeMap<String, String>,
    /// The names of variables of the daemon that the agent gets too.
    pub env_pass: Vec<String>,
    /// The names of the agent's secrets.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// `mcp`: the names of the agent's servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp: Vec<String>,
    /// `skills`: folders of skills, relative to the workflow file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// Whose settings folder the agent uses.
    pub home: Home,
    /// The prices, used if the agent reports no cost.
    pub price: Option<Price>,
    /// For vex: the model provider.
    pub provider: Option<String>,
    /// The address of the model API, in place of the agent's own.
    pub base_url: Option<String>,
    /// The maximum number of concurrent attempts.
    pub max_concurrency: Option<u32>,
    /// `where.labels`: the labels that a worker needs for attempts with the profile.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub worker_labels: BTreeSet<WorkerLabel>,
    /// For Claude Code: whether it prints its answers in parts while they arrive.
    #[serde(default)]
    pub stream: bool,
    /// The charge for an attempt that was killed or failed without reporting its usage.
    pub estimate: Spend,
    /// Whether people can send messages to the running agent; `None`: only if its input stays open
    /// anyway, because it asks before calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steer: Option<bool>,
    /// How long an agent with a protocol (`codex app-server`) may take to respond to a request of
    /// Vik. The response to a request is not its work.
    #[serde(default = "AgentProfile::default_read_timeout")]
    pub read_timeout: Span,
}

impl AgentProfile {
    /// Returns the time for a response, unless the profile sets another one.
    pub const fn default_read_timeout() -> Span {
        Span::secs(5)
    }

    /// Returns the profile of an agent of which only the runtime is configured.
    pub fn new(runtime: Runtime) -> Self {
        Self {
            runtime,
            model: None,
            args: Vec::new(),
            args_style: runtime.args_style(),
            permission: Permission::default(),
            sandbox: None,
            command: Vec::new(),
            output: OutputFormat::default(),
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            secrets: Vec::new(),
            mcp: Vec::new(),
            skills: Vec::new(),
            home: Home::default(),
            price: None,
            provider: None,
            base_url: None,
            max_concurrency: None,
            worker_labels: BTreeSet::new(),
            stream: false,
            estimate: Spend::default(),
            steer: None,
            read_timeout: Self::default_read_timeout(),
        }
    }
}

/// Which adapter speaks to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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
    /// Returns whether conversations with the agent can be resumed.
    pub fn can_resume(self) -> bool {
        matches!(self, Self::Codex | Self::ClaudeCode | Self::Vex)
    }

    /// Returns whether the agent can ask for approval of its calls.
    pub fn can_ask(self) -> bool {
        matches!(self, Self::Codex | Self::ClaudeCode | Self::Vex)
    }

    /// Returns whether Vik can give the agent MCP servers and skills.
    pub fn takes_extensions(self) -> bool {
        matches!(self, Self::Codex | Self::ClaudeCode | Self::Vex)
    }

    /// Returns whether the agent reports the cost of its work.
    pub fn reports_cost(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::Vex)
    }

    /// Returns whether the agent has a tool that writes files with `permission: read-only`.
    pub fn can_write_when_read_only(self) -> bool {
        matches!(self, Self::Codex | Self::Command)
    }

    /// Returns how a list in `args` becomes flags, unless the profile says otherwise.
    pub fn args_style(self) -> ArgsStyle {
        match self {
            Self::Codex => ArgsStyle::Repeat,
            Self::ClaudeCode | Self::Vex | Self::Command => ArgsStyle::Join,
        }
    }

    /// Returns the name used in the workflow file.
    pub fn as_str(self) -> &'static str {
        self.into()
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
    /// Read only.
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
    /// The settings folder of the user.
    #[default]
    User,
    /// A separate folder that Vik creates empty.
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
