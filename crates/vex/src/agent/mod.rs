//! The loop: ask the model, run the tools it asks for, until it is done or something ends it.

pub mod doom;

use crate::conversation::Message;
use crate::interrupt::Interrupt;
use crate::journal::{ExitReason, Journal};
use crate::provider::{Provider, ProviderError, Request};
use crate::tools::Toolbox;

/// How a run ended, and why where it did not end well.
#[derive(Debug, PartialEq, Eq)]
pub struct Ending {
    /// How.
    pub reason: ExitReason,
    /// Why, for people.
    pub message: Option<String>,
    /// Vik's failure class, where it is sure.
    pub class: Option<String>,
}

impl Ending {
    /// An end that is not a good one.
    pub fn failed(reason: ExitReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: Some(message.into()),
            class: None,
        }
    }

    fn done() -> Self {
        Self {
            reason: ExitReason::Done,
            message: None,
            class: None,
        }
    }
}

/// Runs the loop on a prompt. At most `max_turns` answers of the model are taken.
pub fn run(
    prompt: String,
    provider: &mut dyn Provider,
    tools: &Toolbox,
    max_turns: u32,
    journal: &Journal,
    interrupt: &Interrupt,
) -> Ending {
    let interrupted = || Ending::failed(ExitReason::Interrupted, "interrupted by a signal");
    let mut messages = vec![Message::User { text: prompt }];
    let mut denied = None;
    let mut called = false;
    for _ in 0..max_turns {
        if interrupt.is_set() {
            return interrupted();
        }
        if journal.is_closed() {
            return Ending::failed(ExitReason::Failed, "nobody reads the output any more");
        }
        let request = Request {
            system: "",
            messages: &messages,
            tools: tools.definitions(),
            output_schema: None,
        };
        let turn = match provider.turn(request, &mut |_| (), interrupt) {
            Ok(turn) => turn,
            Err(ProviderError::Interrupted) => return interrupted(),
            Err(error) => return provider_failed(error, denied),
        };
        journal.add_usage(turn.usage, turn.cost_usd);
        let thought = turn.thinking();
        if !thought.trim().is_empty() {
            journal.reasoning(&thought);
        }
        let said = Some(turn.text()).filter(|text| !text.trim().is_empty());
        if let Some(text) = &said {
            journal.message(text);
        }
        if turn.tool_calls().next().is_none() {
            return match (denied, said) {
                // It gave up where it was refused: whatever it says, what it needed did not happen.
                (Some(denial), _) => Ending::failed(ExitReason::Denied, denial),
                (None, Some(_)) => Ending::done(),
                (None, None) if called => Ending::failed(
                    ExitReason::NoProgress,
                    "the model stopped without a final message",
                ),
                (None, None) => Ending::failed(ExitReason::NoProgress, "the model did and said nothing"),
            };
        }
        called = true;
        denied = None;
        let calls: Vec<_> = turn.tool_calls().cloned().collect();
        messages.push(Message::Assistant(turn));
        // Each call gets its result, also when a signal came between them.
        for result in tools.call_all(&calls, journal, interrupt, &mut |_| ()) {
            if result.denied {
                denied = Some(result.output.clone());
            }
            messages.push(Message::Tool(result));
        }
    }
    if interrupt.is_set() {
        return interrupted();
    }
    Ending::failed(
        ExitReason::Limit,
        format!("the limit of {max_turns} turns is reached"),
    )
}

fn provider_failed(error: ProviderError, denied: Option<String>) -> Ending {
    let message = error.to_string();
    match error {
        ProviderError::Config(_) => Ending::failed(ExitReason::Config, message),
        ProviderError::Diverged(_) => match denied {
            Some(denial) => Ending::failed(ExitReason::Denied, denial),
            None => Ending::failed(ExitReason::Failed, message),
        },
        ProviderError::Reported { class, .. } => {
            let refused = matches!(class.as_deref(), Some("auth" | "model"));
            let reason = if refused {
                ExitReason::Refused
            } else {
                ExitReason::Failed
            };
            Ending {
                reason,
                message: Some(message),
                class,
            }
        }
        ProviderError::Overflow(_) => Ending {
            reason: ExitReason::Failed,
            message: Some(message),
            class: Some("context".to_owned()),
        },
        ProviderError::Interrupted => Ending::failed(ExitReason::Interrupted, message),
    }
}
