//! What can be wrong with a profile when a command line is built from it.

use std::path::PathBuf;

/// A command line could not be built. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The profile names no model, and its runtime needs one.
    #[error("an agent of runtime `{runtime}` needs a `model`")]
    NoModel {
        /// The runtime, as in the workflow file.
        runtime: &'static str,
    },
    /// A profile of runtime `command` has an empty command.
    #[error("an agent of runtime `command` needs a `command`")]
    NoCommand,
    /// A key under `args` cannot be a flag.
    #[error("`args.{flag}` is not the name of a flag")]
    BadFlag {
        /// The key as written.
        flag: String,
    },
    /// A key under `args` is a flag that Vik sets itself, to something else.
    #[error("`args.{flag}` cannot be set for runtime `{runtime}`: {instead}")]
    ReservedFlag {
        /// The runtime, as in the workflow file.
        runtime: &'static str,
        /// The key as written.
        flag: String,
        /// Who sets it, or which key to use.
        instead: &'static str,
    },
    /// The profile asks for a sandbox of the agent's own, which cannot work within Vik's.
    #[error(
        "`args.{flag}` asks for a sandbox of Codex's own, which cannot work within Vik's: remove it, or write `sandbox: off` beside it"
    )]
    SecondSandbox {
        /// The key as written.
        flag: String,
    },
    /// Calls of this agent are to be asked about, and it has no way to ask.
    #[error("calls of an agent of runtime `{runtime}` cannot be asked about: {why}")]
    NotInteractive {
        /// The runtime, as in the workflow file.
        runtime: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// The id of the conversation to resume cannot be one of this agent. (Codex would silently begin a new one.)
    #[error("`{id}` is not the id of a `{runtime}` conversation")]
    BadResumeId {
        /// The runtime, as in the workflow file.
        runtime: &'static str,
        /// The id.
        id: String,
    },
    /// This runtime has no way to resume a conversation.
    #[error("an agent of runtime `{runtime}` cannot resume a conversation")]
    CannotResume {
        /// The runtime, as in the workflow file.
        runtime: &'static str,
    },
    /// A path that must go on the command line is not UTF-8.
    #[error("the path {} is not UTF-8, so it cannot be given to the agent", path.display())]
    PathNotUtf8 {
        /// The path.
        path: PathBuf,
    },
}
