//! Answers that are no end, whatever they say: what they tell of did not happen.

use std::ops::ControlFlow;

use super::compaction::floor;
use super::{Agent, Ending};
use crate::conversation::{Message, ToolResult};
use crate::events::ExitReason;
use crate::provider::protocol::ToolCalls;
use crate::repair::{Leftover, called, leftover};

/// How often in a row such an answer goes back.
const MAX_SENT_BACK: u32 = 3;
/// How much of a failed call's result is said again, in bytes.
const MAX_FAILURE: usize = 500;

/// Why an answer without calls is no end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Undone {
    #[error("the model wrote a tool call that cannot be read")]
    Unreadable,
    #[error("there is no tool {0:?}")]
    NoTool(String),
    #[error("the model made up the result of a tool")]
    MadeUp,
    #[error("the model called no tool")]
    NoCall,
    #[error("the model wrote a plan and called no other tool")]
    OnlyPlan,
}

impl Agent<'_> {
    /// Why an answer is no end, whatever it says: what it tells of did not happen.
    pub(super) fn undone(&self, text: &str) -> Option<Undone> {
        let names = self.run.tools.definitions().iter().map(|tool| tool.name);
        match leftover(text, names) {
            Some(Leftover::Call) => Some(match called(text) {
                Some(name) if self.run.tools.definition(name).is_none() => Undone::NoTool(name.to_owned()),
                _ => Undone::Unreadable,
            }),
            Some(Leftover::Result) if !self.repeats_a_result(text) => Some(Undone::MadeUp),
            _ if self.called => None,
            _ if self.patience.sent_back > 0 || self.patience.looked => Some(Undone::NoCall),
            _ if self.planned => Some(Undone::OnlyPlan),
            _ => None,
        }
    }

    /// Whether it says, in tags, what the last call really gave.
    fn repeats_a_result(&self, text: &str) -> bool {
        let told: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with('<'))
            .collect();
        let told = told.join("\n");
        let told = told.trim();
        !told.is_empty()
            && self
                .last_result()
                .is_some_and(|result| result.output.contains(told))
    }

    pub(super) fn send_back(&mut self, undone: &Undone) -> ControlFlow<Ending> {
        let why = undone.to_string();
        self.patience.sent_back += 1;
        if self.patience.sent_back > MAX_SENT_BACK {
            let message = format!("{why}, again and again");
            return ControlFlow::Break(Ending::failed(ExitReason::NoProgress, message));
        }
        self.run.journal.guard("no_call", &why);
        let failed = self.last_failure();
        let next = match undone {
            Undone::NoTool(_) => format!(
                "A function of the code is no tool. There are {}: go on with a call of one of these.",
                self.names()
            ),
            _ => self.one_call(),
        };
        self.say(&format!("Nothing was done by that: {why}.{failed} {next}"))
    }

    /// What the last call gave, where it failed: a model that lost its way is told of it again.
    fn last_failure(&self) -> String {
        match self.last_result() {
            Some(result) if result.is_error => {
                let output = result.output.trim();
                format!(
                    " The last call failed: {}.",
                    &output[..floor(output, MAX_FAILURE)]
                )
            }
            _ => String::new(),
        }
    }

    fn last_result(&self) -> Option<&ToolResult> {
        let messages = self.run.session.history().messages().iter().rev();
        let mut results = messages.filter_map(|message| match message {
            Message::Tool(result) => Some(result),
            _ => None,
        });
        results.next()
    }

    /// What makes a model act that only talks: no word of the task, and the form of a call.
    pub(super) fn one_call(&self) -> String {
        let form = match self.run.provider.model().tool_calls {
            ToolCalls::Native => "<tool_call>\n{\"name\": \"…\", \"arguments\": {…}}\n</tool_call>",
            ToolCalls::Text => "{\"name\": \"…\", \"arguments\": {…}}",
        };
        format!(
            "Answer with one call and nothing else:\n\n{form}\n\nThe tools: {}.",
            self.names()
        )
    }

    fn names(&self) -> String {
        let names = self.run.tools.definitions().iter().map(|tool| tool.name);
        names.collect::<Vec<_>>().join(", ")
    }
}
