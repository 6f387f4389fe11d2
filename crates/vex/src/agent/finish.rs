//! Whether an answer without calls is the end.

use std::ops::ControlFlow;

use super::output::OutputSchema;
use super::verify::Verify;
use super::{Agent, Ending};
use crate::conversation::{Message, StopReason};
use crate::events::ExitReason;
use crate::repair::{Leftover, leftover};

/// The shortest final answer of a run that changed nothing, in characters.
const THIN: usize = 20;
/// How often an answer may be cut off in a row.
const MAX_CUT: u32 = 2;
/// How often an answer goes back that was meant as a call, or made up a result.
const MAX_UNREAD: u32 = 3;
/// How often an answer of the wrong form goes back.
const MAX_MISFITS: u32 = 2;

/// How often the model was sent back to work, and what happens if that does not help.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// How the run would have ended, had the model not been asked once more.
    nudged: Option<Ending>,
    cut: u32,
    unread: u32,
    misfits: u32,
    failed_checks: u32,
}

impl Patience {
    /// The end that a last request was to turn away.
    pub(super) fn given_up(&mut self) -> Option<Ending> {
        self.nudged.take()
    }
}

impl Agent<'_> {
    /// What follows from an answer without calls: `text` is all that it said.
    pub(super) fn finish(&mut self, stop: StopReason, text: &str) -> ControlFlow<Ending> {
        match stop {
            StopReason::Refusal => {
                let message = format!(
                    "the model refused: {}",
                    if text.is_empty() {
                        "it does not say why"
                    } else {
                        text
                    }
                );
                return ControlFlow::Break(Ending::failed(ExitReason::Failed, message));
            }
            StopReason::Pause => return ControlFlow::Continue(()),
            StopReason::MaxTokens => return self.cut(),
            StopReason::End | StopReason::ToolUse => self.patience.cut = 0,
        }
        // It gave up where it was refused: whatever it says, what it needed did not happen.
        if let Some(denial) = self.denied.take() {
            return ControlFlow::Break(Ending::failed(ExitReason::Denied, denial));
        }
        if text.is_empty() {
            let why = if self.run.session.history().answers() > 0 {
                "the model stopped without a final message"
            } else {
                "the model did and said nothing"
            };
            return self.nudge(
                why,
                "Your answer was empty. If the work is done, say what you did and how you checked it; \
                 else go on with a tool call.",
            );
        }
        if let Some(leftover) = self.leftover(text) {
            return self.unread(leftover);
        }
        let result = match &self.run.settings.output {
            Some(schema) => match schema.check(text) {
                Ok(result) => Some(result),
                Err(wrong) => return self.misfit(&wrong),
            },
            None => None,
        };
        if result.is_none() && !self.acted() && text.chars().count() < THIN {
            return self.nudge(
                "the model changed nothing and said little",
                "You changed nothing and said little. If the task is done, say in whole sentences what you found or \
                 did; else go on with a tool call.",
            );
        }
        match &self.run.settings.verify {
            Some(verify) if !self.passes(verify)? => ControlFlow::Continue(()),
            _ => {
                if let Some(result) = &result {
                    self.run.journal.set_result(result);
                }
                ControlFlow::Break(Ending::done())
            }
        }
    }

    /// Sends the model back once; the second time the run ends without success.
    fn nudge(&mut self, why: &str, words: &str) -> ControlFlow<Ending> {
        let ending = Ending::failed(ExitReason::NoProgress, why);
        if self.patience.nudged.is_some() {
            return ControlFlow::Break(ending);
        }
        self.run.journal.guard("nudge", why);
        self.patience.nudged = Some(ending);
        self.say(words)
    }

    /// What of an answer was meant for a tool, where JSON is not what was asked for.
    fn leftover(&self, text: &str) -> Option<Leftover> {
        let names = self.run.tools.definitions().iter().map(|tool| tool.name);
        leftover(text, names).filter(|_| self.run.settings.output.is_none())
    }

    /// An answer that was meant for a tool is no end: what it says did not happen.
    fn unread(&mut self, leftover: Leftover) -> ControlFlow<Ending> {
        self.patience.unread += 1;
        let why = match leftover {
            Leftover::Call => "the model wrote a tool call that cannot be read",
            Leftover::Result => "the model made up the result of a tool",
        };
        if self.patience.unread > MAX_UNREAD {
            let message = format!("{why}, again and again");
            return ControlFlow::Break(Ending::failed(ExitReason::NoProgress, message));
        }
        self.run.journal.guard("unread_call", why);
        let names: Vec<_> = self.run.tools.definitions().iter().map(|tool| tool.name).collect();
        let what = match leftover {
            Leftover::Call => "Your answer was meant as a tool call, but it is none that can be read",
            Leftover::Result => "You wrote the result of a tool yourself; only a call gives one",
        };
        self.say(&format!(
            "{what}: nothing was done. A call has this form, with nothing behind it:\n\n\
             <tool_call>\n{{\"name\": \"read_file\", \"arguments\": {{\"path\": \"README.md\"}}}}\n</tool_call>\n\n\
             The tools are: {}. Go on with the next call. If nothing is left to do, say in plain words what was done.",
            names.join(", ")
        ))
    }

    fn cut(&mut self) -> ControlFlow<Ending> {
        self.patience.cut += 1;
        if self.patience.cut > MAX_CUT {
            let message = "the answer reached its longest length again and again";
            return ControlFlow::Break(Ending::failed(ExitReason::NoProgress, message));
        }
        self.say(
            "Your answer reached its longest length and was cut off. Be brief: go on with the next tool call, or say in a \
             few sentences what you did.",
        )
    }

    fn misfit(&mut self, wrong: &str) -> ControlFlow<Ending> {
        self.patience.misfits += 1;
        if self.patience.misfits > MAX_MISFITS {
            let message = format!("the final answer does not fit the output schema: {wrong}");
            return ControlFlow::Break(Ending::failed(ExitReason::Failed, message));
        }
        let schema = self.run.settings.output.as_ref().map(OutputSchema::schema);
        let schema = schema.map(ToString::to_string).unwrap_or_default();
        self.say(&format!(
            "Your final answer does not have the form that is asked for: {wrong}. Answer with one JSON value that fits this \
             JSON Schema, and nothing else: {schema}"
        ))
    }

    /// Runs the check; what it finds goes back to the model.
    fn passes(&mut self, verify: &Verify) -> ControlFlow<Ending, bool> {
        let run = &self.run;
        let result = verify.run(run.tools, run.interrupt);
        run.journal.verify(&verify.command, &result);
        if run.interrupt.is_set() {
            return ControlFlow::Break(self.interrupted());
        }
        if result.exit_code == Some(0) {
            return ControlFlow::Continue(true);
        }
        self.patience.failed_checks += 1;
        if self.patience.failed_checks >= verify.attempts.max(1) {
            let message = format!("the check `{}` fails: {}", verify.command, Verify::ended(&result));
            return ControlFlow::Break(Ending::failed(ExitReason::Failed, message).class("verify"));
        }
        let mut is_changed = false;
        self.run
            .journal
            .evidence(|evidence| is_changed = !evidence.files_changed.is_empty());
        self.say(&verify.feedback(&result, is_changed))?;
        ControlFlow::Continue(false)
    }

    /// Says something to the model.
    pub(super) fn say(&mut self, words: &str) -> ControlFlow<Ending> {
        self.record(Message::User {
            text: words.to_owned(),
        })
    }
}
