//! Decides whether an answer without calls ends the run.

use std::ops::ControlFlow;

use super::output::OutputSchema;
use super::verify::Verify;
use super::{Agent, Ending};
use crate::conversation::{Message, StopReason, ToolResult};
use crate::events::ExitReason;

/// The minimum length of the final answer of a run that changed nothing, in characters.
const MIN_ANSWER_CHARS: usize = 20;
/// How often in a row an answer may be cut off.
const MAX_CUT_OFFS: u32 = 2;
/// How often an answer may be empty in one run.
const MAX_EMPTY: u32 = 2;
/// How much of the task is repeated, in bytes.
const MAX_TASK: usize = 1000;
/// How often an answer may violate the schema.
const MAX_MISFITS: u32 = 2;

const NO_PATH: &str = "Your last answer was a fence without a path, so nothing was changed. Write the path of the file on the line \
                       above its fence.";
const NO_CHANGE: &str = "Your last answer contained no file and no command, so nothing was changed. Write the files in fences, each \
                         below its path.";

/// Counts the retries of the model, and holds the outcome if they do not help.
#[derive(Debug, Default)]
pub(super) struct RetryBudget {
    /// How the run would have ended without the last retry.
    nudged: Option<Ending>,
    cut_offs: u32,
    pub(super) retries: u32,
    empty: u32,
    /// Whether the model was asked about an answer that only showed something.
    shown: bool,
    /// Whether the model was asked if anything is left.
    pub(super) asked_for_review: bool,
    misfits: u32,
    failed_checks: u32,
}

impl RetryBudget {
    /// Returns whether another empty answer may be retried.
    pub(super) fn allow_empty(&mut self) -> bool {
        self.empty += 1;
        self.empty <= MAX_EMPTY
    }

    /// Returns whether the check has failed in this run.
    pub(super) fn failed_check(&self) -> bool {
        self.failed_checks > 0
    }

    /// Takes the outcome that the last retry was to avoid.
    pub(super) fn take_nudged_ending(&mut self) -> Option<Ending> {
        self.nudged.take()
    }
}

