//! The settings of a run, and the origin of each value.
//!
//! Layers, later ones win: the defaults, `/etc/vex/config.toml`, the user's `config.toml`,
//! variables of the environment (`VEX_*`), `--mcp-config FILE`, `--config KEY=VALUE`, flags. Lists
//! of what may or must not be done (`allow`, `deny`, `hooks`, `env_pass`, `sandbox.write`,
//! `trusted_projects`) grow from layer to layer. `.vex/config.toml` in the workspace is untrusted:
//! it is applied last and can only narrow (`project`).

mod error;
mod keys;
mod layers;
mod mcp_file;
mod period;
mod project;
mod sections;
mod show;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::ConfigError;
pub use keys::{KEYS, Key, ValueKind};
pub use layers::{Flag, Origin};
pub use period::{Period, PeriodError};
pub use sections::{ContextSettings, SandboxSettings};
pub use show::ShownSetting;

use crate::provider::catalog::ProviderConfig;
use crate::provider::http::{Deadlines, RetrySettings};
use crate::provider::prices::ModelConfig;
use crate::provider::protocol::Effort;
use crate::tools::{Hook, McpServerConfig, Permission, Rule, ToolName, WriteLimits};

/// All settings. Also the form of a `config.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The model.
    pub model: Option<String>,
    /// The model to use if the first one stays overloaded or is refused.
    pub fallback_model: Option<String>,
    /// The provider; if absent, the one whose key is set.
    pub provider: Option<String>,
    /// The base URL of the provider.
    pub base_url: Option<String>,
    /// The reasoning effort of the model.
    pub effort: Option<Effort>,
    /// Providers by name: new ones, and changed values of the known ones.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Properties of models by name: context size, prices in USD per million tokens.
    pub models: BTreeMap<String, ModelConfig>,
    /// The permission profile of the tools.
    pub permission: Permission,
    /// The tools that the model can use; all if the list is empty. A weak model works better with few.
    pub tools: Vec<ToolName>,
    /// Rules for tool calls that are allowed in addition to the permission.
    pub allow: Vec<Rule>,
    /// Rules for tool calls that are denied; they take precedence over `allow`.
    pub deny: Vec<Rule>,
    /// Programs that approve, deny or change each tool call.
    pub hooks: Vec<Hook>,
    /// Servers with more tools (Model Context Protocol), by name. A call needs a rule in `allow`, such as
    /// `mcp.NAME.TOOL` or `mcp.NAME.*`.
    pub mcp: BTreeMap<String, McpServerConfig>,
    /// The maximum size of an existing file that is rewritten as a whole.
    pub write: WriteLimits,
    /// The sandbox of commands.
    pub sandbox: SandboxSettings,
    /// Environment variables that commands get in addition to the default ones.
    pub env_pass: Vec<String>,
    /// The maximum number of turns (answers of the model).
    pub max_turns: NonZeroU32,
    /// The maximum number of tokens, input and output together.
    pub max_tokens: Option<u64>,
    /// The maximum cost in USD.
    pub max_usd: Option<f64>,
    /// The maximum duration of the run.
    pub timeout: Option<Period>,
    /// A command that must succeed when the model reports that it is done.
    pub verify: Option<String>,
    /// The number of failures of `verify` after which the run fails.
    pub verify_attempts: NonZeroU32,
    /// The number of independent tries, each with the files as they were before; the first that `verify` accepts wins.
    pub tries: NonZeroU32,
    /// Whether to ask the model once, before the end, whether a part of the task is missing (for weak models).
    pub second_look: bool,
    /// A file with the JSON Schema of the final answer.
    pub output_schema: Option<PathBuf>,
    /// Files in the workspace with instructions for the model.
    pub instructions: Vec<String>,
    /// Whether the model can load the skills of the user and of trusted projects.
    pub skills: bool,
    /// Folders of projects, or above projects, whose own skills the model can load.
    pub trusted_projects: Vec<PathBuf>,
    /// The fill levels of the model's context at which older parts are shortened.
    pub context: ContextSettings,
    /// When and how often a failed request is retried.
    pub retry: RetrySettings,
    /// The time limits of an answer.
    pub deadlines: Deadlines,
    /// A file with certificates to trust in addition to those of the system.
    pub ca_file: Option<PathBuf>,
    /// Whether to keep no log of the session; it cannot be resumed later.
    pub no_session: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: None,
            fallback_model: None,
            provider: None,
            base_url: None,
            effort: None,
            providers: BTreeMap::new(),
            models: BTreeMap::new(),
            permission: Permission::default(),
            tools: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            hooks: Vec::new(),
            mcp: BTreeMap::new(),
            write: WriteLimits::default(),
            sandbox: SandboxSettings::default(),
            env_pass: Vec::new(),
            max_turns: const { NonZeroU32::new(200).unwrap() },
            max_tokens: None,
            max_usd: None,
            timeout: None,
            verify: None,
            verify_attempts: const { NonZeroU32::new(3).unwrap() },
            tries: NonZeroU32::MIN,
            second_look: false,
            output_schema: None,
            instructions: ["AGENTS.md", "CLAUDE.md"].map(str::to_owned).into(),
            skills: true,
            trusted_projects: Vec::new(),
            context: ContextSettings::default(),
            retry: RetrySettings::default(),
            deadlines: Deadlines::default(),
            ca_file: None,
            no_session: false,
        }
    }
}

