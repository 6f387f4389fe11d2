//! Messages of people to the agent of an issue.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, IssueId, MessageId};

/// The maximum number of messages of an issue that wait for its agent.
pub const MAX_WAITING: usize = 64;

/// The maximum length of a message, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;

/// A message of a person to the agent of an issue.
///
/// Only people send messages, so their text is trusted. It never comes from a tracker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    #[schemars(with = "String")]
    pub id: MessageId,
    pub text: String,
    /// The person and the way they used, as in `a person (vik message, user 1000)`.
    pub by: String,
    /// When the person sent it.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Whether the agent stops its current step for it, instead of reading it after that step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupt: bool,
}

/// A message that no agent has taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMessage {
    #[serde(flatten)]
    pub message: Message,
    /// The active attempt that has it: delivered to its agent, or as a part of its prompt. No other
    /// attempt gets the message before this one has ended.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "session")]
    pub attempt: Option<AttemptId>,
}

/// A message that a person sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    pub issue: IssueId,
    pub text: String,
    /// Whether the agent stops its current step for it.
    pub interrupt: bool,
}

/// A request to withdraw a message that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    pub issue: IssueId,
    pub message: MessageId,
    /// Whether the attempt that had it has not read it and does not read it any more.
    pub is_unread: bool,
}

/// The reason why a message was not sent or withdrawn. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageRefusal {
    /// The text is empty, or only white space.
    Empty,
    /// The text has this many bytes, more than [`MAX_BYTES`].
    TooLong(usize),
    /// The text contains a control character other than a line end and a tab.
    ControlCharacter(char),
    /// [`MAX_WAITING`] messages of the issue wait already.
    TooMany,
    /// The issue is in this terminal state, and no agent runs.
    Finished(Box<str>),
    /// No such message waits: an agent has taken it, or it was withdrawn.
    NotWaiting,
    /// The agent may have read the message already.
    MayBeRead,
}

impl MessageRefusal {
    /// Returns a command or an action that helps, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Empty | Self::MayBeRead => None,
            Self::TooLong(_) => Some("write the text to a file in the workspace, and name the file"),
            Self::ControlCharacter(_) => Some("send plain text; line ends and tabs are allowed"),
            Self::TooMany => Some("withdraw one with `vik message ISSUE --withdraw ID`"),
            Self::Finished(_) => Some(
                "`vik retry` does not reopen it: move the issue back to the state of a stage in the tracker first",
            ),
            Self::NotWaiting => Some("`vik message ISSUE --list` lists the messages that wait"),
        }
    }
}

impl fmt::Display for MessageRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe("message", f)
    }
}

impl MessageRefusal {
    /// Writes the reason as a sentence about the `text`: a message or an answer.
    pub(crate) fn describe(&self, text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the {text} is empty"),
            Self::TooLong(bytes) => {
                write!(f, "the {text} has {bytes} bytes; at most {MAX_BYTES} are allowed")
            }
            Self::ControlCharacter(c) => {
                let code = u32::from(*c);
                write!(f, "the {text} contains the control character U+{code:04X}")
            }
            Self::TooMany => write!(f, "{MAX_WAITING} messages of the issue wait already"),
            Self::Finished(state) => write!(f, "the issue is in the terminal state `{state}`"),
            Self::NotWaiting => f.write_str("no such message waits; an agent may have taken it"),
            Self::MayBeRead => f.write_str("the agent may have read the message already"),
        }
    }
}

/// Checks the text of a message.
///
/// # Errors
/// If it is empty, too long, or contains control characters other than line ends and tabs.
///
/// # Examples
///
/// ```
/// use vik_core::message::{MessageRefusal, check_text};
///
/// assert_eq!(check_text("Use the other table.\n"), Ok(()));
/// assert_eq!(check_text(" \n"), Err(MessageRefusal::Empty));
/// assert_eq!(check_text("\u{1b}[2J"), Err(MessageRefusal::ControlCharacter('\u{1b}')));
/// ```
pub fn check_text(text: &str) -> Result<(), MessageRefusal> {
    if text.len() > MAX_BYTES {
        return Err(MessageRefusal::TooLong(text.len()));
    }
    if text.trim().is_empty() {
        return Err(MessageRefusal::Empty);
    }
    let is_control = |c: &char| c.is_control() && !matches!(c, '\n' | '\t');
    match text.chars().find(is_control) {
        Some(c) => Err(MessageRefusal::ControlCharacter(c)),
        None => Ok(()),
    }
}

/// Checks an optional text, which is as good as none if it is empty.
///
/// # Errors
/// If it is too long, or contains control characters other than line ends and tabs.
pub fn check_optional_text(text: Option<String>) -> Result<Option<String>, MessageRefusal> {
    match text.as_deref().map(check_text) {
        None | Some(Err(MessageRefusal::Empty)) => Ok(None),
        Some(Ok(())) => Ok(text),
        Some(Err(refusal)) => Err(refusal),
    }
}
