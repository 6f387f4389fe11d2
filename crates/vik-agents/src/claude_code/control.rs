//! The input of a session that takes messages of people, and the approval before each call: a hook
//! that Claude Code calls back in-band, over stdout and stdin.
//!
//! - A message is a line like the prompt. Claude Code puts it into the next request of its turn, or
//!   starts another turn with it, and repeats the line when it takes it
//!   (`--replay-user-messages`).
//! - The control request `interrupt` stops the current step, with a `result` of its own. A message
//!   with `"priority":"now"` waits for the running tool (measured with 2.1.330).
//! - The hook is registered before the prompt: Claude Code gets the prompt only after it has
//!   confirmed the hook.
//! - A hook that does not answer in time refuses the call (measured). The timeout is as long as
//!   possible, because a person answers.
//! - A call that the hook allows is still subject to the permission mode; a verdict never widens
//!   it.
//! - A call that ran without a request ends the session: there are flags and variables that disable
//!   hooks.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use vik_core::approval::Call;
use vik_core::message::Message;

use crate::request::{
    AgentRequest, ApprovalRequest, InitialInput, Outbox, Verdict, interrupt_request_id, is_interrupt_request,
    json_string, message_id,
};
use crate::wire::{self, Text};

/// The id of the request that registers the hook.
const INIT: &str = "vik-init";
const HOOK: &str = "vik-hook";

/// In seconds: 23 days. A JavaScript timer of more than 2^31 milliseconds fires at once.
const HOOK_TIMEOUT: u32 = 2_000_000;

/// The prefix of every refusal.
const REFUSED: &str = "Refused by Vik: ";

/// Tools that only read their paths. An unknown tool is assumed to write.
const READING_TOOLS: [&str; 6] = ["Glob", "Grep", "LS", "NotebookRead", "Read", "Skill"];

/// The control protocol of one session.
#[derive(Debug)]
pub(super) struct Control {
    outbox: Outbox,
    /// Sent once the hook is confirmed.
    prompt: Option<String>,
    /// The calls that Vik was asked about and that have no result yet.
    asked_calls: HashSet<String>,
    /// The calls that Vik refused: Claude Code repeats them as denials in its result.
    refused_calls: HashSet<String>,
    /// The number of sub-agents that run in the background.
    background_agents: usize,
    /// Whether each call is to be approved.
    asks: bool,
    /// Whether Vik has stopped the current turn for a message.
    is_interrupted: bool,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Request<'a> {
    request_id: Text<'a>,
    request: Body<'a>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Body<'a> {
    subtype: Text<'a>,
    input: Option<&'a RawValue>,
}

/// The input of the hook.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct HookInput<'a> {
    hook_event_name: Text<'a>,
    tool_name: Text<'a>,
    tool_input: &'a RawValue,
    tool_use_id: Text<'a>,
}

