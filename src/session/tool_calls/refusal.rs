//! What a model is told in place of a call that it may not make: a line of JSON, as vex gives for its own tools.

use serde::Serialize;
use vik_core::approval::{Answer, TIME_LIMIT};
use vik_core::machine::Answered;
use vik_core::scope::Scope;
use vik_core::workflow::CallRule;

/// A no that a model can act on.
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
    /// What a person said with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<&'a str>,
}

impl<'a> Refusal<'a> {
    /// A change out of scope.
    pub(super) fn scope(path: &'a str, scope: &Scope) -> Self {
        Self {
            code: "out_of_scope",
            message: format!("{path} is out of the scope of this task"),
            instead: "change only what is allowed; if the task cannot be done so, say what else would have to change",
            path: Some(path),
            allowed: scope.globs().map(|globs| globs.join(", ")).collect(),
            rule: None,
            said: None,
        }
    }

    /// An answer that is not a yes.
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
            said: answered.answer.message(),
        }
    }

    pub(super) fn to_json(&self) -> String {
        // Texts and lists of texts are always JSON.
        serde_json::to_string(self).unwrap_or_else(|_| self.message.clone())
    }
}
