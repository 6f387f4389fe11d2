//! The reply to a model in place of a call that it may not make: one line of JSON, like the replies
//! of vex for its own tools.

use serde::Serialize;
use vik_core::approval::{Answer, TIME_LIMIT};
use vik_core::machine::Answered;
use vik_core::scope::Scope;
use vik_core::workflow::CallRule;

/// A refusal with enough detail for a model to continue.
#[derive(Serialize)]
pub(super) struct Refusal<'a> {
    code: &'static str,
    message: String,
    instead: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(rename = "said", skip_serializing_if = "Option::is_none")]
    reply: Option<&'a str>,
}

impl<'a> Refusal<'a> {
    /// Returns the refusal of a change out of scope.
    pub(super) fn scope(path: &'a str, scope: &Scope) -> Self {
        Self {
            code: "out_of_scope",
            message: format!("{path} is out of the scope of this task"),
            instead: "change only what is allowed; if the task cannot be done so, say what else would have to change",
            path: Some(path),
            allowed: scope.globs().map(|globs| globs.join(", ")).collect(),
            rule: None,
            reply: None,
        }
    }

    /// Returns the refusal for an answer other than an approval.
    pub(super) fn answer(answered: &'a Answered, rule: Option<&CallRule>) -> Self {
        let (code, message, instead) = match answered.answer {
            Answer::Instruct { .. } => (
                "instructed",
                "the person who was asked wants it done differently".to_owned(),
                "do what is said, and do not make this call again as it is",
            ),
            _ if answered.by == TIME_LIMIT => (
                "not_approved",
                "this call needs a person's approval, and nobody answered in time".to_owned(),
                "go on without it; if the task cannot be done so, say what is missing",
            ),
            _ => (
                "not_approved",
                "the person who was asked did not approve this call".to_owned(),
                "go on without it; if the task cannot be done so, say what is missing",
            ),
        };
        Self {
            code,
            message,
            instead,
            path: None,
            allowed: Vec::new(),
            rule: rule.map(CallRule::message),
            reply: answered.answer.message(),
        }
    }

    pub(super) fn to_json(&self) -> String {
        // Serialisation of strings and lists of strings cannot fail.
        serde_json::to_string(self).unwrap_or_else(|_| self.message.clone())
    }
}
