//! What a command line is built from, and the result.

use std::collections::BTreeMap;
use std::path::Path;

use vik_core::limits::Limit;
use vik_core::scope::Scope;
use vik_core::workflow::AgentProfile;

use crate::{Driver, Extensions, LaunchError, LaunchFile};

/// How an agent gets its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputMode {
    /// The prompt goes to stdin, which is then closed.
    #[default]
    Prompt,
    /// stdin stays open for messages of people; see
    /// [`Driver::interactive_adapter`](crate::Driver::interactive_adapter).
    Messages,
    /// Like `Messages`, and the agent asks before each call.
    Approvals,
}

impl InputMode {
    /// Returns whether stdin stays open.
    pub fn is_open(self) -> bool {
        self != Self::Prompt
    }

    /// Returns whether the agent asks before each call.
    pub fn asks(self) -> bool {
        self == Self::Approvals
    }
}

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
    pub input: InputMode,
    /// The paths that the agent may change, for an agent that enforces a scope itself.
    pub scope: Option<&'a Scope>,
    /// The folder of the file for questions, if the agent can write the file; see
    /// [`Driver::can_write_questions`].
    pub questions: Option<&'a Path>,
    /// The MCP servers and skills; `None` for none.
    pub extensions: Option<&'a Extensions>,
    /// Whether the process will run as root.
    pub is_root: bool,
    pub environment: &'a BTreeMap<String, String>,
}

/// How to start an agent. The prompt goes to its stdin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program (a name on PATH, or a path) and its arguments. They never contain text of an
    /// issue.
    pub argv: Vec<String>,
    /// The whole environment of the process: the allow-list, the adapter's variables, and the
    /// profile's own.
    pub env: BTreeMap<String, String>,
    /// Private files that must exist before the start.
    pub files: Vec<LaunchFile>,
}

impl<'a> LaunchContext<'a> {
    /// Returns the program and its first arguments.
    pub(crate) fn program(&self, driver: &dyn Driver) -> Vec<String> {
        if self.profile.command.is_empty() {
            let program = driver.default_program();
            program.map(str::to_owned).into_iter().collect()
        } else {
            self.profile.command.clone()
        }
    }

    /// Returns the model of an agent that needs one.
    pub(crate) fn model(&self) -> Result<&'a str, LaunchError> {
        self.profile.model.as_deref().ok_or(LaunchError::NoModel {
            runtime: self.profile.runtime.as_str(),
        })
    }

    /// Returns the id of the conversation to resume.
    pub(crate) fn resume_id(&self, driver: &dyn Driver) -> Result<Option<&'a str>, LaunchError> {
        match self.resume {
            Some(id) if !driver.is_valid_session_id(id) => Err(LaunchError::BadResumeId {
                runtime: driver.runtime().as_str(),
                id: id.to_owned(),
            }),
            resume => Ok(resume),
        }
    }
}

/// Returns a path as text for a command line or a variable.
pub(crate) fn path_text(path: &Path) -> Result<&str, LaunchError> {
    path.to_str().ok_or_else(|| LaunchError::PathNotUtf8 {
        path: path.to_owned(),
    })
}
