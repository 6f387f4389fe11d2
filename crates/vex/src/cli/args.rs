//! Flags, and the settings that they set.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::builder::FalseyValueParser;
use clap::{Args, ValueHint};
use toml::Value;
use vik_scope::Scope;

use crate::config::{ConfigError, Flag, LoadedConfig, Period, Sources};
use crate::provider::protocol::Effort;
use crate::session::{ForkPoint, SessionId};
use crate::tools::Permission;

/// Which model is asked, and where.
#[derive(Clone, Debug, Default, Args)]
pub struct ChoiceArgs {
    /// Model; for the provider `replay`, the name of a recording
    #[arg(short, long, help_heading = "Model")]
    pub model: Option<String>,

    /// Provider: anthropic, openai, openrouter, ollama, local, replay, or a name from the settings
    ///
    /// Default: `local` with --base-url, otherwise the provider whose API key is set
    /// (ANTHROPIC_API_KEY, OPENAI_API_KEY, …).
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub provider: Option<String>,

    /// Base URL of the provider; for `replay`, a recording or a folder of recordings
    #[arg(long, value_name = "URL", help_heading = "Model", value_hint = ValueHint::Url)]
    pub base_url: Option<String>,

    /// Workspace [default: the current directory]
    #[arg(short = 'C', long = "cd", value_name = "DIR", env = "VEX_CD", hide_env = true, value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,

    /// JSON file with MCP servers, `{"mcpServers": {NAME: {…}}}`, as Claude Code reads it; can be
    /// repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub mcp_config: Vec<PathBuf>,

    /// Override a setting; the value is TOML; can be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub config: Vec<String>,
}

impl ChoiceArgs {
    /// Returns the workspace as given.
    pub(super) fn dir(&self) -> &Path {
        self.dir.as_deref().unwrap_or(Path::new("."))
    }

    /// Loads all layers of the settings, with these flags on top and `more` on top of them.
    pub(super) fn load(&self, more: Vec<Flag>) -> Result<LoadedConfig, ConfigError> {
        let mut flags = Vec::new();
        for (key, value) in [
            ("model", &self.model),
            ("provider", &self.provider),
            ("base_url", &self.base_url),
        ] {
            flags.extend(value.clone().map(Value::String).map(|value| Flag { key, value }));
        }
        flags.extend(more);
        // Settings are searched in the resolved folder, whatever links lead to it.
        let workspace = self.dir().canonicalize().ok();
        LoadedConfig::load(&Sources {
            mcp_files: &self.mcp_config,
            ..Sources::of_process(workspace.as_deref(), &self.config, flags)
        })
    }
}

/// `vex exec`
#[derive(Clone, Debug, Default, Args)]
pub struct ExecArgs {
    /// Which model, and where.
    #[command(flatten)]
    pub choice: ChoiceArgs,

    /// Print events as JSON lines
    #[arg(long, env = "VEX_JSON", hide_env = true, value_parser = FalseyValueParser::new())]
    pub json: bool,

    /// Write the last message to this file when the run ends; with --output-schema, the result
    #[arg(short = 'o', long = "output", value_name = "FILE", env = "VEX_OUTPUT", hide_env = true, value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Model to use if the first one stays overloaded or is refused
    #[arg(long, value_name = "MODEL", help_heading = "Model")]
    pub fallback_model: Option<String>,

    /// Reasoning effort: minimal, low, medium, high, xhigh or max [default: the default of the
    /// model]
    #[arg(long, value_parser = effort, help_heading = "Model")]
    pub effort: Option<Effort>,

    /// Permission profile of the tools [default: workspace-write]
    #[arg(long, value_enum, help_heading = "Permission")]
    pub permission: Option<Permission>,

    /// Tools that the model can use, separated by commas [default: all]
    #[arg(long, value_name = "TOOL", value_delimiter = ',', help_heading = "Permission")]
    pub tools: Vec<String>,

    /// Allow a tool call beyond the profile: TOOL or TOOL(PATTERN), for example
    /// 'web_fetch(docs.rs)'; can be repeated
    #[arg(long, value_name = "RULE", help_heading = "Permission")]
    pub allow: Vec<String>,

    /// Deny a tool call: TOOL or TOOL(PATTERN), for example 'run_command(git push*)'; takes
    /// precedence over --allow; can be repeated
    #[arg(long, value_name = "RULE", help_heading = "Permission")]
    pub deny: Vec<String>,

