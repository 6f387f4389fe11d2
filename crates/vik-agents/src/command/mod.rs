//! Any other command line: `runtime: command`.
//!
//! The prompt goes to stdin. With `output: text` each line is a message, and exit code 0 is
//! success. With `output: jsonl` the shape of the lines decides the dialect: GitHub Copilot CLI,
//! Gemini CLI, opencode, or the format of Codex, Claude Code or vex; each must then end as its
//! protocol requires. Anything else is read as generic JSON Lines (see [`generic`]), and exit code
//! 0 without a final error event is success.
//!
//! `permission` cannot be mapped, because Vik does not know the flags of the command. Put them in
//! `command` or `args`.

mod copilot;
mod gemini;
mod generic;
mod jsonl;
mod opencode;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;

use vik_core::workflow::{AgentProfile, OutputFormat, Runtime};

use crate::environment::environment;
use crate::flags::{FlagRules, own_flags};
use crate::login::{configured_folder, home_folder};
use crate::{Adapter, Driver, Launch, LaunchContext, LaunchError, PreviousTotal};

const RULES: FlagRules = FlagRules {
    reserved: &[],
    permission_flags: &[],
};

pub(crate) struct CommandDriver;

impl Driver for CommandDriver {
    fn runtime(&self) -> Runtime {
        Runtime::Command
    }

    fn launch(&self, cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        if cx.input.is_open() {
            return Err(self.not_interactive());
        }
        if cx.profile.command.first().is_none_or(String::is_empty) {
            return Err(LaunchError::NoCommand);
        }
        if cx.resume.is_some() {
            return Err(LaunchError::CannotResume {
                runtime: self.runtime().as_str(),
            });
        }
        let mut argv = cx.program(self);
        argv.extend(own_flags(cx.profile, &RULES)?.argv);
        Ok(Launch {
            files: Vec::new(),
            argv,
            env: environment(self, cx, &[])?,
        })
    }

    fn adapter(&self, profile: &AgentProfile, _: Option<PreviousTotal>) -> Box<dyn Adapter> {
        match profile.output {
            OutputFormat::Text => Box::new(text::Text::default()),
            OutputFormat::Jsonl => Box::new(jsonl::Jsonl::new(profile)),
        }
    }

    fn state_paths(&self, profile: &AgentProfile, environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
        let program = self
            .program(profile)
            .map(|program| program.rsplit('/').next().unwrap_or(program));
        let folder = |variable, below| configured_folder(environment, variable, below);
        let places = match program {
            Some("gemini") => vec![home_folder(environment, ".gemini")],
            Some("copilot") => vec![home_folder(environment, ".copilot")],
            Some("opencode") => vec![
                folder("XDG_DATA_HOME", ".local/share").map(|data| data.join("opencode")),
                folder("XDG_STATE_HOME", ".local/state").map(|state| state.join("opencode")),
            ],
            _ => Vec::new(),
        };
        places.into_iter().flatten().collect()
    }
}
