//! `issue.stages.S.questions`: how long a question of an agent waits for a person.

use serde::{Deserialize, Serialize};

use crate::duration::Span;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionPolicy {
    /// After this time the default answer is given. Without one, the question waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The answer to questions that have no default of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}
