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

use vik_core::workflow::{AgentProfile, OutputFormat};

use crate::environment::environment;
use crate::flags::{FlagRules, own_flags};
use crate::{Adapter, Launch, LaunchContext, LaunchError};

const RULES: FlagRules = FlagRules {
    reserved: &[],
    permission_flags: &[],
};

pub(crate) fn launch(cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
    if cx.profile.command.first().is_none_or(String::is_empty) {
        return Err(LaunchError::NoCommand);
    }
    if cx.resume.is_some() {
        return Err(LaunchError::CannotResume { runtime: "command" });
    }
    let mut argv = cx.profile.command.clone();
    argv.extend(own_flags(cx.profile, &RULES)?.argv);
    Ok(Launch {
        argv,
        env: environment(cx, &[]),
    })
}

pub(crate) fn adapter(profile: &AgentProfile) -> Box<dyn Adapter> {
    match profile.output {
        OutputFormat::Text => Box::new(text::Text::default()),
        OutputFormat::Jsonl => Box::new(jsonl::Jsonl::new(profile)),
    }
}
