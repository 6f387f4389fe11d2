//! The requests of Codex, which waits for their answers.

use std::borrow::Cow;

use serde_json::value::RawValue;
use vik_core::approval::Call;

use super::AppServer;
use crate::codex::adapter::tool;
use crate::codex::line::Item;
use crate::codex::message::{CommandApproval, Elicitation, FileChangeApproval, ItemRef};
use crate::request::{AgentRequest, ApprovalRequest, Verdict, json_string};
use crate::wire::{self, Text};

/// The tool name of a patch, as in `codex exec`.
const PATCH: &str = "file_change";

const DECLINE: &str = r#"{"decision":"decline"}"#;
const DECLINE_TOOL: &str = r#"{"action":"decline"}"#;

/// A call with the ids of its thread and turn.
type AskedCall = (Call, (String, String));

/// The prefix of every refusal.
const REFUSED: &str = "Refused by Vik: ";

impl AppServer {
    /// Handles a request of Codex, which waits for the response.
    pub(super) fn request(&mut self, method: &str, id: &RawValue, params: Option<&RawValue>) {
        let id = id.get();
        let item = wire::read(params).and_then(|item: ItemRef<'_>| Some(item.item_id?.0.into_owned()));
        let (asked_call, decline) = match method {
            "item/commandExecution/requestApproval" => (self.command(params), DECLINE),
            "item/fileChange/requestApproval" => (self.patch(params), DECLINE),
            "mcpServer/elicitation/request" => (elicited_call(params), DECLINE_TOOL),
            _ => {
                let error = r#"{"code":-32601,"message":"Vik does not do that"}"#;
                return self.outbox.send(format!(r#"{{"id":{id},"error":{error}}}"#));
            }
        };
        let Some((call, turn)) = asked_call else {
            // Refused, because it asks for more than a call, or because the call cannot be
            // determined.
            return self.outbox.send(format!("{}{decline}}}", response_prefix(id)));
        };
        self.turns.insert(id.to_owned(), turn);
        self.asked.push(item.unwrap_or_else(|| call.tool.clone()));
        self.outbox.push(AgentRequest::Approval(ApprovalRequest {
            id: id.to_owned(),
            writes: call.tool == PATCH,
            call,
            answer_prefix: response_prefix(id),
        }));
    }

    /// Handles the end of an item. A call that ran although Codex did not ask about it is reported:
    /// the settings that Codex found may allow calls.
    pub(super) fn on_item_completed(&mut self, item: &Item<'_>) {
        if !matches!(item.kind.as_str(), "command_execution" | PATCH | "mcp_tool_call") {
            return;
        }
        let (Some(id), Some(tool)) = (&item.id, tool(item)) else {
            return;
        };
        let is_asked = |asked: &String| *asked == id.0 || *asked == tool;
        if let Some(at) = self.asked.iter().position(is_asked) {
            self.asked.remove(at);
        } else if self.asks && has_run(item) {
            let patched = self.patches.get(id.as_str());
            self.outbox.push(AgentRequest::Unasked(Call {
                tool: tool.into_owned(),
                command: wire::text(item.command).map(Cow::into_owned),
                paths: patched.cloned().unwrap_or_else(|| path_argument(item.arguments)),
            }));
        }
    }

    /// Returns the command to approve; `None` if the request asks for more, or if the command is
    /// unknown.
    fn command(&self, params: Option<&RawValue>) -> Option<AskedCall> {
        let approval: CommandApproval<'_> = wire::read(params)?;
        let asks_for_more = wire::present(approval.additional_permissions).is_some()
            || wire::present(approval.network_approval_context).is_some()
            || (wire::present(approval.reason).is_some() && !self.has_full_access);
        if asks_for_more {
            return None;
        }
        let call = Call {
            tool: "command_execution".to_owned(),
            command: Some(approval.command?.0.into_owned()),
            paths: Vec::new(),
        };
        Some((
            call,
            (approval.thread_id.0.into_owned(), approval.turn_id.0.into_owned()),
        ))
    }

    /// Returns the patch to approve. Its paths were announced before.
    fn patch(&self, params: Option<&RawValue>) -> Option<AskedCall> {
        let approval: FileChangeApproval<'_> = wire::read(params)?;
        let asks_for_more = wire::present(approval.grant_root).is_some()
            || (wire::present(approval.reason).is_some() && !self.has_full_access);
        let paths = self.patches.get(approval.item_id.as_str())?.clone();
        if asks_for_more || paths.is_empty() {
            return None;
        }
        let call = Call {
            tool: PATCH.to_owned(),
            command: None,
            paths,
        };
        Some((
            call,
            (approval.thread_id.0.into_owned(), approval.turn_id.0.into_owned()),
        ))
    }

    /// Returns the lines that answer an approval request.
    pub(super) fn answer_approval(&self, request: &ApprovalRequest, verdict: Verdict<'_>) -> Vec<String> {
        let is_elicited = request.call.tool.starts_with("mcp__");
        let (approval, refusal) = if is_elicited {
            (r#"{"action":"accept","content":{}}"#, DECLINE_TOOL)
        } else {
            (r#"{"decision":"accept"}"#, DECLINE)
        };
        let line = |result: &str| format!("{}{result}}}", request.answer_prefix);
        match verdict {
            Verdict::Allow => vec![line(approval)],
            Verdict::Refuse(message) => {
                let steering = self
                    .turns
                    .get(&request.id)
                    .map(|turn| steer(&request.id, turn, message));
                steering.into_iter().chain([line(refusal)]).collect()
            }
        }
    }
}

/// Returns the prefix of a successful response to a request of Codex. A request of Vik's may have
/// the same id.
fn response_prefix(id: &str) -> String {
    format!(r#"{{"id":{id},"result":"#)
}

/// Returns the input that gives the message of a refusal to the running turn.
fn steer(id: &str, (thread, turn): &(String, String), message: &str) -> String {
    format!(
        concat!(
            r#"{{"id":{},"method":"turn/steer","params":{{"threadId":{},"expectedTurnId":{},"#,
            r#""input":[{{"type":"text","text":{}}}]}}}}"#
        ),
        json_string(&format!("vik-{id}")),
        json_string(thread),
        json_string(turn),
        json_string(&format!("{REFUSED}{message}")),
    )
}

/// Returns whether a call had an effect: it was neither declined nor cancelled before it started.
fn has_run(item: &Item<'_>) -> bool {
    item.status.as_ref().map(Text::as_str) == Some("completed")
        || item.exit_code.is_some()
        || wire::present(item.result).is_some()
}

/// Returns the argument `path` of an MCP tool, if there is one.
fn path_argument(arguments: Option<&RawValue>) -> Vec<String> {
    #[derive(Default, serde::Deserialize)]
    #[serde(default, bound = "'de: 'a")]
    struct Arguments<'a> {
        path: Option<&'a RawValue>,
    }
    let path = arguments.and_then(|arguments| wire::object::<Arguments<'_>>(arguments.get())?.path);
    wire::text(path).map(Cow::into_owned).into_iter().collect()
}

/// Returns the MCP tool call that is to be approved; `None` for a form that a person would fill in.
fn elicited_call(params: Option<&RawValue>) -> Option<AskedCall> {
    let approval: Elicitation<'_> = wire::read(params)?;
    let meta = approval.meta?;
    if meta.codex_approval_kind?.as_str() != "mcp_tool_call" {
        return None;
    }
    let call = Call {
        tool: format!(
            "mcp__{}__{}",
            approval.server_name.as_str(),
            meta.tool_name?.as_str()
        ),
        command: None,
        paths: path_argument(meta.tool_params),
    };
    Some((
        call,
        (
            approval.thread_id.0.into_owned(),
            approval.turn_id?.0.into_owned(),
        ),
    ))
}
