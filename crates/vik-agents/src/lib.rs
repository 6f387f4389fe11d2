//! Adapters: how each agent is started, and what its output means.
//!
//! An adapter is pure. It never spawns a process, never reads a file and never looks at the clock: it builds a
//! [`Launch`] from a [`LaunchContext`], turns output lines into [`Event`]s, and at the end, from what it saw and how
//! the process ended, draws a [`Conclusion`].

mod classify;
mod claude_code;
mod codex;
mod command;
mod environment;
mod error;
mod flags;
mod login;
mod request;
mod reset;
mod resume;
mod state;
#[cfg(test)]
mod testing;
mod vex;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use jiff::Timestamp;
use serde_json::value::RawValue;
use vik_core::event::Event;
use vik_core::limits::Limit;
use vik_core::outcome::{FailureClass, Usage};
use vik_core::scope::Scope;
use vik_core::workflow::{AgentProfile, Runtime};

pub use environment::{COMMON, COMMON_PREFIXES, provider_names, provider_prefixes};
pub use error::LaunchError;
pub use login::{LoginSign, login_files, login_hint, login_signs, state_paths, temporary_variables};
pub use request::{AgentRequest, ApprovalRequest, InitialInput, Verdict};
pub use reset::reset_time;
pub use resume::{resume_failure, valid_session_id};

/// What an adapter may look at when it builds the command line.
#[derive(Clone, Copy)]
pub struct LaunchContext<'a> {
    /// The profile in force.
    pub profile: &'a AgentProfile,
    /// The issue workspace, absolute; also the working directory of the process.
    pub workdir: &'a Path,
    /// Vik's own program, absolute: it is also vex.
    pub vik: &'a Path,
    /// A folder of Vik's to be the agent's home, where the profile says `home: private`.
    pub private_home: Option<&'a Path>,
    /// A fresh UUID that an agent may use as its conversation id.
    pub session_id: uuid::Uuid,
    /// The conversation to resume, where it is one.
    pub resume: Option<&'a str>,
    /// What the session may spend at most, for an agent that can keep to that itself.
    pub budget: Limit,
    /// Whether the process will run in Vik's sandbox: then a sandbox of its own, which cannot work in it, is left off.
    pub in_sandbox: bool,
    /// Whether it must ask before each call: then it is told everything on its standard input, the prompt too
    /// ([`asking`]).
    pub interactive: bool,
    /// What it may change, for an agent that refuses the rest itself.
    pub scope: Option<&'a Scope>,
    /// Whether the process will run as root.
    pub is_root: bool,
    /// The daemon's environment.
    pub environment: &'a BTreeMap<String, String>,
}

/// How to start an agent. The prompt goes to its stdin, which is then closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program (a name to look up on PATH, or a path) and its arguments. Never holds text from an issue.
    pub argv: Vec<String>,
    /// The whole environment of the process: the allow-list, what the adapter sets, and the profile's own.
    pub env: BTreeMap<String, String>,
}

/// How the agent's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// Whether it exited with code 0.
    pub fn is_zero(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "it exited with code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal} ended it"),
        }
    }
}

/// What the adapter makes of a whole session.
#[derive(Clone, Debug, Default)]
pub struct Conclusion {
    /// Whether the work succeeded, from the final event *and* the exit code.
    pub ok: bool,
    /// Why not. `Some` whenever `ok` is false.
    pub failure_class: Option<FailureClass>,
    /// Why not, in a person's words: the agent's error, else the tail of stderr.
    pub reason: Option<String>,
    /// The agent's last message.
    pub last_message: Option<String>,
    /// The structured result, where there is one.
    pub result: Option<Box<RawValue>>,
    /// Tokens of this attempt.
    pub usage: Usage,
    /// The cost the agent itself reported.
    pub cost_usd: Option<f64>,
    /// The provider's id of the conversation.
    pub provider_session_id: Option<String>,
    /// Whether the agent was stopped by its own limit on money or turns (outcome `over_budget`).
    pub over_budget: bool,
    /// When the quota that ended it opens again, where the agent told that as a number.
    pub resets_at: Option<Timestamp>,
}

/// Takes the events that a line gave.
pub type Sink<'s> = dyn FnMut(Event<'_>) + 's;

