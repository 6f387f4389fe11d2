//! Adapters: how to start each agent, and how to interpret its output.
//!
//! An adapter is pure. It spawns no process, reads no file and no clock: it builds a [`Launch`]
//! from a [`LaunchContext`], maps output lines to [`Event`]s, and at the end builds a
//! [`Conclusion`] from them and from the exit of the process.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

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
pub use resume::{is_valid_session_id, resume_failure};

/// The input for building a command line.
#[derive(Clone, Copy)]
pub struct LaunchContext<'a> {
    /// The profile after all overrides.
    pub profile: &'a AgentProfile,
    /// The issue workspace, absolute. It is also the working directory of the process.
    pub workdir: &'a Path,
    /// The absolute path of Vik's own program, which is also vex.
    pub vik: &'a Path,
    /// The home of the agent with `home: private`.
    pub private_home: Option<&'a Path>,
    /// A new UUID that the agent may use as its conversation id.
    pub session_id: uuid::Uuid,
    /// The conversation to resume.
    pub resume: Option<&'a str>,
    /// The budget of the session, for an agent that enforces one itself.
    pub budget: Limit,
    /// Whether the process will run in Vik's sandbox. The agent's own sandbox cannot be nested and
    /// is disabled then.
    pub in_sandbox: bool,
    /// Whether the agent must ask before each call. It then gets all input on stdin, including the
    /// prompt ([`interactive_adapter`]).
    pub interactive: bool,
    /// The paths that the agent may change, for an agent that enforces a scope itself.
    pub scope: Option<&'a Scope>,
    /// Whether the process will run as root.
    pub is_root: bool,
    pub environment: &'a BTreeMap<String, String>,
}

/// How to start an agent. The prompt goes to its stdin, which is then closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program (a name on PATH, or a path) and its arguments. They never contain text of an
    /// issue.
    pub argv: Vec<String>,
    /// The whole environment of the process: the allow-list, the adapter's variables, and the
    /// profile's own.
    pub env: BTreeMap<String, String>,
}

/// How the process of the agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    /// Returns whether the process exited with code 0.
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

/// The result of a whole session.
#[derive(Clone, Debug, Default)]
pub struct Conclusion {
    /// Whether the work succeeded, from the final event *and* the exit code.
    pub ok: bool,
    /// Always `Some` if `ok` is false.
    pub failure_class: Option<FailureClass>,
    /// The reason of the failure for people: the agent's error, or the tail of stderr.
    pub reason: Option<String>,
    pub last_message: Option<String>,
    /// The structured result, if there is one.
    pub result: Option<Box<RawValue>>,
    /// Tokens of this attempt.
    pub usage: Usage,
    /// The cost that the agent itself reported.
    pub cost_usd: Option<f64>,
    /// The provider's id of the conversation.
    pub provider_session_id: Option<String>,
    /// Whether a cost or turn limit of the agent's own ended it (outcome `over_budget`).
    pub over_budget: bool,
    /// When the exhausted quota resets, if the agent reported it as a number.
    pub resets_at: Option<Timestamp>,
}

/// Receives the events of a line.
pub type Sink<'s> = dyn FnMut(Event<'_>) + 's;

/// Maps the output of one agent in one session.
pub trait Adapter: Send {
    /// Maps one output line (without its newline). Malformed lines become [`Event::Malformed`],
    /// unknown ones [`Event::Unknown`].
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>);

    /// Builds the conclusion after the last line.
    ///
    /// `stderr_tail` is the end of what the process wrote to stderr.
    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion;

    /// Returns the number of open tool calls. During a call, silence does not count as a stall.
    fn open_tools(&self) -> usize;

    /// Returns the usage and the cost of this attempt so far.
    fn usage(&self) -> (Usage, Option<f64>);

    /// Returns a short text for a status line about what the agent is doing.
    fn activity(&self) -> Option<&str>;

    /// Returns the requests of the agent since the last call. Called before the first line and
    /// after each one.
    fn take_requests(&mut self) -> Vec<AgentRequest> {
        Vec::new()
    }

    /// Returns the lines that answer an approval request. At least the last one starts with
    /// [`ApprovalRequest::answer_prefix`].
    fn answer(&self, _: &ApprovalRequest, _: Verdict<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// The usage of a conversation before the attempt that resumes it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PreviousTotal {
    pub usage: Usage,
    /// The cost, as far as the agent reported it.
    pub cost_usd: f64,
}

