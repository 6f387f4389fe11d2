//! The one path that every call takes, whoever makes it: definition, normalisation, validation, permission, run,
//! bounded result, redaction, event.

use serde_json::Value;

use super::input;
use super::output::{Output, ToolError};
use super::tool::{Entry, ToolContext, ToolDefinition};
use super::{MAX_OUTPUT_BYTES, Toolbox};
use crate::conversation::{Arguments, ToolCall, ToolResult};
use crate::interrupt::Interrupt;
use crate::journal::{CommandRun, Journal};
use crate::redact::redact;

impl Toolbox {
    /// Runs one call, whatever it is. Everything that goes wrong is a result that the model sees.
    pub fn call(&self, call: &ToolCall, journal: &Journal, interrupt: &Interrupt) -> ToolResult {
        journal.tool_call(call);
        let result = self.carry_out(call, journal, interrupt);
        journal.tool_result(&result);
        result
    }

    /// As [`Toolbox::call`], without its events.
    pub(super) fn carry_out(&self, call: &ToolCall, journal: &Journal, interrupt: &Interrupt) -> ToolResult {
        let context = self.context(journal, interrupt);
        let (output, denied) = match self.run(call, &context) {
            Ok(output) => (output, false),
            Err(error) => {
                let output = Output {
                    text: error.to_string(),
                    is_error: true,
                    ..Output::default()
                };
                (output, matches!(error, ToolError::Denied(_)))
            }
        };
        ToolResult {
            call_id: call.call_id.clone(),
            is_error: output.is_error,
            exit_code: output.exit_code,
            output: redact(&bounded(output.text)).into_owned(),
            denied,
        }
    }

    /// What a tool is given when it runs.
    pub(super) fn context<'a>(&'a self, journal: &'a Journal, interrupt: &'a Interrupt) -> ToolContext<'a> {
        ToolContext {
            root: &self.root,
            files: &self.files,
            limits: self.limits,
            plan: &self.plan,
            interrupt,
            journal,
        }
    }

    fn run(&self, call: &ToolCall, context: &ToolContext<'_>) -> Result<Output, ToolError> {
        let (entry, definition) = self.find(&call.tool)?;
        let input = self.prepared(call, entry, definition)?;
        if !self.permission.allows(entry.need) {
            return Err(self.permission.refusal(entry.name, entry.need).into());
        }
        if context.interrupt.is_set() {
            return Err(ToolError::Failed("interrupted: it was not run".to_owned()));
        }
        let mut output = (entry.run)(context, &input)?;
        note_deeds(&mut output, context.journal);
        Ok(output)
    }

    /// The tool of this name. One that nobody knows is never run, whatever its name suggests that it does.
    pub(super) fn find(&self, written: &str) -> Result<(&Entry, &ToolDefinition), ToolError> {
        let name = input::tool_name(written);
        let known = |entry: &Entry| entry.name == name || entry.aliases.contains(&name.as_str());
        let index = self.entries.iter().position(known).ok_or_else(|| {
            let names: Vec<_> = self.entries.iter().map(|entry| entry.name).collect();
            ToolError::Failed(format!(
                "there is no tool {written:?}; there are {}",
                names.join(", ")
            ))
        })?;
        Ok((&self.entries[index], &self.definitions[index]))
    }

    fn prepared(
        &self,
        call: &ToolCall,
        entry: &Entry,
        definition: &ToolDefinition,
    ) -> Result<Value, ToolError> {
        match &call.input {
            Arguments::Json(input) => {
                input::prepare(entry, definition, &self.root, input).map_err(ToolError::Failed)
            }
            Arguments::Broken { reason, .. } => Err(ToolError::Failed(format!(
                "the arguments of {} are no JSON, so it was not run: {reason}",
                entry.name
            ))),
        }
    }
}

/// What was done becomes evidence.
fn note_deeds(output: &mut Output, journal: &Journal) {
    let changes = std::mem::take(&mut output.changes);
    let command = output.command.take();
    let exit_code = output.exit_code;
    if changes.is_empty() && command.is_none() {
        return;
    }
    journal.evidence(|evidence| {
        for path in changes.into_iter().map(super::output::Change::into_path) {
            if !evidence.files_changed.contains(&path) {
                evidence.files_changed.push(path);
            }
        }
        evidence
            .commands
            .extend(command.map(|command| CommandRun { command, exit_code }));
    });
}

fn bounded(text: String) -> String {
    if text.len() <= MAX_OUTPUT_BYTES {
        return text;
    }
    let half = MAX_OUTPUT_BYTES / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    format!(
        "{}\n[… {} bytes left out …]\n{}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_text_keeps_both_ends() {
        let text = format!("start{}end", "ä".repeat(MAX_OUTPUT_BYTES));
        let short = bounded(text);
        assert!(short.starts_with("start") && short.ends_with("end"));
        assert!(short.len() < MAX_OUTPUT_BYTES + 100);
    }
}
