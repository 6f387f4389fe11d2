//! The one path of every call: definition, normalisation, validation, rules and permission, hooks,
//! run, redacted and bounded result, hooks, event.

use std::borrow::Cow;

use serde_json::Value;
use tool_call_repair::tool_name;

use super::fetch::{HostDecision, HostPolicy, WebFetch};
use super::hooks::HookSubject;
use super::input;
use super::output::{Output, Refusal, ToolError};
use super::rules::Ruling;
use super::tool::{Entry, ToolContext};
use super::{LoadSkill, MAX_OUTPUT_BYTES, Need, Subject, Tool as _, ToolDefinition, Toolbox};
use crate::ask::CallDecision;
use crate::conversation::{Arguments, ToolCall, ToolResult};
use crate::events::{CommandRun, Journal, Question};
use crate::interrupt::Interrupt;
use crate::redact::redact;
use crate::skills::Skill;

impl Toolbox {
    /// Runs one call. Every failure is a result for the model.
    pub fn call(&self, call: &ToolCall, journal: &Journal, interrupt: &Interrupt) -> ToolResult {
        journal.tool_call(call, self.shown_name(call));
        let result = self.execute(call, journal, interrupt);
        journal.tool_result(&result);
        result
    }

    /// Like [`Toolbox::call`], without its events.
    pub(super) fn execute(&self, call: &ToolCall, journal: &Journal, interrupt: &Interrupt) -> ToolResult {
        let context = self.context(journal, interrupt);
        let (output, denied) = match self.run(call, &context) {
            Ok(output) => (output, false),
            Err(error) => {
                let output = Output {
                    text: error.to_string(),
                    is_error: true,
                    ..Output::default()
                };
                (
                    output,
                    matches!(error, ToolError::Denied(_) | ToolError::Refused(_)),
                )
            }
        };
        ToolResult {
            call_id: call.call_id.clone(),
            is_error: output.is_error,
            exit_code: output.exit_code,
            output: presentable(output.text, output.max_bytes),
            denied,
        }
    }

    /// Returns the name of the called tool in events: that in rules for a tool of a server, else as
    /// the model wrote it.
    pub(super) fn shown_name<'a>(&'a self, call: &'a ToolCall) -> &'a str {
        match self.find(&call.tool) {
            Ok((entry, _)) if entry.need == Need::Server => &entry.name,
            _ => &call.tool,
        }
    }

