//! Asking before each call: a hook that Claude Code calls back in-band, on its stdout and stdin.
//!
//! - The hook is there before the prompt is: Claude Code is told the prompt only when it has said that it took the hook.
//! - A hook that says nothing for its time refuses the call (measured). The time is as long as it can be: a person answers.
//! - What the hook lets pass is decided on as before by the permission mode; a verdict never widens that.
//! - A call that ran and was not asked about breaks the session off: flags and variables exist that leave hooks out.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use vik_core::approval::Call;

use crate::request::{AgentRequest, ApprovalRequest, Verdict, json_string};
use crate::wire::{self, Text};

/// The request by which Claude Code is told of the hook.
const INIT: &str = "vik-init";
const HOOK: &str = "vik-hook";

/// In seconds: 23 days. A timer of JavaScript that counts more than 2^31 milliseconds fires at once.
const HOOK_TIMEOUT: u32 = 2_000_000;

/// How each refusal begins.
const REFUSED: &str = "Refused by Vik: ";

/// The tools whose paths are read only. What is not known to read is taken to write.
const READERS: [&str; 6] = ["Glob", "Grep", "LS", "NotebookRead", "Read", "Skill"];

/// The side of the conversation that is about calls.
#[derive(Debug)]
pub(super) struct Control {
    requests: Vec<AgentRequest>,
    /// Told once the hook is there.
    prompt: Option<String>,
    /// The calls that were asked about and have no result yet.
    asked_calls: HashSet<String>,
    /// Those that Vik refused: Claude Code tells them again at its end.
    refused_calls: HashSet<String>,
    closed: bool,
    /// How many sub-agents run in the background.
    background_agents: usize,
}

/// A `control_request` line.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    request_id: Text<'a>,
    #[serde(borrow)]
    request: Body<'a>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    subtype: Text<'a>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// What a hook is told before a call.
#[derive(Deserialize)]
struct HookInput<'a> {
    #[serde(borrow)]
    hook_event_name: Text<'a>,
    #[serde(borrow)]
    tool_name: Text<'a>,
    #[serde(borrow)]
    tool_input: &'a RawValue,
    #[serde(borrow)]
    tool_use_id: Text<'a>,
}

/// What of a tool's input says what it does.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolInput<'a> {
    #[serde(borrow)]
    command: Option<&'a RawValue>,
    #[serde(borrow)]
    file_path: Option<&'a RawValue>,
    #[serde(borrow)]
    notebook_path: Option<&'a RawValue>,
    #[serde(borrow)]
    path: Option<&'a RawValue>,
}

/// A `control_response` line.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    response: ResponseBody<'a>,
}

#[derive(Deserialize)]
struct ResponseBody<'a> {
    #[serde(borrow)]
    subtype: Text<'a>,
    #[serde(borrow)]
    request_id: Text<'a>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// A `control_cancel_request` line.
#[derive(Deserialize)]
struct Cancel<'a> {
    #[serde(borrow)]
    request_id: Text<'a>,
}

impl Control {
    pub(super) fn new(prompt: &str) -> Self {
        let init = format!(
            concat!(
                r#"{{"type":"control_request","request_id":"{INIT}","request":{{"subtype":"initialize","hooks":{{"#,
                r#""PreToolUse":[{{"matcher":null,"hookCallbackIds":["{HOOK}"],"timeout":{HOOK_TIMEOUT}}}]}}}}}}"#
            ),
            INIT = INIT,
            HOOK = HOOK,
            HOOK_TIMEOUT = HOOK_TIMEOUT,
        );
        Self {
            requests: vec![AgentRequest::Send(init)],
            prompt: Some(prompt.to_owned()),
            asked_calls: HashSet::new(),
            refused_calls: HashSet::new(),
            closed: false,
            background_agents: 0,
        }
    }

    pub(super) fn take_requests(&mut self) -> Vec<AgentRequest> {
        std::mem::take(&mut self.requests)
    }

    /// Takes in a line about control.
    pub(super) fn on_line(&mut self, kind: &str, line: &str) {
        let handled = match kind {
            "control_request" => self.request(line),
            "control_response" => self.response(line),
            "control_cancel_request" => self.cancel(line),
            _ => Some(()),
        };
        if handled.is_none() {
            // Whoever waits for an answer that cannot be given would wait for ever, or go on without one.
            self.protocol_error(format!(
                "a line of Claude Code's control protocol is not understood ({kind})"
            ));
        }
    }

    fn protocol_error(&mut self, why: String) {
        self.requests.push(AgentRequest::ProtocolError(why));
    }

