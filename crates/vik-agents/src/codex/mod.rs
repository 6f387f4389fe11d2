//! Codex CLI: `codex exec --json`.
//!
//! - The prompt goes to stdin (`-`): it has no length limit, and a leading dash does not make it a
//!   flag.
//! - stdout is JSON Lines; a line may have 1 MB. A turn ends with `turn.completed` or
//!   `turn.failed`; success is the former together with exit code 0.
//! - A plain `error` line may be transient (`Reconnecting... 2/5`) or final; only `turn.failed`
//!   decides.
//! - `turn.completed.usage` is the total of the *thread*. After a resume it includes the earlier
//!   attempts, so their total is subtracted.
//! - A command that is still running at the end of the turn is never reported as completed: the end
//!   of the turn closes it.
//!
//! In Vik's sandbox Codex runs without its own sandbox, which cannot be nested:
//! `--dangerously-bypass-approvals-and-sandbox`.
//!
//! Permissions without Vik's sandbox: `read-only` and `workspace-write` are Codex's own OS sandbox.
//! In the latter `.git` of the workspace is made writable, because Codex keeps it read-only
//! otherwise and `git commit` fails. If `.git` is a file (a linked worktree), the repository behind
//! it stays read-only: pass its path with `-c` `sandbox_workspace_write.writable_roots`, or use
//! `full`, which is `--dangerously-bypass-approvals-and-sandbox`. The folder of the file for
//! questions is writable in both.

mod adapter;
mod launch;
mod line;
mod message;
mod server;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub(crate) use adapter::Codex;
use vik_core::workflow::{AgentProfile, Runtime, SandboxFiles};

use crate::driver::is_hyphenated_uuid;
use crate::login::configured_folder;
use crate::{
    Adapter, Driver, InitialInput, InputMode, Launch, LaunchContext, LaunchError, LoginSign, PreviousTotal,
};

const HOME_VARIABLE: &str = "CODEX_HOME";
const LOGIN_FILE: &str = "auth.json";

pub(crate) struct CodexDriver;

impl Driver for CodexDriver {
    fn runtime(&self) -> Runtime {
        Runtime::Codex
    }

    fn launch(&self, cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        launch::launch(self, cx)
    }

    fn terminal_session(&self, cx: &LaunchContext<'_>) -> Result<Option<Launch>, LaunchError> {
        launch::terminal_session(self, cx).map(Some)
    }

    fn adapter(&self, profile: &AgentProfile, previous_total: Option<PreviousTotal>) -> Box<dyn Adapter> {
        Box::new(Codex::new(profile, previous_total))
    }

    fn interactive_adapter(
        &self,
        profile: &AgentProfile,
        previous_total: Option<PreviousTotal>,
        input: &InitialInput<'_>,
    ) -> Result<Box<dyn Adapter>, LaunchError> {
        Ok(Box::new(server::AppServer::new(profile, previous_total, input)?))
    }

    fn steering(&self, profile: &AgentProfile) -> Result<(), &'static str> {
        match launch::non_interactive_flag(profile) {
            Some(_) => Err("its `args` contain a flag that `codex app-server` does not support"),
            None => Ok(()),
        }
    }

    fn can_write_questions(
        &self,
        profile: &AgentProfile,
        files: Option<SandboxFiles>,
        input: InputMode,
    ) -> bool {
        files.is_some() || launch::can_write_questions(profile, input)
    }

    fn needs_skill_list(&self) -> bool {
        true
    }

    fn default_program(&self) -> Option<&'static str> {
        Some("codex")
    }

    fn install_command(&self) -> Option<&'static str> {
        Some("npm install -g @openai/codex")
    }

    fn version_args(&self) -> &'static [&'static str] {
        &["--version"]
    }

    fn enforces_scope_interactively(&self, profile: &AgentProfile) -> bool {
        launch::non_interactive_flag(profile).is_none()
    }

    fn is_valid_session_id(&self, id: &str) -> bool {
        is_hyphenated_uuid(id)
    }

    fn missing_session_phrases(&self) -> &'static [&'static str] {
        &["no rollout found", "thread/resume failed"]
    }

    fn provider_names(&self) -> &'static [&'static str] {
        &[
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "OPENAI_ORGANIZATION",
            "OPENAI_PROJECT",
            "CODEX_API_KEY",
            HOME_VARIABLE,
        ]
    }

    fn home_variable(&self) -> Option<&'static str> {
        Some(HOME_VARIABLE)
    }

    fn state_paths(&self, _: &AgentProfile, environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
        configured_folder(environment, HOME_VARIABLE, ".codex")
            .into_iter()
            .collect()
    }

    fn login_signs(&self, _: &AgentProfile, environment: &BTreeMap<String, String>) -> Vec<LoginSign> {
        let variables = ["CODEX_API_KEY", "OPENAI_API_KEY"].map(LoginSign::Variable);
        let home = configured_folder(environment, HOME_VARIABLE, ".codex");
        let file = home.map(|home| LoginSign::File(home.join(LOGIN_FILE)));
        variables.into_iter().chain(file).collect()
    }

    fn other_login_signs(
        &self,
        profile: &AgentProfile,
        environment: &BTreeMap<String, String>,
    ) -> Option<Vec<LoginSign>> {
        if !profile.command.is_empty() || !profile.args.is_empty() || profile.base_url.is_some() {
            return None;
        }
        let home = configured_folder(environment, HOME_VARIABLE, ".codex")?;
        let files = [home, "/etc/codex".into()]
            .into_iter()
            .flat_map(|folder| ["config.toml", "managed_config.toml"].map(|file| folder.join(file)));
        let settings = ["model_provider", "cli_auth_credentials_store"];
        let signs = files.flat_map(|file| settings.map(|name| LoginSign::Setting(file.clone(), name)));
        Some(signs.collect())
    }

    fn login_files(&self) -> &'static [&'static str] {
        &[LOGIN_FILE]
    }

    fn login_hint(&self) -> Option<&'static str> {
        Some("run `codex login`, or set OPENAI_API_KEY")
    }
}
