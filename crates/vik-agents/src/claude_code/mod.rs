//! Claude Code: `claude -p --output-format stream-json`.
//!
//! - The prompt goes to stdin, never on the command line.
//! - The `result` line decides, together with exit code 0: an API failure has `subtype: success`
//!   with `is_error: true`, and an interrupt may exit with 0. It is not always the last line.
//! - `modelUsage` and `total_cost_usd` cover the whole run including sub-agents; `usage` covers
//!   only the main conversation. The input tokens of both exclude the cached ones, which are added
//!   here. Until the result arrives, the usage is the sum over the requests, which is slightly low.
//! - A refused tool call is a tool result with an error, and is listed in `permission_denials`; the
//!   run continues.
//!
//! In a session whose input stays open Claude Code also reads stream-json: `control.rs`.
//!
//! Permissions: Claude Code has no OS sandbox in this mode. `workspace-write` and `full` are
//! therefore the same, `bypassPermissions`: nobody can answer a prompt, and anything less refuses
//! `git commit`. `read-only` denies the tools that write, including the shell; a deny rule applies
//! whatever the user's settings allow. In Vik's sandbox, which protects the workspace then, `Write`
//! is allowed for the folder of the file for questions.

mod adapter;
mod control;
mod errors;
mod extensions;
mod launch;
mod line;
mod requests;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub(crate) use adapter::ClaudeCode;
use vik_core::workflow::{AgentProfile, Runtime, SandboxFiles};

use crate::driver::is_hyphenated_uuid;
use crate::login::{configured_folder, home_folder};
use crate::{
    Adapter, Driver, InitialInput, InputMode, Launch, LaunchContext, LaunchError, LoginSign, PreviousTotal,
};

const HOME_VARIABLE: &str = "CLAUDE_CONFIG_DIR";
const LOGIN_FILE: &str = ".credentials.json";
const TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";

pub(crate) struct ClaudeCodeDriver;

impl Driver for ClaudeCodeDriver {
    fn runtime(&self) -> Runtime {
        Runtime::ClaudeCode
    }

    fn launch(&self, cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        launch::launch(self, cx)
    }

    fn terminal_session(&self, cx: &LaunchContext<'_>) -> Result<Option<Launch>, LaunchError> {
        launch::terminal_session(self, cx).map(Some)
    }

    fn adapter(&self, profile: &AgentProfile, previous_total: Option<PreviousTotal>) -> Box<dyn Adapter> {
        Box::new(ClaudeCode::new(profile, previous_total))
    }

    fn interactive_adapter(
        &self,
        profile: &AgentProfile,
        previous_total: Option<PreviousTotal>,
        input: &InitialInput<'_>,
    ) -> Result<Box<dyn Adapter>, LaunchError> {
        Ok(Box::new(ClaudeCode::interactive(profile, previous_total, input)))
    }

    fn steering(&self, profile: &AgentProfile) -> Result<(), &'static str> {
        match launch::has_input_format(profile) {
            true => Err("`args.input-format` demands a prompt as text"),
            false => Ok(()),
        }
    }

    fn can_write_questions(&self, profile: &AgentProfile, files: Option<SandboxFiles>, _: InputMode) -> bool {
        launch::can_write_questions(profile, files)
    }

    fn default_program(&self) -> Option<&'static str> {
        Some("claude")
    }

    fn install_command(&self) -> Option<&'static str> {
        Some("npm install -g @anthropic-ai/claude-code")
    }

    fn version_args(&self) -> &'static [&'static str] {
        &["--version"]
    }

    fn enforces_scope_interactively(&self, profile: &AgentProfile) -> bool {
        !launch::skips_hooks(profile)
    }

    fn is_valid_session_id(&self, id: &str) -> bool {
        is_hyphenated_uuid(id)
    }

    fn missing_session_phrases(&self) -> &'static [&'static str] {
        &["No conversation found", "requires a valid session ID"]
    }

    fn provider_names(&self) -> &'static [&'static str] {
        &[TOKEN, HOME_VARIABLE, "NODE_EXTRA_CA_CERTS"]
    }

    fn provider_prefixes(&self) -> &'static [&'static str] {
        &["ANTHROPIC_"]
    }

    fn temporary_variables(&self) -> &'static [&'static str] {
        &["TMPDIR", "CLAUDE_CODE_TMPDIR"]
    }

    fn home_variable(&self) -> Option<&'static str> {
        Some(HOME_VARIABLE)
    }

    fn state_paths(&self, _: &AgentProfile, environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
        let folder = configured_folder(environment, HOME_VARIABLE, ".claude");
        let beside = home_folder(environment, ".claude.json");
        let beside = beside.filter(|_| !environment.contains_key(HOME_VARIABLE));
        folder.into_iter().chain(beside).collect()
    }

    fn login_signs(&self, _: &AgentProfile, environment: &BTreeMap<String, String>) -> Vec<LoginSign> {
        let variables = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", TOKEN].map(LoginSign::Variable);
        let home = configured_folder(environment, HOME_VARIABLE, ".claude");
        let file = home.map(|home| LoginSign::File(home.join(LOGIN_FILE)));
        variables.into_iter().chain(file).collect()
    }

    fn other_login_signs(
        &self,
        profile: &AgentProfile,
        environment: &BTreeMap<String, String>,
    ) -> Option<Vec<LoginSign>> {
        // On macOS the login is in the keychain.
        if cfg!(target_os = "macos") || !profile.command.is_empty() || !profile.args.is_empty() {
            return None;
        }
        let variables = [
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_FOUNDRY",
            "CLAUDE_CODE_USE_VERTEX",
        ];
        let home = configured_folder(environment, HOME_VARIABLE, ".claude")?;
        let files = [
            home.join("settings.json"),
            home.join(".claude.json"),
            home_folder(environment, ".claude.json")?,
            ".claude/settings.json".into(),
            "/etc/claude-code/managed-settings.json".into(),
        ];
        let settings = ["apiKeyHelper", "primaryApiKey", "ANTHROPIC_", "CLAUDE_CODE_USE_"];
        let of_file = |file: PathBuf| settings.map(|name| LoginSign::Setting(file.clone(), name));
        let variables = variables.into_iter().map(LoginSign::Variable);
        Some(variables.chain(files.into_iter().flat_map(of_file)).collect())
    }

    fn login_files(&self) -> &'static [&'static str] {
        &[LOGIN_FILE]
    }

    fn login_hint(&self) -> Option<&'static str> {
        Some("run `claude` once and log in, or set ANTHROPIC_API_KEY")
    }
}