/// The fields of a tool's input that say what the call does.
#[derive(Default, Deserialize)]
#[serde(default, bound = "'de: 'a")]
struct ToolInput<'a> {
    command: Option<&'a RawValue>,
    file_path: Option<&'a RawValue>,
    notebook_path: Option<&'a RawValue>,
    path: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Response<'a> {
    response: ResponseBody<'a>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct ResponseBody<'a> {
    subtype: Text<'a>,
    request_id: Text<'a>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Cancel<'a> {
    request_id: Text<'a>,
}

impl Control {
    pub(super) fn new(input: &InitialInput<'_>) -> Self {
        let (first, prompt) = if input.asks {
            (registration(), Some(input.prompt.to_owned()))
        } else {
            (user_line(None, input.prompt), None)
        };
        Self {
            outbox: Outbox::starting_with(first),
            prompt,
            asked_calls: HashSet::new(),
            refused_calls: HashSet::new(),
            background_agents: 0,
            asks: input.asks,
            is_interrupted: false,
        }
    }

    pub(super) fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Handles a line of the control protocol.
    pub(super) fn on_line(&mut self, kind: &str, line: &str) {
        let handled = match kind {
            "control_request" => self.request(line),
            "control_response" => self.response(line),
            "control_cancel_request" => self.cancel(line),
            _ => Some(()),
        };
        if handled.is_none() {
            // Without an answer the agent would wait for ever, or continue without approval.
            self.protocol_error(format!(
                "unknown message of Claude Code's control protocol ({kind})"
            ));
        }
    }

    fn protocol_error(&mut self, why: String) {
        self.outbox.push(AgentRequest::ProtocolError(why));
    }

    fn request(&mut self, line: &str) -> Option<()> {
        let request: Request<'_> = wire::object(line)?;
        let id = request.request_id.as_str();
        match request.request.subtype.as_str() {
            "hook_callback" => match approval_request(id, request.request.input) {
                Some((approval, call_id)) => {
                    self.asked_calls.insert(call_id);
                    self.outbox.push(AgentRequest::Approval(approval));
                }
                // Refused, because the call cannot be determined.
                None => self
                    .outbox
                    .send(refusal(id, "nobody can tell what this call would do.")),
            },
            // A call that the permission mode does not allow is refused, as in a session without
            // approvals.
            "can_use_tool" => {
                let message = json_string("The permissions of this session do not allow this, and nobody is there to be asked.");
                let head = success_prefix(id);
                self.outbox.send(format!(
                    r#"{head},"response":{{"behavior":"deny","message":{message}}}}}}}"#
                ));
            }
            _ => self.outbox.send(format!(
                r#"{{"type":"control_response","response":{{"subtype":"error","request_id":{},"error":"Vik does not do that"}}}}"#,
                json_string(id)
            )),
        }
        Some(())
    }

    fn response(&mut self, line: &str) -> Option<()> {
        let Response { response } = wire::object(line)?;
        if response.request_id.as_str() != INIT {
            self.is_interrupted |= is_interrupt_request(response.request_id.as_str());
            return Some(());
        }
        if response.subtype.as_str() != "success" {
            let why = wire::text(response.error).unwrap_or_default();
            self.protocol_error(format!(
                "Claude Code rejected the hook that requests approval of each call: {why}"
            ));
            return Some(());
        }
        if let Some(prompt) = self.prompt.take() {
            self.outbox.send(user_line(None, &prompt));
        }
        Some(())
    }

    fn cancel(&mut self, line: &str) -> Option<()> {
        let cancel: Cancel<'_> = wire::object(line)?;
        self.outbox.push(AgentRequest::Withdraw {
            id: cancel.request_id.0.into_owned(),
        });
        Some(())
    }

    /// Handles the result of a call.
    pub(super) fn on_tool_result(&mut self, call_id: &str, is_error: bool, content: Option<&RawValue>) {
        let asked = self.asked_calls.remove(call_id);
        if asked && is_error && wire::text(content).is_some_and(|text| text.starts_with(REFUSED)) {
            self.refused_calls.insert(call_id.to_owned());
        }
        if self.asks && !asked && !is_error {
            self.protocol_error(format!(
                "the call {call_id} ran without a request for approval: this Claude Code does not call its hooks"
            ));
        }
    }

    /// Returns whether a denial in the result of the session is one of Vik's own, which was already
    /// reported.
    pub(super) fn is_refused(&self, call_id: &str) -> bool {
        self.refused_calls.contains(call_id)
    }

    /// Sets the number of sub-agents in the background. Version 2.1.330 ends its turn without
    /// waiting for them, and starts another turn when the last one has ended.
    pub(super) fn set_background_agents(&mut self, count: usize) {
        self.background_agents = count;
    }

    /// Handles the end of a turn. Running sub-agents start another turn when they end, and may ask
    /// for approval, so the input stays open for them.
    pub(super) fn on_turn_end(&mut self, succeeded: bool) {
        if self.background_agents == 0 {
            self.outbox.push(AgentRequest::TurnEnded { succeeded });
        }
    }

    /// Returns whether Vik has stopped the turn that ends now.
    pub(super) fn take_interrupt(&mut self) -> bool {
        std::mem::take(&mut self.is_interrupted)
    }

    /// Handles the repetition of a line of the input.
    pub(super) fn on_replay(&mut self, uuid: Option<&str>) {
        // The prompt has an id of Claude Code's own, which is in no message.
        if let Some(id) = uuid.and_then(message_id) {
            self.outbox.push(AgentRequest::MessageTaken { id });
        }
    }

    /// Returns the lines that send a message of a person.
    pub(super) fn message_lines(&self, message: &Message) -> Option<Vec<String>> {
        if self.prompt.is_some() {
            // The hook is not confirmed.
            return None;
        }
        let interrupt = message.interrupt.then(|| {
            format!(
                r#"{{"type":"control_request","request_id":{},"request":{{"subtype":"interrupt"}}}}"#,
                json_string(&interrupt_request_id(message.id))
            )
        });
        let line = user_line(Some(&message.id.to_string()), &message.text);
        Some(interrupt.into_iter().chain([line]).collect())
    }
}

/// Returns the request that registers the hook.
fn registration() -> String {
    format!(
        concat!(
            r#"{{"type":"control_request","request_id":"{INIT}","request":{{"subtype":"initialize","hooks":{{"#,
            r#""PreToolUse":[{{"matcher":null,"hookCallbackIds":["{HOOK}"],"timeout":{HOOK_TIMEOUT}}}]}}}}}}"#
        ),
        INIT = INIT,
        HOOK = HOOK,
        HOOK_TIMEOUT = HOOK_TIMEOUT,
    )
}

/// Returns the line of a prompt, or of a message with this id.
fn user_line(uuid: Option<&str>, text: &str) -> String {
    let uuid = uuid.map(|uuid| format!(r#""uuid":{},"#, json_string(uuid)));
    format!(
        r#"{{"type":"user",{}"message":{{"role":"user","content":{}}}}}"#,
        uuid.unwrap_or_default(),
        json_string(text)
    )
}

/// Returns the line that answers an approval request.
pub(super) fn answer(approval: &ApprovalRequest, verdict: Verdict<'_>) -> String {
    match verdict {
        Verdict::Allow => format!(r#"{},"response":{{"continue":true}}}}}}"#, approval.answer_prefix),
        Verdict::Refuse(message) => refusal(&approval.id, message),
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

/// Returns the prefix of a successful answer to a request.
fn success_prefix(id: &str) -> String {
    format!(
        r#"{{"type":"control_response","response":{{"subtype":"success","request_id":{}"#,
        json_string(id)
    )
}

/// Returns the approval request of a hook and the id of its call.
fn approval_request(id: &str, input: Option<&RawValue>) -> Option<(ApprovalRequest, String)> {
    let input: HookInput<'_> = wire::object(input?.get())?;
    if input.hook_event_name.as_str() != "PreToolUse" {
        return None;
    }
    let tool = input.tool_name.0.into_owned();
    let tool_input: ToolInput<'_> = wire::object(input.tool_input.get())?;
    // A value that is not a string is checked in its JSON form.
    let text = |field: Option<&RawValue>| {
        let raw = wire::present(field)?;
        Some(wire::text(Some(raw)).map_or_else(|| raw.get().to_owned(), Into::into))
    };
    let paths = [tool_input.file_path, tool_input.notebook_path, tool_input.path];
    let approval = ApprovalRequest {
        id: id.to_owned(),
        // The path of an MCP tool may mean anything.
        writes: !READING_TOOLS.contains(&tool.as_str()) && !tool.starts_with("mcp__"),
        call: Call {
            tool,
            command: text(tool_input.command),
            paths: paths.into_iter().filter_map(text).collect(),
        },
        answer_prefix: success_prefix(id),
    };
    Some((approval, input.tool_use_id.0.into_owned()))
}
