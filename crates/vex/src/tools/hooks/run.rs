//! Runs the hooks of a call, and reads their answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Hook, HookEvent};
use crate::conversation::ToolCall;
use crate::interrupt::Interrupt;
use crate::tools::command::{CommandEnd, Run};
use crate::tools::output::Refusal;
use crate::tools::{ToolError, Toolbox};

#[derive(Serialize)]
struct Question<'a> {
    event: HookEvent,
    tool: &'a str,
    call_id: &'a str,
    cwd: &'a str,
    input: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
}

/// The possible answers of a hook.
#[derive(Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
enum HookDecision {
    Allow {
        #[serde(default, rename = "code")]
        _code: Option<String>,
        #[serde(default, rename = "message")]
        _message: Option<String>,
    },
    Deny {
        code: Option<String>,
        message: Option<String>,
    },
    Replace {
        input: Option<Value>,
        output: Option<String>,
        #[serde(default, rename = "code")]
        _code: Option<String>,
        #[serde(default, rename = "message")]
        _message: Option<String>,
    },
}

/// The call that a hook decides about.
pub(in crate::tools) struct HookSubject<'a> {
    pub(in crate::tools) call: &'a ToolCall,
    /// The tool's canonical name.
    pub(in crate::tools) tool: &'a str,
    pub(in crate::tools) interrupt: &'a Interrupt,
}

impl Toolbox {
    /// Runs the hooks before a call. Returns replaced arguments, if any, which may be invalid.
    pub(in crate::tools) fn ask_before(
        &self,
        asked: &HookSubject<'_>,
        input: &Value,
        check: &dyn Fn(&Value) -> Result<Value, ToolError>,
    ) -> Result<Option<Value>, ToolError> {
        let mut replaced: Option<Value> = None;
        for hook in self.hooks(HookEvent::PreTool, asked.tool) {
            let now = replaced.as_ref().unwrap_or(input);
            match self.ask(hook, asked, now, None)? {
                HookDecision::Allow { .. } => {}
                HookDecision::Deny { code, message } => return Err(denied(hook, code, message).into()),
                HookDecision::Replace {
                    input: Some(given),
                    output: None,
                    ..
                } => replaced = Some(check(&given)?),
                HookDecision::Replace { .. } => {
                    return Err(no_answer(hook, "it replaces, but not the input").into());
                }
            }
        }
        Ok(replaced)
    }

    /// Runs the hooks after a call. Returns the replaced output, if any.
    pub(in crate::tools) fn ask_after(
        &self,
        asked: &HookSubject<'_>,
        input: &Value,
        output: &str,
        is_error: bool,
    ) -> Result<Option<String>, Refusal> {
        let mut replaced: Option<String> = None;
        for hook in self.hooks(HookEvent::PostTool, asked.tool) {
            let now = replaced.as_deref().unwrap_or(output);
            match self.ask(hook, asked, input, Some((now, is_error)))? {
                HookDecision::Allow { .. } => {}
                HookDecision::Deny { code, message } => return Err(denied(hook, code, message)),
                HookDecision::Replace {
                    input: None,
                    output: Some(given),
                    ..
                } => replaced = Some(given),
                HookDecision::Replace { .. } => {
                    return Err(no_answer(hook, "it replaces, but not the output"));
                }
            }
        }
        Ok(replaced)
    }

    fn hooks<'a>(&'a self, event: HookEvent, tool: &'a str) -> impl Iterator<Item = &'a Hook> {
        self.policy
            .hooks
            .iter()
            .filter(move |hook| hook.event == event && hook.concerns(tool))
    }

    fn ask(
        &self,
        hook: &Hook,
        asked: &HookSubject<'_>,
        input: &Value,
        result: Option<(&str, bool)>,
    ) -> Result<HookDecision, Refusal> {
        let cwd = self.root.path().display().to_string();
        let question = Question {
            event: hook.event,
            tool: asked.tool,
            call_id: &asked.call.call_id,
            cwd: &cwd,
            input,
            output: result.map(|(output, _)| output),
            is_error: result.map(|(_, is_error)| is_error),
        };
        let question = serde_json::to_vec(&question).map_err(|error| no_answer(hook, &error.to_string()))?;
        let run = Run {
            line: &hook.command,
            cwd: self.root.path(),
            timeout: Duration::from_millis(hook.timeout_ms),
            stdin: Some(question),
            terminal: false,
            trusted: true,
        };
        let (kept, ended) = self
            .runner
            .run(run, asked.interrupt)
            .map_err(|error| no_answer(hook, &format!("it cannot be run: {error}")))?;
        match ended {
            CommandEnd { cut: Some(_), .. } => Err(no_answer(hook, "it did not answer in time")),
            CommandEnd { code: Some(0), .. } => {
                let answer = kept
                    .whole()
                    .ok_or_else(|| no_answer(hook, "its answer is too long"))?;
                serde_json::from_slice(&answer)
                    .map_err(|error| no_answer(hook, &format!("its answer is no verdict: {error}")))
            }
            CommandEnd { code, .. } => Err(no_answer(
                hook,
                &format!(
                    "it exited with {}",
                    code.map_or("no code".to_owned(), |code| code.to_string())
                ),
            )),
        }
    }
}

/// Returns the refusal of a hook.
fn denied(hook: &Hook, code: Option<String>, message: Option<String>) -> Refusal {
    let message = message.unwrap_or_else(|| format!("the hook {:?} says no", hook.command));
    Refusal::new(&code.unwrap_or_else(|| "hook".to_owned()), message)
}

/// Returns the refusal for a hook without a valid answer.
fn no_answer(hook: &Hook, why: &str) -> Refusal {
    Refusal::new(
        "hook_failed",
        format!(
            "the hook {:?} gave no verdict, so it counts as a no: {why}",
            hook.command
        ),
    )
}