/// Where settings are searched.
pub struct Sources<'a> {
    /// The file for the whole machine.
    pub system: PathBuf,
    /// The user's file, if the user has a home.
    pub user: Option<PathBuf>,
    /// The workspace, whose own file can only narrow.
    pub workspace: Option<&'a Path>,
    pub variables: Vec<(String, String)>,
    /// Files with servers of tools, as other agents read them.
    pub mcp_files: &'a [PathBuf],
    pub overrides: &'a [String],
    pub flags: Vec<Flag>,
}

impl<'a> Sources<'a> {
    /// Returns the sources of this process.
    pub fn of_process(workspace: Option<&'a Path>, overrides: &'a [String], flags: Vec<Flag>) -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self {
            workspace,
            overrides,
            flags,
            ..Self::of_variables(variables)
        }
    }

    /// Returns the sources of a process with these variables.
    pub fn of_variables(variables: Vec<(String, String)>) -> Self {
        let set = |name: &str| {
            let found = variables
                .iter()
                .find(|(known, value)| known == name && !value.is_empty());
            found.map(|(_, value)| PathBuf::from(value))
        };
        let user = match set("VEX_HOME") {
            Some(home) => Some(home.join("config.toml")),
            None => set("XDG_CONFIG_HOME")
                .or_else(|| set("HOME").map(|home| home.join(".config")))
                .map(|folder| folder.join("vex/config.toml")),
        };
        Self {
            system: PathBuf::from("/etc/vex/config.toml"),
            user,
            workspace: None,
            variables,
            mcp_files: &[],
            overrides: &[],
            flags: Vec::new(),
        }
    }

    /// Returns the paths of the files, in the order of the layers.
    pub fn files(&self) -> Vec<PathBuf> {
        let own = self.workspace.map(project::path);
        [Some(self.system.clone()), self.user.clone(), own]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// The settings with their origins and warnings.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    pub settings: Settings,
    /// The origin of each value that was set.
    origins: layers::Origins,
    /// What was ignored, and why.
    pub warnings: Vec<String>,
}

impl LoadedConfig {
    /// Reads all layers.
    ///
    /// # Errors
    /// At the first unreadable file, unknown key or invalid value.
    pub fn load(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let mut layers = layers::Layers::default();
        for file in [Some(&sources.system), sources.user.as_ref()]
            .into_iter()
            .flatten()
        {
            layers.add_file(file)?;
        }
        let mut warnings = layers.add_variables(&sources.variables)?;
        for file in sources.mcp_files {
            layers.add_mcp_file(file)?;
        }
        for text in sources.overrides {
            layers.add_override(text)?;
        }
        for flag in &sources.flags {
            layers.add_flag(flag)?;
        }
        let mut loaded = layers.finish()?;
        if let Some(workspace) = sources.workspace {
            project::narrow(workspace, &mut loaded, &mut warnings)?;
        }
        loaded.settings.check()?;
        loaded.check_servers()?;
        loaded.settings.check_server_names()?;
        loaded.warnings = warnings;
        Ok(loaded)
    }
}

impl LoadedConfig {
    /// Checks each MCP server; an error names the layer that defines it.
    fn check_servers(&self) -> Result<(), ConfigError> {
        for (name, server) in &self.settings.mcp {
            if let Err(message) = server.check(name) {
                let of_server =
                    |path: &[String]| matches!(path, [mcp, server, ..] if mcp == "mcp" && server == name);
                let origins = self.origins.iter().find(|(path, _)| of_server(path));
                let origin = origins
                    .and_then(|(_, origins)| origins.first())
                    .unwrap_or(&Origin::Default);
                return Err(ConfigError::invalid(format!("{origin}: mcp.{name}"), message));
            }
        }
        Ok(())
    }
}

impl Settings {
    /// Parses the text of a `config.toml`; errors mention `name`.
    ///
    /// # Errors
    /// At the first unknown key or invalid value, with line and column.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        layers::parse(name, text).map(|(_, settings)| settings)
    }

    /// Checks that rules, hooks and `tools` name MCP servers of these settings. A typo would make
    /// a deny without effect.
    fn check_server_names(&self) -> Result<(), ConfigError> {
        let allow = self.allow.iter().map(|rule| ("allow", rule.tool()));
        let deny = self.deny.iter().map(|rule| ("deny", rule.tool()));
        let hooks = self.hooks.iter().flat_map(|hook| &hook.tools);
        let selected = self.tools.iter().map(|tool| ("tools", tool));
        let names = allow
            .chain(deny)
            .chain(hooks.map(|tool| ("hooks", tool)))
            .chain(selected);
        for (key, tool) in names {
            if let Some(server) = tool.server().filter(|&server| !self.mcp.contains_key(server)) {
                return Err(ConfigError::Conflict(format!(
                    "{key}: {}: there is no MCP server {server} in the settings",
                    tool.as_str()
                )));
            }
        }
        Ok(())
    }

    /// Checks values that depend on each other.
    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |message: String| Err(ConfigError::Conflict(message));
        let context = self.context;
        if !(1 <= context.soft && context.soft <= context.hard && context.hard <= 100) {
            return wrong(format!(
                "context.soft ({}) and context.hard ({}) must be percentages, and soft must not exceed hard",
                context.soft, context.hard
            ));
        }
        if self.max_usd.is_some_and(|usd| !(usd.is_finite() && usd > 0.0)) {
            return wrong("max_usd must be above zero".to_owned());
        }
        if self.max_tokens == Some(0) {
            return wrong("max_tokens must be above zero".to_owned());
        }
        Ok(())
    }
}