    /// Files that tools may change, as a glob relative to the workspace; a leading `!` excludes; can
    /// be repeated, and the last matching glob decides [default: all files]
    #[arg(
        long,
        value_name = "GLOB",
        conflicts_with = "scope_env",
        help_heading = "Permission"
    )]
    pub scope: Vec<String>,

    /// Environment variable with the files that tools may change: JSON lists of globs; a path must
    /// match each list
    #[arg(long, value_name = "NAME", hide = true)]
    pub scope_env: Option<String>,

    /// Ask before each tool call. In a terminal a person types prompts and answers, turn by turn. With
    /// --json, a controlling program answers: stdin contains JSON lines, first `{"prompt": TEXT}`, then
    /// an answer to each `ask` event
    #[arg(long, conflicts_with = "prompt", help_heading = "Permission")]
    pub ask: bool,

    /// Let a controlling program send messages of people during the run: stdin contains JSON lines,
    /// first `{"prompt": TEXT}`, then `{"message": {"id": ID, "text": TEXT}}`
    #[arg(
        long,
        requires = "json",
        conflicts_with = "prompt",
        help_heading = "Permission"
    )]
    pub messages: bool,

    /// Folder of a skill that the model can load, in addition to those of the user and of trusted
    /// projects; can be repeated
    #[arg(long, value_name = "PATH", help_heading = "Skills", value_hint = ValueHint::DirPath)]
    pub skill: Vec<PathBuf>,

    /// Use no skills except those of --skill
    #[arg(long, help_heading = "Skills")]
    pub no_skills: bool,

    /// Maximum number of turns (answers of the model) [default: 200]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_turns: Option<NonZeroU32>,

    /// Maximum number of tokens, input and output together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Limits")]
    pub max_tokens: Option<u64>,

    /// Maximum cost in USD; the price of the model must be known
    #[arg(long, value_name = "USD", value_parser = money, help_heading = "Limits")]
    pub max_usd: Option<f64>,

    /// Maximum duration of the run: 90s, 10m, 1h
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub timeout: Option<Period>,

    /// Command that must succeed when the model reports that it is done; a failure is sent back to
    /// the model, up to `verify_attempts` times
    #[arg(long, value_name = "COMMAND", help_heading = "Check and result")]
    pub verify: Option<String>,

    /// Number of independent tries, each with the files as they were before; the first that passes
    /// --verify wins, and the cost of all counts [default: 1]
    #[arg(long, value_name = "N", help_heading = "Check and result")]
    pub tries: Option<NonZeroU32>,

    /// Ask the model once, before the end, whether a part of the task is missing (for weak models)
    #[arg(long, help_heading = "Check and result")]
    pub second_look: bool,

    /// File with the JSON Schema of the final answer
    #[arg(long, value_name = "FILE", help_heading = "Check and result", value_hint = ValueHint::FilePath)]
    pub output_schema: Option<PathBuf>,

    /// Resume a session in its workspace; the prompt is optional
    #[arg(long, value_name = "ID", env = "VEX_RESUME", hide_env = true, conflicts_with_all = ["fork", "no_session"], help_heading = "Session")]
    pub resume: Option<SessionId>,

    /// Start a new session with the history of another one, up to the end of a turn
    #[arg(
        long,
        conflicts_with = "no_session",
        value_name = "ID[@TURN]",
        env = "VEX_FORK",
        hide_env = true,
        help_heading = "Session"
    )]
    pub fork: Option<ForkPoint>,

    /// Keep no log of the session; it cannot be resumed later
    #[arg(long, help_heading = "Session")]
    pub no_session: bool,

    /// Recording to replay
    #[arg(long, value_name = "FILE", help_heading = "Model", value_hint = ValueHint::FilePath)]
    pub replay: Option<PathBuf>,

    /// Folder of recordings if --base-url is not given
    #[arg(long, value_name = "DIR", env = "VEX_REPLAY_DIR", hide = true)]
    pub replay_dir: Option<PathBuf>,

    /// Task; `-` reads it from stdin, as does no argument if stdin is not a terminal
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
}

impl ExecArgs {
    /// Returns what tools may change. A named variable must be set: without it nothing would be
    /// protected.
    pub(super) fn scope(&self) -> Result<Option<Scope>, String> {
        if let Some(name) = &self.scope_env {
            let text = std::env::var(name).map_err(|error| format!("--scope-env {name}: {error}"))?;
            let scope = serde_json::from_str(&text);
            return scope
                .map(Some)
                .map_err(|error| format!("--scope-env {name}: {error}"));
        }
        if self.scope.is_empty() {
            return Ok(None);
        }
        let scope = Scope::new(&self.scope).map_err(|error| format!("--scope: {error}"))?;
        Ok(Some(scope))
    }

