//! The lines of a log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ForkPoint, SessionId};
use crate::agent::compaction::Compaction;
use crate::conversation::{Arguments, Block, Message};
use crate::plan::Step;
use crate::redact::{redact, redact_json};

/// The version of the format. An older line never changes its meaning.
pub(super) const FORMAT: u32 = 1;

/// One event of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// The start; always the first line.
    Session(Box<Head>),
    /// Another process resumes it.
    Resumed {
        version: String,
        model: String,
        provider: String,
    },
    /// A prompt of a person or a program. It is never left out of a request.
    Prompt {
        text: String,
    },
    /// The description of the workspace. The last one is never left out of a request.
    Environment {
        text: String,
    },
    /// An answer, a result, or a message of vex to the model.
    Message {
        message: Message,
    },
    Plan {
        steps: Vec<Step>,
    },
    /// Requests contain less of the conversation from now on.
    Compaction(Box<Compaction>),
    /// The next request contains only the prompts, the environment and this note, not what was
    /// tried before.
    FreshStart {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        note: String,
    },
    /// The process ended in order.
    End {
        /// The `reason` of the `end` event.
        reason: String,
    },
    /// A line of a later version without an effect here.
    #[serde(other)]
    Unknown,
}

/// The first line of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    pub id: SessionId,
    /// The version of the format.
    pub format: u32,
    pub version: String,
    /// The workspace, without links.
    pub cwd: String,
    pub model: String,
    pub provider: String,
    /// The system prompt, which stays the same for the whole conversation.
    pub system: String,
    /// The conversation from which it was forked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkPoint>,
}

impl Head {
    /// Creates the head of a new conversation.
    pub fn new(cwd: String, model: String, provider: String, system: String) -> Self {
        Self {
            id: SessionId::fresh(),
            format: FORMAT,
            version: crate::VERSION.to_owned(),
            cwd,
            model,
            provider,
            system,
            forked_from: None,
        }
    }
}

/// An entry with its number and its time.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LogLine {
    pub(super) seq: u64,
    pub(super) at: Timestamp,
    #[serde(flatten)]
    pub(super) entry: Entry,
}

impl Entry {
    /// Returns whether the entry must be on the disk before anything that depends on it happens.
    pub(super) fn is_durable(&self) -> bool {
        match self {
            Self::Message { message } => !matches!(message, Message::User { .. }),
            Self::Session(_) | Self::Prompt { .. } | Self::Compaction(_) | Self::FreshStart { .. } => true,
            _ => false,
        }
    }

    /// Returns the entry without secrets, as it is written.
    pub(super) fn redacted(mut self) -> Self {
        match &mut self {
            Self::Session(head) => clean(&mut head.system),
            Self::Prompt { text } | Self::Environment { text } | Self::FreshStart { note: text } => {
                clean(text);
            }
            Self::Message { message } => redact_message(message),
            Self::Plan { steps } => steps.iter_mut().for_each(|step| clean(&mut step.text)),
            Self::Compaction(compaction) => compaction.texts().for_each(clean),
            Self::Resumed { .. } | Self::End { .. } | Self::Unknown => {}
        }
        self
    }
}

fn clean(text: &mut String) {
    if let std::borrow::Cow::Owned(redacted) = redact(text) {
        *text = redacted;
    }
}

fn redact_message(message: &mut Message) {
    match message {
        Message::User { text } => clean(text),
        Message::Tool(result) => clean(&mut result.output),
        Message::Assistant(turn) => turn.blocks.iter_mut().for_each(redact_block),
    }
}

fn redact_block(block: &mut Block) {
    match block {
        Block::Text { text } => clean(text),
        Block::Thinking { text, signature } => {
            if let std::borrow::Cow::Owned(redacted) = redact(text) {
                *text = redacted;
                // The signature is not valid for the changed text.
                *signature = None;
            }
        }
        Block::ToolCall(call) => match &mut call.input {
            Arguments::Json(input) => *input = redact_json(input).into_owned(),
            Arguments::Broken { raw, .. } => clean(raw),
        },
        // Only its provider can read it, and only unchanged.
        Block::Native { .. } => {}
    }
}
