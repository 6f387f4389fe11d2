//! Messages of people to the agent of an issue.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::MessageId;

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
