//! Errors of building a command line from a profile.

use std::path::PathBuf;

/// A command line could not be built. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    #[error("an agent with the runtime `{runtime}` needs a `model`")]
    NoModel {
        /// The runtime, as in the workflow file.
        runtime: &'static str,
    },
    #[error("an agent with the runtime `command` needs a `command`")]
    NoCommand,
    /// A key under `args` cannot be a flag.
    #[error("invalid flag name `args.{flag}`")]
    BadFlag { flag: String },
    /// A key under `args` is a flag that Vik sets itself, to something else.
    #[error("`args.{flag}` cannot be set for runtime `{runtime}`: {instead}")]
    ReservedFlag {
        runtime: &'static str,
        flag: String,
        /// What to use instead.
        instead: &'static str,
    },
    /// The profile asks for a sandbox of the agent's own, which cannot work within Vik's.
    #[error(
        "`args.{flag}` enables the sandbox of Codex, which cannot run inside Vik's sandbox: remove the flag, or set `sandbox: off`"
    )]
    SecondSandbox { flag: String },
    /// Calls of this agent need approval, and it has no way to ask for it.
    #[error("the calls of an agent with the runtime `{runtime}` cannot be approved: {why}")]
    NotInteractive {
        runtime: &'static str,
        why: &'static str,
    },
    /// The id to resume is not a valid id of this agent. (Codex would silently start a new
    /// conversation.)
    #[error("invalid conversation id `{id}` for the runtime `{runtime}`")]
    BadResumeId { runtime: &'static str, id: String },
    #[error("an agent with the runtime `{runtime}` cannot resume a conversation")]
    CannotResume { runtime: &'static str },
    /// A path that must go on the command line is not UTF-8.
    #[error("the path {} is not UTF-8, so it cannot be passed to the agent", path.display())]
    PathNotUtf8 { path: PathBuf },
}