/// Creates the adapter for one session of an agent.
///
/// `previous_total` is set for a resumed conversation: Codex reports totals of the conversation,
/// and so does Claude Code if its previous process could save them. After the attempt the
/// conversation's total is `previous_total` plus the attempt's own usage.
///
/// # Examples
///
/// ```
/// use vik_agents::{Exit, adapter};
/// use vik_core::event::Event;
///
/// # let workflow = vik_workflow_reader::load(
/// #     "
/// # issues: { pull: { command: list } }
/// # agents: { coder: { runtime: codex, model: gpt-5.5 } }
/// # issue: { stages: { plan: { when: { state: todo }, agent: coder, prompt: p } } }
/// # ",
/// # );
/// # let workflow = workflow.workflow.unwrap();
/// # let profile = &workflow.agents["coder"];
/// let mut adapter = adapter(profile, None);
/// let mut messages = Vec::new();
/// for line in [
///     r#"{"type":"turn.started"}"#,
///     r#"{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"Done."}}"#,
///     r#"{"type":"turn.completed"}"#,
/// ] {
///     adapter.line(line.as_bytes(), &mut |event: Event<'_>| {
///         if let Event::Message { text } = event {
///             messages.push(text.into_owned());
///         }
///     });
/// }
/// assert_eq!(messages, ["Done."]);
/// // The exit code counts too, whatever the last line was.
/// assert!(!adapter.conclude(Exit::Code(1), "").ok);
/// ```
pub fn adapter(profile: &AgentProfile, previous_total: Option<PreviousTotal>) -> Box<dyn Adapter> {
    match profile.runtime {
        Runtime::Codex => Box::new(codex::Codex::new(profile, previous_total)),
        Runtime::ClaudeCode => Box::new(claude_code::ClaudeCode::new(profile, previous_total)),
        Runtime::Vex => Box::new(vex::Vex::default()),
        Runtime::Command => command::adapter(profile),
    }
}

/// Creates the adapter for one session of an agent that asks before each call; see
/// [`LaunchContext::interactive`].
///
/// # Errors
///
/// Returns an error if this agent has no way to ask.
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
        Runtime::Codex => Ok(Box::new(codex::AppServer::new(profile, previous_total, input)?)),
        Runtime::Command => Err(not_interactive(profile)),
    }
}

/// Returns whether an agent's scope is enforced by approving each call. vex enforces its scope
/// itself, and a profile with flags that prevent asking is checked only at its end.
pub fn enforces_scope_interactively(profile: &AgentProfile) -> bool {
    match profile.runtime {
        Runtime::ClaudeCode => !flags::has_flag(profile, &["bare"]),
        Runtime::Codex => codex::non_interactive_flag(profile).is_none(),
        Runtime::Vex | Runtime::Command => false,
    }
}

fn not_interactive(profile: &AgentProfile) -> LaunchError {
    LaunchError::NotInteractive {
        runtime: profile.runtime.as_str(),
        why: "the runtime has no approval protocol",
    }
}

/// Builds the command line and the environment of an agent.
///
/// # Errors
///
/// Returns an error if the profile cannot be expressed as a command line; see [`LaunchError`].
///
/// # Examples
///
/// ```
/// use std::collections::BTreeMap;
/// use std::path::Path;
///
/// use vik_agents::{LaunchContext, launch};
///
/// # let workflow = vik_workflow_reader::load(
/// #     "
/// # issues: { pull: { command: list } }
/// # agents: { coder: { runtime: command, command: [my-agent, fast] } }
/// # issue: { stages: { plan: { when: { state: todo }, agent: coder, prompt: p } } }
/// # ",
/// # );
/// # let workflow = workflow.workflow.unwrap();
/// # let profile = &workflow.agents["coder"];
/// let variables = [("PATH", "/usr/bin"), ("GITHUB_TOKEN", "a secret")];
/// let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
/// let environment = BTreeMap::from(variables.map(own));
/// let command = launch(&LaunchContext {
///     profile,
///     workdir: Path::new("/tmp/issue-7"),
///     vik: Path::new("/usr/bin/vik"),
///     private_home: None,
///     session_id: uuid::Uuid::nil(),
///     resume: None,
///     budget: vik_core::limits::Limit::default(),
///     in_sandbox: false,
///     interactive: false,
///     scope: None,
///     is_root: false,
///     environment: &environment,
/// })?;
/// assert_eq!(command.argv, ["my-agent", "fast"]);
/// // Only listed variables reach an agent.
/// assert!(command.env.contains_key("PATH") && !command.env.contains_key("GITHUB_TOKEN"));
/// # Ok::<(), vik_agents::LaunchError>(())
/// ```
pub fn launch(cx: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
    match cx.profile.runtime {
        Runtime::Command if cx.interactive => Err(not_interactive(cx.profile)),
        Runtime::Codex => codex::launch(cx),
        Runtime::ClaudeCode => claude_code::launch(cx),
        Runtime::Vex => vex::launch(cx),
        Runtime::Command => command::launch(cx),
    }
}

/// Returns the program (a name on PATH, or a path) that this agent needs; `None` for the built-in
/// agent, which is Vik's own program.
pub fn program(profile: &AgentProfile) -> Option<&str> {
    let own = profile.command.first().map(String::as_str);
    own.or(match profile.runtime {
        Runtime::Codex => Some("codex"),
        Runtime::ClaudeCode => Some("claude"),
        Runtime::Vex | Runtime::Command => None,
    })
}

/// Returns the arguments that make an agent print its version. They follow the program's own
/// arguments ([`AgentProfile::command`] without its first); empty if unknown.
pub fn version_args(runtime: Runtime) -> &'static [&'static str] {
    match runtime {
        Runtime::Codex | Runtime::ClaudeCode => &["--version"],
        Runtime::Vex => &["vex", "--version"],
        Runtime::Command => &[],
    }
}

/// Returns a path as text for a command line or a variable.
fn path_text(path: &Path) -> Result<&str, LaunchError> {
    path.to_str().ok_or_else(|| LaunchError::PathNotUtf8 {
        path: path.to_owned(),
    })
}