impl Agent<'_> {
    /// Handles an answer without calls. `text` is its whole text.
    pub(super) fn finish(&mut self, stop: StopReason, text: &str) -> ControlFlow<Ending> {
        match stop {
            StopReason::Refusal => {
                let message = format!(
                    "the model refused: {}",
                    if text.is_empty() { "no reason given" } else { text }
                );
                return ControlFlow::Break(Ending::failed(ExitReason::Failed, message));
            }
            StopReason::Pause => return ControlFlow::Continue(()),
            StopReason::MaxTokens if self.writes_fences() => {
                return self.start_other_sample("the answer was cut off", "");
            }
            StopReason::MaxTokens => return self.retry_cut_off(),
            StopReason::End | StopReason::ToolUse => self.retry_budget.cut_offs = 0,
        }
        // Without a check, nothing shows that the work is done although its last call was refused.
        if self.run.settings.verify.is_none()
            && let Some(denial) = self.denied.take()
        {
            return ControlFlow::Break(Ending::failed(ExitReason::Denied, denial));
        }
        if text.is_empty() && self.writes_fences() {
            return self.start_other_sample("the answer was empty", NO_CHANGE);
        }
        if text.is_empty() {
            let why = if self.run.session.history().answers() > 0 {
                "the model stopped without a final message"
            } else {
                "the model did nothing and gave no answer"
            };
            return self.nudge(
                why,
                "Your answer was empty. If the work is done, say what you did and how you checked it; \
                 else go on with a tool call.",
            );
        }
        if self.run.settings.output.is_none() && self.writes_fences() && is_fence(text) {
            return self.start_other_sample("the model wrote a fence without a path", NO_PATH);
        }
        if self.run.settings.output.is_none() && !self.writes_fences() {
            if let Some(why) = self.incomplete_answer(text) {
                return self.retry_answer(&why);
            }
            if !self.called && !self.retry_budget.shown && is_fence(text) {
                self.retry_budget.shown = true;
                self.run
                    .journal
                    .guard("nudge", "the model showed code and called no tool");
                return self.send_to_model(&format!(
                    "You showed that, but called no tool, so nothing was changed. If nothing was to be changed, say so in \
                     one sentence. Else: {}",
                    self.one_call()
                ));
            }
        }
        if self.corrected && !self.acted() {
            let message = format!("the model repeated itself and gave up: {text}");
            return ControlFlow::Break(Ending::failed(ExitReason::NoProgress, message));
        }
        let result = match &self.run.settings.output {
            Some(schema) => match schema.check(text) {
                Ok(result) => Some(result),
                Err(wrong) => return self.retry_misfit(&wrong),
            },
            None => None,
        };
        let is_brief = result.is_none() && !self.acted() && text.chars().count() < MIN_ANSWER_CHARS;
        if is_brief && self.writes_fences() {
            return self.start_other_sample("the model changed nothing and gave almost no answer", NO_CHANGE);
        }
        if is_brief {
            return self.nudge(
                "the model changed nothing and gave almost no answer",
                "You changed nothing and said little. If the task is done, say in whole sentences what you found or \
                 did; else go on with a tool call.",
            );
        }
        if self.run.settings.second_look && !self.retry_budget.asked_for_review && result.is_none() {
            return self.ask_for_review();
        }
        match &self.run.settings.verify {
            Some(verify) if !self.run_check(verify)? => ControlFlow::Continue(()),
            _ => {
                if let Some(result) = &result {
                    self.run.journal.set_result(result);
                }
                ControlFlow::Break(Ending::done())
            }
        }
    }

    /// Retries the model once; the second time the run ends without success.
    fn nudge(&mut self, why: &str, message: &str) -> ControlFlow<Ending> {
        let ending = Ending::failed(ExitReason::NoProgress, why);
        if self.retry_budget.nudged.is_some() {
            return ControlFlow::Break(ending);
        }
        self.run.journal.guard("nudge", why);
        self.retry_budget.nudged = Some(ending);
        self.send_to_model(message)
    }

    /// Returns the start of the last prompt, to remind a model that lost track of its task.
    fn task(&self) -> &str {
        let prompts = self.run.session.history().prompts();
        let task = prompts.last().map_or("", String::as_str);
        &task[..task.floor_char_boundary(MAX_TASK)]
    }

    /// Asks whether anything is left, and shows the task and the changed files.
    fn ask_for_review(&mut self) -> ControlFlow<Ending> {
        self.retry_budget.asked_for_review = true;
        let mut changed = String::new();
        self.run
            .journal
            .evidence(|evidence| changed = evidence.files_changed.join(", "));
        let task = format!(
            "Before this ends, look once more. The task is:\n\n{}\n\n",
            self.task()
        );
        if changed.is_empty() {
            return self.send_to_model(&format!(
                "{task}No file was changed so far. If the task asks for a change, it is not done. {} If it only asks for \
                 an answer, give it once more in one sentence.",
                self.one_call()
            ));
        }
        self.send_to_model(&format!(
            "{task}Files that were changed: {changed}. Compare each part of the task with what was really done and seen. If \
             a part is missing, go on with a tool call. If all is done, say so in one sentence.",
        ))
    }

    /// Retries after an empty answer.
    pub(super) fn retry_empty(&mut self, why: &str) -> ControlFlow<Ending> {
        if self.writes_fences() {
            return self.start_other_sample("the answer was empty", NO_CHANGE);
        }
        self.run.journal.guard("nudge", why);
        self.send_to_model(&format!(
            "Your answer was empty. If the work is done, say so in one sentence. Else: {}",
            self.one_call()
        ))
    }

    fn retry_cut_off(&mut self) -> ControlFlow<Ending> {
        self.retry_budget.cut_offs += 1;
        if self.retry_budget.cut_offs > MAX_CUT_OFFS {
            let message = "the answer reached its maximum length repeatedly";
            return ControlFlow::Break(Ending::failed(ExitReason::NoProgress, message));
        }
        self.send_to_model(
            "Your answer reached its longest length and was cut off. Be brief: go on with the next tool call, or say in a \
             few sentences what you did.",
        )
    }

    fn retry_misfit(&mut self, wrong: &str) -> ControlFlow<Ending> {
        self.retry_budget.misfits += 1;
        if self.retry_budget.misfits > MAX_MISFITS {
            let message = format!("the final answer does not match the output schema: {wrong}");
            return ControlFlow::Break(Ending::failed(ExitReason::Failed, message));
        }
        let schema = self.run.settings.output.as_ref().map(OutputSchema::schema);
        let schema = schema.map(ToString::to_string).unwrap_or_default();
        self.send_to_model(&format!(
            "Your final answer does not have the form that is asked for: {wrong}. Answer with one JSON value that fits this \
             JSON Schema, and nothing else: {schema}"
        ))
    }

    /// Runs the check and sends its output to the model if it fails.
    pub(super) fn run_check(&mut self, verify: &Verify) -> ControlFlow<Ending, bool> {
        let run = &self.run;
        let result = verify.run(run.tools, run.interrupt);
        run.journal.verify(&verify.command, &result);
        if run.interrupt.is_set() {
            return ControlFlow::Break(self.interrupted());
        }
        if result.exit_code == Some(0) {
            return ControlFlow::Continue(true);
        }
        if self.writes_fences() && !(self.called_since_check && self.has_changed_files()) {
            return self.start_without_change(result);
        }
        self.retry_budget.failed_checks += 1;
        if self.retry_budget.failed_checks >= verify.attempts.max(1) {
            let mut message = format!(
                "the verify command `{}` failed: {}",
                verify.command,
                Verify::ended(&result)
            );
            if let Some(denial) = &self.denied {
                message = format!("{message}; the last tool call was refused: {denial}");
            }
            return ControlFlow::Break(Ending::failed(ExitReason::Failed, message).class("verify"));
        }
        if self.writes_fences() {
            self.last_check = Some(result);
            self.start_after_check(self.retry_budget.failed_checks)?;
            return ControlFlow::Continue(false);
        }
        let mut is_changed = false;
        self.run
            .journal
            .evidence(|evidence| is_changed = !evidence.files_changed.is_empty());
        // A model that only gives advice keeps giving it until it is asked for one call and nothing
        // else.
        let next = match (is_changed, std::mem::take(&mut self.called_since_check)) {
            (true, true) => format!(
                "Go on with the next call: find the cause and mend that, not the check. The task: {}",
                self.task()
            ),
            (false, true) => format!(
                "No file was changed so far, and words change none. {}",
                self.one_call()
            ),
            (_, false) => format!(
                "You called no tool, so nothing was changed by that. {}",
                self.one_call()
            ),
        };
        self.send_to_model(&verify.feedback(&result, &next))?;
        ControlFlow::Continue(false)
    }

    /// Starts afresh after an answer without a change while the check fails. It does not count as a
    /// failed check.
    fn start_without_change(&mut self, check: ToolResult) -> ControlFlow<Ending, bool> {
        self.last_check = Some(check);
        self.start_other_sample("the model changed nothing while the check fails", NO_CHANGE)?;
        ControlFlow::Continue(false)
    }

    /// Sends a message to the model.
    pub(super) fn send_to_model(&mut self, message: &str) -> ControlFlow<Ending> {
        self.record(Message::user(message))
    }
}

/// Returns whether a text is one fence and nothing else.
fn is_fence(text: &str) -> bool {
    let inner = text
        .trim()
        .strip_prefix("```")
        .and_then(|text| text.strip_suffix("```"));
    inner.is_some_and(|inner| !inner.contains("```"))
}
