//! Messages of people to agents.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{AgentName, IssueId, StageName};
use vik_core::message::Message;

/// The texts of messages as far as a pattern describes them: one character is no white space.
pub(crate) const TEXT: &str =
    r"^[^\x00-\x08\x0B-\x1F\x7F-\x9F]*[^\s\x00-\x08\x0B-\x1F\x7F-\x9F][^\x00-\x08\x0B-\x1F\x7F-\x9F]*$";

/// `POST /api/v1/issues/{id}/messages`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendMessage {
    /// The text: at most 64 KiB, without control characters other than line ends and tabs.
    #[schemars(length(min = 1, max = 65_536), regex(pattern = TEXT))]
    pub text: String,
    /// Whether the agent stops its current step for it, instead of reading it after that step.
    #[serde(default)]
    pub interrupt: bool,
}

/// A message of a person that waits for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageView {
    /// A UUID of version 7; `DELETE` withdraws the message by it.
    pub id: String,
    /// The text as the person wrote it, with secrets masked.
    pub text: String,
    /// The person, and the way they used.
    pub by: String,
    /// When it was sent.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Whether the agent stops its current step for it.
    pub interrupt: bool,
    /// The attempt that has it and whose agent may read it; `null` if it waits for the next one.
    pub session_id: Option<String>,
    /// Whether it is in the prompt of that attempt, whose model has not answered yet.
    #[serde(default)]
    pub in_prompt: bool,
}

impl MessagesPage {
    /// Returns whether an agent may have read a message. The agent of the attempt that has it may be
    /// one that takes no messages.
    pub fn is_delivered(&self, message: &MessageView) -> bool {
        let waits =
            self.delivery.to == DeliveryTo::NextAttempt && self.delivery.session_id == message.session_id;
        message.in_prompt || (message.session_id.is_some() && !waits)
    }
}

impl From<Message> for MessageView {
    fn from(message: Message) -> Self {
        Self {
            id: message.id.to_string(),
            text: message.text,
            by: message.by,
            at: message.at,
            interrupt: message.interrupt,
            in_prompt: false,
            session_id: None,
        }
    }
}

/// Who gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryTo {
    /// The running agent.
    Agent,
    /// The agent of the next attempt, in its prompt.
    NextAttempt,
}

/// What happens to a message that is sent to an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// The running agent, or that of the next attempt.
    pub to: DeliveryTo,
    /// The running attempt, if there is one.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The stage of the running attempt.
    #[serde(default)]
    pub stage: Option<StageName>,
    /// The agent profile of the running attempt.
    #[serde(default)]
    pub agent: Option<AgentName>,
    /// Why the agent does not get it at once, as a text for people.
    #[serde(default)]
    pub because: Option<String>,
    /// What a person can do so that an attempt starts.
    #[serde(default)]
    pub hint: Option<String>,
}

/// The response to `POST /api/v1/issues/{id}/messages`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentMessage {
    /// The stored message.
    #[serde(flatten)]
    pub message: MessageView,
    /// What happens to it.
    pub delivery: Delivery,
}

/// `GET /api/v1/issues/{id}/messages`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessagesPage {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The issue as the tracker names it.
    pub issue_id: IssueId,
    /// The messages that wait for an agent, oldest first.
    pub messages: Vec<MessageView>,
    /// What happens to a message that is sent now.
    pub delivery: Delivery,
}
