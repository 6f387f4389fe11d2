//! Plays a recorded model: the answers are recorded, the tools are real.
//!
//! The first conversation whose `when` matches is played. Before each turn, the results of the
//! previous calls are compared with `expect`: if a recording no longer matches the real results, the
//! run fails.

mod recording;

use std::time::Duration;

use self::recording::{RecordedConversation, RecordedStep};
use crate::conversation::{Arguments, Block, Message, StopReason, ToolCall, Turn};
use crate::interrupt::Interrupt;
use crate::provider::{ModelInfo, Progress, Provider, ProviderError, Request};

pub use self::recording::{Expect, RecordedCall, RecordedTurn, Recording, RecordingError};

/// Plays one conversation of a recording.
pub struct Replay {
    recording: Recording,
    playing: Option<std::vec::IntoIter<RecordedStep>>,
    name: String,
    calls: Vec<(ToolCall, Expect)>,
    turn: usize,
    model: ModelInfo,
}

impl Replay {
    /// Creates a provider that answers from this recording.
    pub fn new(recording: Recording, model: &str) -> Self {
        Self {
            recording,
            playing: None,
            name: String::new(),
            calls: Vec::new(),
            turn: 0,
            model: ModelInfo {
                model: model.to_owned(),
                priced: true,
                ..ModelInfo::default()
            },
        }
    }

    fn choose(&mut self, prompt: &str) -> Result<std::vec::IntoIter<RecordedStep>, ProviderError> {
        let fits = |c: &&mut RecordedConversation| c.when.iter().all(|text| prompt.contains(text.as_str()));
        match self.recording.conversations.iter_mut().find(fits) {
            Some(conversation) => {
                self.name = std::mem::take(&mut conversation.name);
                Ok(std::mem::take(&mut conversation.steps).into_iter())
            }
            None => Err(ProviderError::Config(format!(
                "no conversation of {} matches this prompt; it has: {}",
                self.recording.path.display(),
                self.recording
                    .conversations
                    .iter()
                    .map(|c| format!("{} (when the prompt contains {})", c.name, quoted(&c.when)))
                    .collect::<Vec<_>>()
                    .join(", ")
            ))),
        }
    }

    /// Compares the results since the last turn with the expected ones.
    fn check(&mut self, messages: &[Message]) -> Result<(), ProviderError> {
        for (call, expect) in self.calls.drain(..) {
            let result = messages.iter().rev().find_map(|message| match message {
                Message::Tool(result) if result.call_id == call.call_id => Some(result),
                _ => None,
            });
            let reason = match result {
                Some(result) => expect
                    .check(result)
                    .map_err(|reason| (reason, result.output.as_str())),
                None => Err(("it has no result".to_owned(), "")),
            };
            if let Err((reason, output)) = reason {
                let output_tail = tail(output, 400);
                return Err(ProviderError::Diverged(format!(
                    "turn {} of {:?} called {} {}: {reason}{}{output_tail}",
                    self.turn,
                    self.name,
                    call.tool,
                    call.input.json().unwrap_or_default(),
                    if output_tail.is_empty() {
                        ""
                    } else {
                        "; its output: "
                    },
                )));
            }
        }
        Ok(())
    }
}

impl Provider for Replay {
    fn turn(
        &mut self,
        request: Request<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
        interrupt: &Interrupt,
    ) -> Result<Turn, ProviderError> {
        if self.playing.is_none() {
            let prompt = request.messages.iter().find_map(|message| match message {
                Message::User { text } => Some(text.as_str()),
                _ => None,
            });
            let mut steps = self.choose(prompt.unwrap_or_default())?;
            // Answers to another process are skipped; that process checked their results.
            if self.turn > 0 {
                steps.nth(self.turn - 1);
            }
            self.playing = Some(steps);
        }
        self.check(request.messages)?;
        self.turn += 1;
        let turn = match self.playing.as_mut().and_then(Iterator::next) {
            Some(RecordedStep::Turn(turn)) => turn,
            Some(RecordedStep::Error { message, class }) => {
                return Err(ProviderError::Reported {
                    message,
                    class,
                    http_status: None,
                    retry_after_ms: None,
                });
            }
            None => {
                return Err(ProviderError::Diverged(format!(
                    "{:?} has only {} turns, and the last one called tools",
                    self.name,
                    self.turn - 1
                )));
            }
        };
        if turn.delay_ms > 0 && !interrupt.sleep(Duration::from_millis(turn.delay_ms)) {
            return Err(ProviderError::Interrupted);
        }
        let number = self.turn;
        self.calls = turn
            .tool_calls
            .into_iter()
            .enumerate()
            .map(|(index, call)| {
                let call_id = format!("call_{number}_{}", index + 1);
                (
                    ToolCall {
                        call_id,
                        tool: call.tool,
                        input: Arguments::Json(call.input),
                        repaired: false,
                    },
                    call.expect,
                )
            })
            .collect();
        let mut blocks = Vec::new();
        if let Some(text) = turn.reasoning {
            progress(Progress::Thinking {
                block: blocks.len(),
                text: &text,
            });
            blocks.push(Block::Thinking {
                text,
                signature: None,
            });
        }
        if let Some(text) = turn.text {
            progress(Progress::Text {
                block: blocks.len(),
                text: &text,
            });
            blocks.push(Block::Text { text });
        }
        let stop = if self.calls.is_empty() {
            StopReason::End
        } else {
            StopReason::ToolUse
        };
        blocks.extend(self.calls.iter().map(|(call, _)| Block::ToolCall(call.clone())));
        Ok(Turn {
            blocks,
            stop,
            usage: turn.usage,
            counted: true,
            cost_usd: turn.cost_usd,
        })
    }

    fn resume(&mut self, answers: u32) {
        self.turn = answers as usize;
    }

    fn model(&self) -> &ModelInfo {
        &self.model
    }
}

fn quoted(texts: &[String]) -> String {
    match texts {
        [] => "anything".to_owned(),
        _ => texts
            .iter()
            .map(|text| format!("{text:?}"))
            .collect::<Vec<_>>()
            .join(" and "),
    }
}

/// Returns the end of a text, at most `max` bytes.
fn tail(text: &str, max: usize) -> &str {
    let text = text.trim_end();
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}

#[cfg(test)]
mod tests;