    /// Returns the context of a tool.
    pub(super) fn context<'a>(&'a self, journal: &'a Journal, interrupt: &'a Interrupt) -> ToolContext<'a> {
        ToolContext {
            root: &self.root,
            files: &self.files,
            limits: self.policy.write,
            plan: &self.plan,
            hosts: self,
            interrupt,
            journal,
            runner: &self.runner,
            processes: &self.processes,
            skills: &self.policy.skills,
        }
    }

    fn run(&self, call: &ToolCall, context: &ToolContext<'_>) -> Result<Output, ToolError> {
        let (entry, definition) = self.find(&call.tool)?;
        let given = match &call.input {
            Arguments::Json(input) => input,
            Arguments::Broken { reason, .. } => {
                return Err(ToolError::Failed(format!(
                    "the arguments of {} cannot be read, so it was not run: {reason}",
                    entry.name
                )));
            }
        };
        let check = |input: &Value| {
            if entry.need == Need::Server {
                // Its arguments decide nothing, and its schema is not trusted.
                self.permit(entry, input)?;
            }
            let input = input::prepare(entry, definition, &self.root, input).map_err(ToolError::Failed)?;
            self.permit(entry, &input)?;
            Ok(input)
        };
        let mut input = check(given)?;
        if context.interrupt.is_set() {
            return Err(ToolError::Failed("interrupted: it was not run".to_owned()));
        }
        let asked = HookSubject {
            call,
            tool: &entry.name,
            interrupt: context.interrupt,
        };
        if let Some(replaced) = self.ask_before(&asked, &input, &check)? {
            input = replaced;
        }
        self.ask_outside(entry, call, &input, context)?;
        let mut output = (entry.run)(context, &input)?;
        record_evidence(&mut output, context.journal);
        output.text = presentable(output.text, output.max_bytes);
        if let Some(replaced) = self.ask_after(&asked, &input, &output.text, output.is_error)? {
            output.text = replaced;
        }
        Ok(output)
    }

    /// Asks the controlling program for an approval, if there is one.
    fn ask_outside(
        &self,
        entry: &Entry,
        call: &ToolCall,
        input: &Value,
        context: &ToolContext<'_>,
    ) -> Result<(), ToolError> {
        let Some(asker) = &self.policy.asker else {
            return Ok(());
        };
        let mut question = Question {
            call_id: call.call_id.clone(),
            tool: entry.name.clone().into_owned(),
            writes: entry.need == Need::Write,
            ..Question::default()
        };
        match (entry.subject)(input) {
            Subject::Command(command) => question.command = Some(command),
            Subject::Paths(paths) => question.paths = paths,
            Subject::Host(_) | Subject::Name(_) | Subject::Unknown => {}
        }
        match asker.ask(question, context.journal, context.interrupt) {
            CallDecision::Allow => Ok(()),
            CallDecision::Deny(words) => Err(ToolError::Refused(words)),
        }
    }

    /// Checks that the call is permitted.
    fn permit(&self, entry: &Entry, input: &Value) -> Result<(), Refusal> {
        self.judge(&entry.name, entry.need, || (entry.subject)(input))
    }

    /// Returns whether the model may load this skill.
    pub(crate) fn may_load(&self, skill: &Skill) -> bool {
        let subject = || Subject::Name(skill.name.clone());
        self.judge(LoadSkill::NAME, Need::Read, subject).is_ok()
    }

    /// Decides about a tool and its subject: a deny wins over an allow, an allow over the profile.
    pub(super) fn judge(
        &self,
        tool: &str,
        need: Need,
        subject: impl FnOnce() -> Subject,
    ) -> Result<(), Refusal> {
        let policy = &self.policy;
        match policy.rules.judge(tool, subject, &self.root) {
            Ruling::Denied(refusal) => Err(refusal),
            Ruling::Allowed => Ok(()),
            Ruling::NoMatch(_) if policy.permission.allows(need) => Ok(()),
            Ruling::NoMatch(why) => {
                let mut refusal = policy.permission.refusal(tool, need);
                if let Some(why) = why {
                    refusal.message = format!("{}; {why}", refusal.message);
                }
                Err(refusal)
            }
        }
    }

    /// Returns the definition of the tool with this name or alias.
    pub(crate) fn definition(&self, written: &str) -> Option<&ToolDefinition> {
        self.find(written).ok().map(|(_, definition)| definition)
    }

    /// Returns the tool of this name. An unknown one is never run, whatever its name suggests.
    pub(super) fn find(&self, written: &str) -> Result<(&Entry, &ToolDefinition), ToolError> {
        let name = tool_name(written);
        let position = |is_found: &dyn Fn(&Entry, &ToolDefinition) -> bool| {
            let mut tools = self.entries.iter().zip(&self.definitions);
            tools.position(|(entry, definition)| is_found(entry, definition))
        };
        // The tools of servers have two names, and capitals and dashes in them.
        let index = position(&|entry, definition| entry.name == written || definition.name == written)
            .or_else(|| {
                position(&|entry, definition| {
                    let is_of_server = || entry.need == Need::Server && tool_name(&definition.name) == name;
                    entry.is_called(&name) || is_of_server()
                })
            });
        let index = index.ok_or_else(|| {
            let names: Vec<_> = self.definitions().iter().map(|tool| tool.name.as_ref()).collect();
            ToolError::Failed(format!(
                "there is no tool {written:?}; there are {}",
                names.join(", ")
            ))
        })?;
        Ok((&self.entries[index], &self.definitions[index]))
    }
}

impl HostPolicy for Toolbox {
    fn grant(&self, host: &str) -> HostDecision {
        let tool = WebFetch::NAME;
        match self.judge(tool, Need::Http, || Subject::Host(host.to_owned())) {
            Err(refusal) => HostDecision::Refused(refusal),
            Ok(()) if self.policy.rules.names(tool, host) => HostDecision::Named,
            Ok(()) => HostDecision::Allowed,
        }
    }
}

/// Adds the changes and commands to the evidence.
fn record_evidence(output: &mut Output, journal: &Journal) {
    let changes = std::mem::take(&mut output.changes);
    let command = output.command.take();
    let exit_code = output.exit_code;
    if changes.is_empty() && command.is_none() {
        return;
    }
    journal.evidence(|evidence| {
        for path in changes {
            if !evidence.files_changed.contains(&path) {
                evidence.files_changed.push(path);
            }
        }
        evidence
            .commands
            .extend(command.map(|command| CommandRun { command, exit_code }));
    });
}

/// Returns the text for the model, the log and the events: bounded and without secrets.
fn presentable(text: String, max_bytes: Option<usize>) -> String {
    let max_bytes = max_bytes.unwrap_or(MAX_OUTPUT_BYTES);
    match redact(&text) {
        Cow::Borrowed(_) => bounded(text, max_bytes),
        Cow::Owned(redacted) => bounded(redacted, max_bytes),
    }
}

fn bounded(text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text;
    }
    let half = max_bytes / 2;
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
mod tests;
