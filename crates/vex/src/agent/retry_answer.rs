//! Final answers that claim work which did not happen, and their retries.

use std::ops::ControlFlow;

use tool_call_repair::{Leftover, find_leftover, leftover_name};

use super::{Agent, Ending};
use crate::conversation::{Message, ToolResult};
use crate::events::ExitReason;
use crate::provider::protocol::ToolCalls;

/// How often in a row such an answer is retried.
const MAX_RETRIES: u32 = 3;
/// How much of a failed call's result is repeated, in bytes.
const MAX_FAILURE: usize = 500;

/// Why an answer without calls cannot end the run.
#[derive(Debug, thiserror::Error)]
pub(super) enum IncompleteAnswer {
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
    /// Returns why an answer cannot end the run.
    pub(super) fn incomplete_answer(&self, text: &str) -> Option<IncompleteAnswer> {
        let names = self.run.tools.definitions().iter().map(|tool| tool.name.as_ref());
        match find_leftover(text, names) {
            Some(Leftover::Call) => Some(match leftover_name(text) {
                Some(name) if self.run.tools.definition(name).is_none() => {
                    IncompleteAnswer::NoTool(name.to_owned())
                }
                _ => IncompleteAnswer::Unreadable,
            }),
            Some(Leftover::Result) if !self.repeats_a_result(text) => Some(IncompleteAnswer::MadeUp),
            _ if self.called => None,
            _ if self.retry_budget.retries > 0 || self.retry_budget.asked_for_review => {
                Some(IncompleteAnswer::NoCall)
            }
            _ if self.planned => Some(IncompleteAnswer::OnlyPlan),
            _ => None,
        }
    }

    /// Returns whether the text quotes, in tags, the real result of the last call.
    fn repeats_a_result(&self, text: &str) -> bool {
        let quoted: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with('<'))
            .collect();
        let quoted = quoted.join("\n");
        let quoted = quoted.trim();
        !quoted.is_empty()
            && self
                .last_result()
                .is_some_and(|result| result.output.contains(quoted))
    }

    pub(super) fn retry_answer(&mut self, incomplete: &IncompleteAnswer) -> ControlFlow<Ending> {
        let why = incomplete.to_string();
        self.retry_budget.retries += 1;
        if self.retry_budget.retries > MAX_RETRIES {
            let message = format!("{why}, repeatedly");
            return ControlFlow::Break(Ending::failed(ExitReason::NoProgress, message));
        }
        self.run.journal.guard("no_call", &why);
        let failed = self.last_failure();
        let next = match incomplete {
            IncompleteAnswer::NoTool(_) => format!(
                "A function of the code is no tool. There are {}: go on with a call of one of these.",
                self.names()
            ),
            _ => self.one_call(),
        };
        self.send_to_model(&format!("Nothing was done by that: {why}.{failed} {next}"))
    }

    /// Returns the result of the last call if it failed, to remind a model that lost track.
    fn last_failure(&self) -> String {
        match self.last_result() {
            Some(result) if result.is_error => {
                let output = result.output.trim();
                format!(
                    " The last call failed: {}.",
                    &output[..output.floor_char_boundary(MAX_FAILURE)]
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

    /// Returns the request for one call. It contains the form of a call and no text of the task,
    /// which makes a model act that only talks.
    pub(super) fn one_call(&self) -> String {
        let form = match self.run.provider.model().tool_calls {
            ToolCalls::Blocks | ToolCalls::Files => {
                return "Answer with files in fences, each below its path, or with a command in a fence marked sh.".to_owned();
            }
            ToolCalls::Native => "<tool_call>\n{\"name\": \"…\", \"arguments\": {…}}\n</tool_call>",
            ToolCalls::Text => "{\"name\": \"…\", \"arguments\": {…}}",
        };
        format!(
            "Answer with one call and nothing else:\n\n{form}\n\nThe tools: {}.",
            self.names()
        )
    }

    fn names(&self) -> String {
        let names = self.run.tools.definitions().iter().map(|tool| tool.name.as_ref());
        names.collect::<Vec<_>>().join(", ")
    }
}