/// The translator of one agent, for one session.
pub trait Adapter: Send {
    /// Maps one output line (without its newline). Bad lines become [`Event::Malformed`], unknown ones [`Event::Unknown`].
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>);

    /// Draws the conclusion after the last line.
    ///
    /// `stderr_tail` is the end of what the process wrote to stderr.
    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion;

    /// How many tool calls are open now. While one is, silence is no stall.
    fn open_tools(&self) -> usize;

    /// The usage of this attempt so far.
    fn usage(&self) -> (Usage, Option<f64>);

    /// What the agent does now, in a few words, for a status line.
    fn activity(&self) -> Option<&str>;

    /// What it wanted of Vik since the last time this was called: before its first line, and after each.
    fn take_requests(&mut self) -> Vec<AgentRequest> {
        Vec::new()
    }

    /// The lines that give a verdict on a call. At least the last of them begins as [`Ask::answered_by`] says.
    fn answer(&self, _: &ApprovalRequest, _: Verdict<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// What a conversation had used before an attempt that resumes it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PreviousTotal {
    /// Its tokens.
    pub usage: Usage,
    /// Its cost, as far as the agent reported it.
    pub cost_usd: f64,
}

/// Makes the translator for one session of this agent.
///
/// `previous_total` is there where a conversation is resumed: Codex reports totals of the conversation, and so does Claude
/// Code where its earlier process could save them. After the attempt the conversation's total is `previous_total` plus the
/// attempt's own usage.
pub fn adapter(profile: &AgentProfile, previous_total: Option<PreviousTotal>) -> Box<dyn Adapter> {
    match profile.runtime {
        Runtime::Codex => Box::new(codex::Codex::new(profile, previous_total)),
        Runtime::ClaudeCode => Box::new(claude_code::ClaudeCode::new(profile, previous_total)),
        Runtime::Vex => Box::new(vex::Vex::default()),
        Runtime::Command => command::adapter(profile),
    }
}

/// Makes the translator for one session of an agent that asks before each call; see [`LaunchContext::asks`].
///
/// # Errors
///
/// Where this agent cannot.
pub fn interactive_adapter(
    profile: &AgentProfile,
    previous_total: Option<PreviousTotal>,
    input: &InitialInput<'_>,
) -> Result<Box<dyn Adapter>, LaunchError> {
    match profile.runtime {
        Runtime::ClaudeCode => Ok(Box::new(claude_code::ClaudeCode::interactive(
            profile,
            previous_total,
            input.prompt,
        ))),
        Runtime::Vex => Ok(Box::new(vex::Vex::interactive(input.prompt))),
        Runtime::Codex => Ok(Box::new(codex::Server::new(profile, previous_total, input)?)),
        Runtime::Command => Err(not_interactive(profile)),
    }
}

/// Whether an agent is held to a scope by being asked before each call, where nothing else asks for that: vex keeps to it by
/// itself, and a profile with flags that leave no way to ask is judged at its end, as before.
pub fn enforces_scope_interactively(profile: &AgentProfile) -> bool {
    match profile.runtime {
        Runtime::ClaudeCode => !flags::has(profile, &["bare"]),
        Runtime::Codex => codex::non_interactive_flag(profile).is_none(),
        Runtime::Vex | Runtime::Command => false,
    }
}

fn not_interactive(profile: &AgentProfile) -> LaunchError {
    LaunchError::NotInteractive {
        runtime: profile.runtime.as_str(),
        why: "Vik knows no way to ask it",
    }
}

/// Builds the command line and the environment of an agent.
///
/// # Errors
///
/// Where the profile cannot be put into a command line; see [`LaunchError`].
pub fn launch(cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
    match cx.profile.runtime {
        Runtime::Command if cx.interactive => Err(not_interactive(cx.profile)),
        Runtime::Codex => codex::launch(cx),
        Runtime::ClaudeCode => claude_code::launch(cx),
        Runtime::Vex => vex::launch(cx),
        Runtime::Command => command::launch(cx),
    }
}

/// The program that must be found on PATH (or is a path) for this agent to start; `None` for the built-in agent, which
/// is Vik's own program.
pub fn program(profile: &AgentProfile) -> Option<&str> {
    let own = profile.command.first().map(String::as_str);
    own.or(match profile.runtime {
        Runtime::Codex => Some("codex"),
        Runtime::ClaudeCode => Some("claude"),
        Runtime::Vex | Runtime::Command => None,
    })
}

/// The arguments, after the program's own ([`AgentProfile::command`] without its first), that make an agent print its
/// version; empty where that is not known.
pub fn version_args(runtime: Runtime) -> &'static [&'static str] {
    match runtime {
        Runtime::Codex | Runtime::ClaudeCode => &["--version"],
        Runtime::Vex => &["vex", "--version"],
        Runtime::Command => &[],
    }
}

/// A path as text, to go on a command line or into a variable.
fn path_text(path: &Path) -> Result<&str, LaunchError> {
    path.to_str().ok_or_else(|| LaunchError::PathNotUtf8 {
        path: path.to_owned(),
    })
}
