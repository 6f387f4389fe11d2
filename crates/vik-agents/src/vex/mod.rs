//! vex, the built-in agent: `vik vex exec --json`.
//!
//! One JSON object per line, `{"v":1,"seq":N,"type":…}`; `docs/reference/vex-events.schema.json`
//! describes them. `usage` has running totals. The exit code matches `end`: 0 done, 1 failed, 2
//! usage, 3 configuration, 4 login or model refused, 5 a limit reached, 6 no progress, 7 denied,
//! 130 interrupted.
//!
//! vex enforces the budget of a session itself. For a budget in money it needs the price of the
//! model: from its own table, or from the profile's `price`.
//!
//! vex refuses calls outside of the attempt's scope. Globs may come from an issue, so they are
//! passed in the environment and not as arguments. A vex that does not know the flag exits with a
//! usage error, so no attempt runs without a scope.
//!
//! Permissions are vex's own three profiles of the same names.

mod adapter;
mod approvals;
mod launch;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub(crate) use adapter::Vex;
use vik_core::workflow::{AgentProfile, Runtime, SandboxFiles};

use crate::login::configured_folder;
use crate::{
    Adapter, Driver, InitialInput, InputMode, Launch, LaunchContext, LaunchError, LoginSign, PreviousTotal,
};

const HOME_VARIABLE: &str = "VEX_HOME";
/// The permission without which vex has no tool that writes.
const READ_ONLY: &str = "read-only";
const MAX_SESSION_ID_BYTES: usize = 128;

pub(crate) struct VexDriver;

impl Driver for VexDriver {
    fn runtime(&self) -> Runtime {
        Runtime::Vex
    }

    fn launch(&self, cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        launch::launch(self, cx)
    }

    fn terminal_session(&self, cx: &LaunchContext<'_>) -> Result<Option<Launch>, LaunchError> {
        let cx = LaunchContext {
            input: InputMode::Approvals,
            ..*cx
        };
        let mut launch = launch::launch(self, &cx)?;
        // A person writes and answers, and not a program.
        launch.argv.retain(|arg| arg != "--json" && arg != "--messages");
        Ok(Some(launch))
    }

    fn adapter(&self, _: &AgentProfile, _: Option<PreviousTotal>) -> Box<dyn Adapter> {
        Box::new(Vex::default())
    }

    fn interactive_adapter(
        &self,
        _: &AgentProfile,
        _: Option<PreviousTotal>,
        input: &InitialInput<'_>,
    ) -> Result<Box<dyn Adapter>, LaunchError> {
        Ok(Box::new(Vex::interactive(input.prompt)))
    }

    fn steering(&self, _: &AgentProfile) -> Result<(), &'static str> {
        Ok(())
    }

    fn can_write_questions(&self, profile: &AgentProfile, _: Option<SandboxFiles>, _: InputMode) -> bool {
        launch::permission(profile) != READ_ONLY
    }

    fn version_args(&self) -> &'static [&'static str] {
        &["vex", "--version"]
    }

    fn enforces_scope(&self) -> bool {
        true
    }

    fn needs_subreaper(&self) -> bool {
        true
    }

    fn is_valid_session_id(&self, id: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_short = !id.is_empty() && id.len() <= MAX_SESSION_ID_BYTES;
        is_short && !id.starts_with(['-', '.']) && id.bytes().all(plain)
    }

    fn missing_session_phrases(&self) -> &'static [&'static str] {
        &["no session", "no such session"]
    }

    fn provider_names(&self) -> &'static [&'static str] {
        &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "OPENROUTER_API_KEY",
        ]
    }

    fn provider_prefixes(&self) -> &'static [&'static str] {
        &["VEX_"]
    }

    fn home_variable(&self) -> Option<&'static str> {
        Some(HOME_VARIABLE)
    }

    fn state_paths(&self, _: &AgentProfile, environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
        let folder = if environment.contains_key(HOME_VARIABLE) {
            configured_folder(environment, HOME_VARIABLE, ".vex")
        } else {
            configured_folder(environment, "XDG_STATE_HOME", ".local/state").map(|state| state.join("vex"))
        };
        folder.into_iter().collect()
    }

    fn login_signs(&self, profile: &AgentProfile, _: &BTreeMap<String, String>) -> Vec<LoginSign> {
        match profile.provider.as_deref() {
            Some(name) if name.contains("anthropic") || name.contains("messages") => {
                vec![LoginSign::Variable("ANTHROPIC_API_KEY")]
            }
            Some(name) if name.contains("openai") || name.contains("responses") => {
                vec![LoginSign::Variable("OPENAI_API_KEY")]
            }
            _ => Vec::new(),
        }
    }

    fn login_hint(&self) -> Option<&'static str> {
        Some("set the API key of its provider in the environment")
    }
}
