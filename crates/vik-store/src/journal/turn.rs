//! The turns of a conversation in the process of one attempt.

use serde::{Deserialize, Serialize};
use vik_core::ids::MessageId;
use vik_core::message::Message;
use vik_core::turn::GrantedTurn;

use super::AttemptFailure;

/// The check of a turn that has ended: what `verify` found while the agent waits for input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedTurn {
    /// The number of the turn.
    pub turn: u32,
    /// The failure of `verify`; `None` if it passed, or if the stage has none.
    pub trouble: Option<AttemptFailure>,
    /// The fingerprint of the workspace after the check; `None` if it is unknown.
    pub workspace: Option<u64>,
}

/// The prompt of another turn of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedTurn {
    /// The id with which the agent confirms the prompt.
    pub id: MessageId,
    #[serde(flatten)]
    pub granted: GrantedTurn,
    pub prompt: String,
    /// The lines for the input of the agent.
    pub lines: Vec<String>,
}

/// What the agent gets after its first prompt.
#[derive(Clone, Copy, Debug)]
pub enum NotedInput<'a> {
    /// A message of a person, with its lines.
    Message(&'a Message, &'a [String]),
    Turn(&'a NotedTurn),
}

impl NotedInput<'_> {
    /// Returns the id with which the agent confirms it.
    pub fn id(&self) -> MessageId {
        match self {
            Self::Message(message, _) => message.id,
            Self::Turn(turn) => turn.id,
        }
    }
}
