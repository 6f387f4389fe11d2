//! The agent profiles of `workflow.yml`.

use std::collections::BTreeMap;

use vik_core::limits::Spend;
use vik_core::money::MicroUsd;
use vik_core::workflow::{
    self, AgentProfile, ArgsStyle, Home, OutputFormat, Permission, Runtime, SandboxChoice,
};

use super::amounts::{Amount, SlotLimit, Tokens, Usd};
use super::args::Args;
use super::engine::Where;
use super::sandbox::Paths;
use super::section::section;
use super::values::{CommandLine, Env, EnvNames, Positive, Text, Texts};

section! {
    /// One agent profile.
    struct Agent;
    /// The agent program, which selects the adapter.
    "runtime" runtime: required Runtime;
    /// The model. Required except for the runtime `command`.
    "model" model: optional Text;
    /// Additional flags for the agent's command line, without dashes; a name of one letter gets one
    /// dash. `true` passes the flag without a value, `false` omits it; numbers are passed as
    /// written; for lists see `args_style`.
    "args" args: defaults Args = Vec::new();
    /// How a list in `args` becomes flags. Default: `repeat` for codex, `join` for the others.
    "args_style" args_style: optional ArgsStyle;
    /// What the agent may do without approval; mapped to the flags of each agent.
    "permission" permission: defaults Permission = Permission::WorkspaceWrite;
    /// The restrictions that the operating system enforces on the agent and all of its descendants.
    /// Default: `on`. `off` disables the sandbox.
    "sandbox" sandbox: optional SandboxChoice;
    /// The program and its arguments, such as `[my-agent, --flag]`. Required for the runtime
    /// `command`, which gets the prompt on stdin; for other runtimes it replaces the program name.
    /// A relative path with a `/`, such as `./agent.sh`, is relative to the folder of this file.
    "command" command: defaults CommandLine = Vec::new();
    /// The output format of an agent with the runtime `command`.
    "output" output: defaults OutputFormat = OutputFormat::Text;
    /// Environment variables for the agent, in addition to the documented allow-list.
    "env" env: defaults Env = BTreeMap::new();
    /// Names of environment variables of the daemon that are passed to the agent.
    "env_pass" env_pass: defaults EnvNames = Vec::new();
    /// Names of secrets that are passed to the agent, each in the environment variable of the same
    /// name.
    "secrets" secrets: defaults EnvNames = Vec::new();
    /// The names of MCP servers whose tools the agent can call. Not for the runtime `command`.
    "mcp" mcp: defaults Texts = Vec::new();
    /// Skills: folders with a `SKILL.md`, relative to the workflow file, absolute, or in the home
    /// directory (`~/`). Not for the runtime `command`.
    "skills" skills: defaults Paths = Vec::new();
    /// Whether the agent uses the settings folder of the user (`CODEX_HOME` and similar) or one of
    /// Vik's.
    "home" home: defaults Home = Home::User;
    /// Prices in USD per million tokens, used if the agent reports no cost.
    "price" price: optional Price;
    /// For the runtime `vex`: the provider of the model: `anthropic`, `openai`, `openrouter`,
    /// `ollama`, `local`, `replay`, or one that the settings of vex define.
    "provider" provider: optional Text;
    /// The address of the model API, instead of the agent's default. For `vex` with `provider:
    /// replay`: the folder of the recordings.
    "base_url" base_url: optional Text;
    /// The maximum number of attempts of this profile that run at the same time; null for no limit.
    "max_concurrency" max_concurrency: optional SlotLimit;
    /// The workers that attempts of this profile may run on. Requires `engine`.
    "where" workers: section Where;
    /// For the runtime `claude_code`: whether it prints its answers in parts while they arrive, so
    /// that a long answer is no silence, and its speed is shown. `vex`, and Codex while calls need
    /// approvals, always do; other agents cannot.
    "stream" stream: defaults bool = false;
    /// The charge for an attempt that failed or was interrupted after the model's first answer and
    /// reported no usage. Default for the runtime `command`: nothing.
    "estimate" estimate: section Estimate;
    /// Whether people can send messages to the running agent, which changes how it is started.
    /// Default: only in stages that ask before calls. No effect with the runtime `command`.
    "steer" steer: optional bool;
    /// How long Codex may take to respond to a request of Vik for a conversation, a turn or a
    /// message. If it does not, the attempt fails, and uses up no attempt. Applies while the input of
    /// Codex stays open (`codex app-server`); the work itself has the timeouts of the stage.
    "read_timeout" read_timeout: defaults Positive = AgentProfile::default_read_timeout();
    instead {
        "type" | "adapter" => "did you mean `runtime`?",
        "steering" | "steerable" => "did you mean `steer`?",
        "mcp_servers" => "did you mean `mcp`?",
        "skill" => "did you mean `skills`?",
        "flags" => "did you mean `args`?",
        "environment" => "did you mean `env`?",
        "approval" | "permissions" => "did you mean `permission`?",
        "concurrency" => "did you mean `max_concurrency`?",
        "worker_labels" | "runs_on" | "runs-on" => "use `where.labels`",
    }
}

section! {
    /// Prices in USD per million tokens.
    struct Price => workflow::Price;
    /// Fresh input tokens.
    "input" input: defaults Amount = 0.0;
    /// Input tokens read from the cache.
    "cached_input" cached_input: defaults Amount = 0.0;
    /// Input tokens written to the cache.
    "cache_write" cache_write: defaults Amount = 0.0;
    /// Output tokens.
    "output" output: defaults Amount = 0.0;
}

section! {
    /// The charge for an attempt that failed or was interrupted after the model's first answer and
    /// reported no usage. Default for the runtime `command`: nothing.
    struct Estimate => Spend;
    /// Money in USD.
    "usd" usd: defaults Usd = MicroUsd(500_000);
    /// Input and output tokens together.
    "tokens" tokens: defaults Tokens = 100_000;
}
