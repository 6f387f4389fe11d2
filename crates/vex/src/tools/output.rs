//! The result of a tool, and why a tool failed.

use std::fmt;

use serde::Serialize;

use super::root::RootError;

/// The result of a tool, before it becomes a [`crate::conversation::ToolResult`].
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    pub(crate) exit_code: Option<i32>,
    pub(crate) changes: Vec<String>,
    pub(crate) command: Option<String>,
    /// The maximum size of the text in the conversation, if it differs from that of most tools.
    pub(crate) max_bytes: Option<usize>,
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }
}

/// The success of a tool that writes: it requires at least one change.
#[derive(Debug)]
pub(crate) struct WriteOutcome {
    text: String,
    first: String,
    others: Vec<String>,
}

impl WriteOutcome {
    /// Creates an outcome with one change.
    pub(crate) fn one(text: impl Into<String>, change: String) -> Self {
        Self {
            text: text.into(),
            first: change,
            others: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, changes: impl IntoIterator<Item = String>) -> Self {
        self.others.extend(changes);
        self
    }
}

impl From<WriteOutcome> for Output {
    fn from(wrote: WriteOutcome) -> Self {
        Self {
            text: wrote.text,
            changes: std::iter::once(wrote.first).chain(wrote.others).collect(),
            ..Self::default()
        }
    }
}

/// The outcome of a program.
#[derive(Debug)]
pub(crate) struct RunOutcome {
    /// What it printed, and how it was stopped.
    pub(crate) text: String,
    /// The command as a person would type it.
    pub(crate) command: String,
    /// 128 + n if a signal ended it; absent if it was stopped or is still running.
    pub(crate) exit_code: Option<i32>,
    pub(crate) is_error: bool,
}

impl From<RunOutcome> for Output {
    fn from(ran: RunOutcome) -> Self {
        Self {
            text: ran.text,
            is_error: ran.is_error,
            exit_code: ran.exit_code,
            command: Some(ran.command),
            ..Self::default()
        }
    }
}

/// Why a tool failed; the text is for the model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// The arguments or the state of the files do not fit.
    #[error("{0}")]
    Failed(String),
    /// The permission, a rule or a hook denied it.
    #[error("{0}")]
    Denied(Refusal),
    /// The controlling program denied it, with this message.
    #[error("{0}")]
    Refused(String),
}

/// A denial that the model can act on; shown as one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Refusal {
    /// The kind of denial, for programs.
    pub(crate) code: String,
    pub(crate) message: String,
    /// What may be done instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) instead: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// What is allowed: each entry is a list of globs, and a path must match all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) allowed: Vec<String>,
}

impl Refusal {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            instead: None,
            path: None,
            allowed: Vec::new(),
        }
    }

    pub(crate) fn instead(mut self, instead: impl Into<String>) -> Self {
        self.instead = Some(instead.into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> Self {
        Self::Denied(refusal)
    }
}

impl From<RootError> for ToolError {
    fn from(error: RootError) -> Self {
        let message = error.to_string();
        match error {
            RootError::Outside { .. } => Refusal::new("outside_workspace", message)
                .instead("use a path inside of the workspace")
                .into(),
            RootError::OutOfScope { path, allowed } => Refusal {
                path: Some(path.display().to_string()),
                allowed,
                ..Refusal::new("out_of_scope", message).instead(
                    "change only what is allowed; if the task cannot be done so, say what else would have to change",
                )
            }
            .into(),
            RootError::Git { .. } => Refusal::new("git_internals", message)
                .instead("use git commands")
                .into(),
            RootError::Io { source, .. } => Self::Failed(format!("{message}: {source}")),
            RootError::NotAFile { .. } => Self::Failed(message),
        }
    }
}
