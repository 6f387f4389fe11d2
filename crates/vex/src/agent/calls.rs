//! Running the tool calls of an answer.

use std::ops::ControlFlow;

use super::loop_detector::{Effect, TurnAction};
use super::{Agent, AnswerEffect, Ending, log_failure};
use crate::conversation::{Message, ToolCall, ToolResult};
use crate::events::ExitReason;
use crate::session::Entry;
use crate::tools::UpdatePlan;
use crate::tools::{Need, Tool, Toolbox};

/// The exit code of a shell that does not find a program.
const NOT_FOUND: i32 = 127;

/// Programs that run a file.
const INTERPRETERS: [&str; 10] = [
    "python3", "python", "node", "sh", "bash", "ruby", "perl", "php", "deno", "bun",
];

impl Agent<'_> {
    /// Runs the calls of an answer. Each result is recorded as soon as it exists, and every call
    /// has a result when this function returns, even if the run was interrupted.
    pub(super) fn call(&mut self, calls: &[ToolCall]) -> ControlFlow<Ending> {
        let run = &mut self.run;
        let (tools, journal) = (run.tools, run.journal);
        let step = run.inbox.start_step(run.interrupt);
        let mut written = Ok(());
        let mut each = |result: &ToolResult| {
            if written.is_ok() {
                let message = Message::Tool(result.clone());
                written = run.session.record(Entry::Message { message });
            }
        };
        let results = tools.call_all(calls, journal, &step.interrupt, &mut each);
        if let Err(error) = written {
            return ControlFlow::Break(log_failure(&error));
        }
        self.answer = AnswerEffect::default();
        for (call, result) in calls.iter().zip(&results) {
            let effect = effect(tools, call);
            let path = call.input.json().and_then(|input| input.get("path")?.as_str());
            self.answer.paths.extend(path.map(str::to_owned));
            if result.is_error {
                self.answer.error.clone_from(&result.output);
                if result.exit_code.is_some() {
                    self.answer.failed_command = Some(result.output.clone());
                }
            } else {
                self.answer.changed |= effect == Effect::Change;
                self.answer.succeeded = true;
            }
            if effect != Effect::Note {
                self.called = true;
                self.called_since_check = true;
                self.retry_budget.retries = 0;
            }
            self.planned |= effect == Effect::Note;
            self.loop_detector.record_call(call, result, effect);
        }
        self.corrected = false;
        let missing = calls
            .iter()
            .zip(&results)
            .find(|(_, result)| result.exit_code == Some(NOT_FOUND));
        if let Some(command) = missing.and_then(|(call, _)| self.command_with(call)) {
            let hint = format!("There is no such program. The task names this command: `{command}`");
            if self.writes_fences() {
                // The next sample has only its note.
                self.answer.error = format!("{hint}\n{}", self.answer.error);
                self.answer.failed_command = Some(self.answer.error.clone());
            } else {
                self.send_to_model(&hint)?;
            }
        }
        self.denied = results
            .into_iter()
            .rev()
            .find_map(|result| result.denied.then_some(result.output));
        let steps = tools.plan().steps();
        if steps != self.run.session.history().plan() {
            self.record_entry(Entry::Plan { steps })?;
        }
        ControlFlow::Continue(())
    }

    /// Returns a longer command that contains the program of a call as an argument: in backticks or
    /// after an interpreter in a prompt, or the check.
    fn command_with(&self, call: &ToolCall) -> Option<String> {
        let line = call.input.json()?.get("command")?.as_str()?;
        let program = line.split_whitespace().next()?.trim_start_matches("./");
        let prompts = self.run.session.history().prompts();
        let quoted = prompts
            .iter()
            .flat_map(|prompt| prompt.split('`').skip(1).step_by(2));
        let verify = self.run.settings.verify.as_ref();
        let mut known = quoted.chain(verify.map(|verify| verify.command.as_str()));
        let is_argument = |known: &str| known.split_whitespace().skip(1).any(|word| word == program);
        let command = known.find(|known| is_argument(known)).map(str::to_owned);
        command.or_else(|| prompts.iter().find_map(|prompt| interpreted(prompt, program)))
    }

    /// Checks, at the end of a turn whose text is `text`, whether the run is in a loop.
    pub(super) fn check_for_loop(&mut self, text: &str) -> ControlFlow<Ending> {
        match self.loop_detector.end_turn(text) {
            TurnAction::Continue => ControlFlow::Continue(()),
            TurnAction::Correct { message, .. } | TurnAction::Stop { message, .. }
                if self.writes_fences() =>
            {
                self.start_other_sample(&message, "")
            }
            TurnAction::Correct { circle, message } => {
                self.run.journal.guard(circle.as_str(), &message);
                self.corrected = true;
                self.send_to_model(&message)
            }
            TurnAction::Stop { circle, message } => {
                self.run.journal.guard(circle.as_str(), &message);
                ControlFlow::Break(match self.denied.take() {
                    Some(denial) => Ending::failed(ExitReason::Denied, denial),
                    None => Ending::failed(ExitReason::NoProgress, message),
                })
            }
        }
    }
}

/// Returns the command in a text that passes a file to an interpreter.
fn interpreted(text: &str, file: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_file = |word: &str| {
        word.trim_start_matches("./")
            .trim_end_matches(['.', ',', ':', ';'])
            == file
    };
    let found = words
        .windows(2)
        .find(|pair| INTERPRETERS.contains(&pair[0]) && is_file(pair[1]));
    found.map(|pair| format!("{} {file}", pair[0]))
}

fn effect(tools: &Toolbox, call: &ToolCall) -> Effect {
    match tools.definition(&call.tool) {
        Some(definition) if definition.name == UpdatePlan::NAME => Effect::Note,
        Some(definition) if definition.need == Need::Write => Effect::Change,
        _ => Effect::Read,
    }
}