    /// Loads the settings, with these flags on top.
    pub(super) fn load(&self) -> Result<LoadedConfig, ConfigError> {
        let mut flags = Vec::new();
        let mut set = |key, value: Option<Value>| flags.extend(value.map(|value| Flag { key, value }));
        let path = |path: &Option<PathBuf>| {
            path.as_ref()
                .map(|path| Value::String(path.to_string_lossy().into_owned()))
        };
        let list = |rules: &[String]| (!rules.is_empty()).then(|| Value::from(rules.to_vec()));
        let whole = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
        set("fallback_model", self.fallback_model.clone().map(Value::from));
        set(
            "effort",
            self.effort.and_then(|effort| Value::try_from(effort).ok()),
        );
        set(
            "permission",
            self.permission.map(|permission| permission.as_str().into()),
        );
        set("tools", list(&self.tools));
        set("allow", list(&self.allow));
        set("deny", list(&self.deny));
        set("max_turns", self.max_turns.map(|turns| whole(turns.get().into())));
        set("max_tokens", self.max_tokens.map(whole));
        set("max_usd", self.max_usd.map(Value::Float));
        set("timeout", self.timeout.map(|time| time.to_string().into()));
        set("verify", self.verify.clone().map(Value::from));
        set("tries", self.tries.map(|tries| whole(tries.get().into())));
        set("second_look", self.second_look.then_some(Value::Boolean(true)));
        set("output_schema", path(&self.output_schema));
        set("no_session", self.no_session.then_some(Value::Boolean(true)));
        set("skills", self.no_skills.then_some(Value::Boolean(false)));
        self.choice.load(flags)
    }
}

fn effort(text: &str) -> Result<Effort, String> {
    use serde::Deserialize;
    use serde::de::value::{Error, StrDeserializer};
    Effort::deserialize(StrDeserializer::<Error>::new(text)).map_err(|error| error.to_string())
}

fn money(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(usd) if usd.is_finite() && usd > 0.0 => Ok(usd),
        _ => Err("expected an amount in USD above zero".to_owned()),
    }
}

/// Shows that every value of the command line is also a setting.
#[cfg(test)]
mod tests {
    use clap::{CommandFactory, ValueEnum};

    use super::*;
    use crate::cli::VexArgs;
    use crate::config::KEYS;

    /// Flags that affect the output of one run, or belong to its task alone, and not how vex works.
    const NO_SETTINGS: &[&str] = &[
        "json",
        "output",
        "cd",
        "resume",
        "fork",
        "replay",
        "replay-dir",
        "config",
        "mcp-config",
        "help",
        "scope",
        "scope-env",
        "ask",
        "messages",
        "skill",
        // The opposite of the key `skills`.
        "no-skills",
    ];

    #[test]
    fn exec_flags_are_settings() {
        let command = VexArgs::command();
        let exec = command.find_subcommand("exec").unwrap();
        for flag in exec.get_arguments().filter_map(|arg| arg.get_long()) {
            let is_key = KEYS.iter().any(|key| key.name == flag.replace('-', "_"));
            assert_ne!(is_key, NO_SETTINGS.contains(&flag), "{flag}");
        }
    }

    #[test]
    fn flags_win_and_are_shown_as_their_origin() {
        let args = ExecArgs {
            choice: ChoiceArgs {
                model: Some("m".into()),
                config: vec!["model=c".into(), "max_turns=3".into()],
                ..ChoiceArgs::default()
            },
            effort: Some(Effort::High),
            permission: Permission::from_str("read-only", false).ok(),
            tools: vec!["read_file".into(), "edit_file".into()],
            allow: vec!["web_fetch(a)".into()],
            max_tokens: Some(5),
            max_usd: Some(0.5),
            timeout: "90s".parse().ok(),
            second_look: true,
            no_session: true,
            no_skills: true,
            ..ExecArgs::default()
        };
        let loaded = args.load().unwrap();
        let shown = |key: &str| {
            let shown = loaded.shown().into_iter().find(|shown| shown.key == key).unwrap();
            format!("{} {}", shown.value, shown.origin)
        };
        assert_eq!(shown("model"), "\"m\" --model");
        assert_eq!(shown("max_turns"), "3 --config");
        assert_eq!(shown("effort"), "\"high\" --effort");
        assert_eq!(shown("permission"), "\"read-only\" --permission");
        assert_eq!(shown("tools[1]"), "\"edit_file\" --tools");
        assert_eq!(shown("allow[0]"), "\"web_fetch(a)\" --allow");
        assert_eq!(shown("max_tokens"), "5 --max-tokens");
        assert_eq!(shown("max_usd"), "0.5 --max-usd");
        assert_eq!(shown("timeout"), "\"1m30s\" --timeout");
        assert_eq!(shown("second_look"), "true --second-look");
        assert_eq!(shown("no_session"), "true --no-session");
        assert_eq!(shown("skills"), "false --no-skills");
    }
}
