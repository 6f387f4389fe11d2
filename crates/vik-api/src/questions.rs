//! Questions of agents, and the answers of people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{IssueId, StageName};
use vik_core::question::PendingQuestion;

use crate::actions::whole;
use crate::messages::TEXT;

/// A question of an agent that waits for a person: `vik answer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionView {
    /// The run.
    pub run_id: String,
    /// The issue as the tracker names it.
    pub issue_id: IssueId,
    /// Its title.
    pub issue_title: String,
    /// The stage.
    pub stage: StageName,
    /// The question, as the agent wrote it, with secrets masked.
    #[serde(flatten)]
    pub question: PendingQuestion,
    /// Whether the agent suggests no answers: it needs a person.
    pub needs_person: bool,
}

/// `POST /api/v1/issues/{id}/answer`: exactly one of `text` and `choice`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["text"], "properties": {"text": {"type": "string"}}},
    {"required": ["choice"], "properties": {"choice": {"type": "integer"}}}
]))]
pub struct AnswerQuestion {
    /// The stage; if absent, the only one with an open question.
    #[serde(default)]
    pub stage: Option<StageName>,
    /// The `id` of the question that the person has seen; if absent, the open one.
    #[serde(default)]
    pub question: Option<String>,
    /// The answer: at most 64 KiB, without control characters other than line ends and tabs.
    #[serde(default)]
    #[schemars(length(min = 1, max = 65_536), regex(pattern = TEXT))]
    pub text: Option<String>,
    /// The number of one of the choices, from 1.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub choice: Option<u32>,
}
