//! The lines of a log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ForkPoint, SessionId};
use crate::agent::compaction::Compaction;
use crate::conversation::{Arguments, Block, Message};
use crate::redact::{redact, redact_json};
use crate::tools::plan::Step;

/// The format of the lines. It only grows: an older line always means the same.
pub(super) const FORMAT: u32 = 1;

/// One thing that happened to a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// It began; always the first line.
    Session(Box<Head>),
    /// Another process goes on with it.
    Resumed {
        /// The version of vex.
        version: String,
        /// The model.
        model: String,
        /// The provider.
        provider: String,
    },
    /// What a person or a program asks for. It is never left out of a request.
    Prompt {
        /// The words.
        text: String,
    },
    /// Where the work takes place. The last one is never left out of a request.
    Environment {
        /// The words.
        text: String,
    },
    /// An answer, a result, or what vex itself says to the model.
    Message {
        /// The message.
        message: Message,
    },
    /// The plan is another one.
    Plan {
        /// All its steps.
        steps: Vec<Step>,
    },
    /// Requests hold less of the conversation from now on.
    Compaction(Box<Compaction>),
    /// The process ended in order.
    End {
        /// How: the `reason` of the `end` event.
        reason: String,
    },
    /// A line of a later version that changes nothing here.
    #[serde(other)]
    Unknown,
}

/// What a conversation begins with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Its id.
    pub id: SessionId,
    /// The format of the lines.
    pub format: u32,
    /// The version of vex.
    pub version: String,
    /// The workspace, without links.
    pub cwd: String,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// The system prompt: its bytes stay the same as long as the conversation goes on.
    pub system: String,
    /// The conversation that it branched off from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkPoint>,
}

impl Head {
    /// The head of a new conversation.
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
    /// Whether it must be on the disk before anything follows from it.
    pub(super) fn is_durable(&self) -> bool {
        match self {
            Self::Message { message } => !matches!(message, Message::User { .. }),
            Self::Session(_) | Self::Prompt { .. } | Self::Compaction(_) => true,
            _ => false,
        }
    }

    /// The entry without secrets: what is written.
    pub(super) fn redacted(mut self) -> Self {
        match &mut self {
            Self::Session(head) => clean(&mut head.system),
            Self::Prompt { text } | Self::Environment { text } => clean(text),
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
                // It no longer vouches for these words.
                *signature = None;
            }
        }
        Block::ToolCall(call) => match &mut call.input {
            Arguments::Json(input) => *input = redact_json(input).into_owned(),
            Arguments::Broken { raw, .. } => clean(raw),
        },
        // Only its provider can read it, and only as it came.
        Block::Native { .. } => {}
    }
}