    fn request(&mut self, line: &str) -> Option<()> {
        let request: Request<'_> = wire::object(line)?;
        let id = request.request_id.as_str();
        match request.request.subtype.as_str() {
            "hook_callback" => match approval_request(id, request.request.input) {
                Some((ask, call_id)) => {
                    self.asked_calls.insert(call_id);
                    self.requests.push(AgentRequest::Approval(ask));
                }
                // Refused, since nobody could say what it is.
                None => self.requests.push(AgentRequest::Send(refusal(
                    id,
                    "nobody can tell what this call would do.",
                ))),
            },
            // What the permission mode does not allow is refused, as where nobody is asked.
            "can_use_tool" => {
                let message = json_string("The permissions of this session do not allow this, and nobody is there to be asked.");
                let head = success_prefix(id);
                self.requests.push(AgentRequest::Send(format!(
                    r#"{head},"response":{{"behavior":"deny","message":{message}}}}}}}"#
                )));
            }
            _ => self.requests.push(AgentRequest::Send(format!(
                r#"{{"type":"control_response","response":{{"subtype":"error","request_id":{},"error":"Vik does not do that"}}}}"#,
                json_string(id)
            ))),
        }
        Some(())
    }

    fn response(&mut self, line: &str) -> Option<()> {
        let Response { response } = wire::object(line)?;
        if response.request_id.as_str() != INIT {
            return Some(());
        }
        if response.subtype.as_str() != "success" {
            let why = wire::text(response.error).unwrap_or_default();
            self.protocol_error(format!(
                "Claude Code did not take the hook that asks before each call: {why}"
            ));
            return Some(());
        }
        if let Some(prompt) = self.prompt.take() {
            self.requests.push(AgentRequest::Send(format!(
                r#"{{"type":"user","message":{{"role":"user","content":{}}}}}"#,
                json_string(&prompt)
            )));
        }
        Some(())
    }

    fn cancel(&mut self, line: &str) -> Option<()> {
        let cancel: Cancel<'_> = wire::object(line)?;
        self.requests.push(AgentRequest::Withdraw {
            id: cancel.request_id.0.into_owned(),
        });
        Some(())
    }

    /// A call has ended.
    pub(super) fn on_tool_result(&mut self, call_id: &str, is_error: bool, content: Option<&RawValue>) {
        let asked = self.asked_calls.remove(call_id);
        if asked && is_error && wire::text(content).is_some_and(|text| text.starts_with(REFUSED)) {
            self.refused_calls.insert(call_id.to_owned());
        }
        if !asked && !is_error {
            self.protocol_error(format!(
                "the call {call_id} ran, and Vik was not asked: this Claude Code does not call its hooks"
            ));
        }
    }

    /// Whether a denial that Claude Code tells at its end is one of Vik's own, which is told already.
    pub(super) fn is_refused(&self, call_id: &str) -> bool {
        self.refused_calls.contains(call_id)
    }

    /// Takes in how many sub-agents run in the background: 2.1.330 ends its turn without waiting for them, and takes another
    /// one when the last of them has ended.
    pub(super) fn set_background_agents(&mut self, count: usize) {
        self.background_agents = count;
    }

    /// The turn is over. Sub-agents that still run ask about their calls as well, so they keep the input open.
    pub(super) fn on_turn_end(&mut self) {
        if !self.closed && self.background_agents == 0 {
            self.closed = true;
            self.requests.push(AgentRequest::Close);
        }
    }
}

/// The line that gives a verdict.
pub(super) fn answer(ask: &ApprovalRequest, verdict: Verdict<'_>) -> String {
    match verdict {
        Verdict::Allow => format!(r#"{},"response":{{"continue":true}}}}}}"#, ask.answer_prefix),
        Verdict::Refuse(message) => refusal(&ask.id, message),
    }
}

fn refusal(id: &str, message: &str) -> String {
    format!(
        concat!(
            r#"{},"response":{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","permissionDecision":"deny","#,
            r#""permissionDecisionReason":{}}}}}}}}}"#
        ),
        success_prefix(id),
        json_string(&format!("{REFUSED}{message}"))
    )
}

/// How a good answer to a request begins.
fn success_prefix(id: &str) -> String {
    format!(
        r#"{{"type":"control_response","response":{{"subtype":"success","request_id":{}"#,
        json_string(id)
    )
}

/// The question of a hook, and the call that it is about.
fn approval_request(id: &str, input: Option<&RawValue>) -> Option<(ApprovalRequest, String)> {
    let input: HookInput<'_> = wire::object(input?.get())?;
    if input.hook_event_name.as_str() != "PreToolUse" {
        return None;
    }
    let tool = input.tool_name.0.into_owned();
    let tool_input: ToolInput<'_> = wire::object(input.tool_input.get())?;
    // What is no text is judged as it is written.
    let text = |field: Option<&RawValue>| {
        let raw = wire::present(field)?;
        Some(wire::text(Some(raw)).map_or_else(|| raw.get().to_owned(), Into::into))
    };
    let paths = [tool_input.file_path, tool_input.notebook_path, tool_input.path];
    let ask = ApprovalRequest {
        id: id.to_owned(),
        // A tool of a server's may mean anything by a path.
        writes: !READERS.contains(&tool.as_str()) && !tool.starts_with("mcp__"),
        call: Call {
            tool,
            command: text(tool_input.command),
            paths: paths.into_iter().filter_map(text).collect(),
        },
        answer_prefix: success_prefix(id),
    };
    Some((ask, input.tool_use_id.0.into_owned()))
}
