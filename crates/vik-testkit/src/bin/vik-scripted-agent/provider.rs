//! The output lines of each provider's CLI, as recorded from the real ones.

use serde_json::{Value, json};

/// The provider whose lines are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    Codex,
    /// `claude -p --output-format stream-json --verbose`.
    Claude,
    Vex,
    Text,
}

impl Provider {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "codex" => Self::Codex,
            "claude" | "claude_code" | "claude-code" => Self::Claude,
            "vex" => Self::Vex,
            "text" => Self::Text,
            _ => return None,
        })
    }
}

/// The session of the lines.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) cwd: String,
    pub(crate) input_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cost_usd: f64,
    pub(crate) items: u64,
}

/// An event of a session.
pub(crate) enum AgentEvent<'a> {
    Start,
    Message(&'a str),
    Reasoning(&'a str),
    Tool {
        id: &'a str,
        command: &'a str,
    },
    ToolEnd {
        id: &'a str,
        command: &'a str,
        exit_code: i32,
        output: &'a str,
    },
    File {
        path: &'a str,
        change: &'a str,
    },
    /// A transient error: the agent continues.
    Retry {
        status: u16,
        message: &'a str,
    },
    RateLimit {
        status: &'a str,
    },
    Done {
        text: &'a str,
    },
    /// The agent gives up. The status is 0 without an HTTP response.
    Failed {
        status: u16,
        message: &'a str,
    },
    /// Claude's own limits: `error_max_turns`, `error_max_budget_usd`, `error_during_execution`.
    Stopped {
        subtype: &'a str,
    },
}

impl Session {
    /// Returns the lines of an event, each without its newline.
    pub(crate) fn lines(&mut self, provider: Provider, event: &AgentEvent<'_>) -> Vec<String> {
        self.items += 1;
        match provider {
            Provider::Codex => self.codex(event).iter().map(Value::to_string).collect(),
            Provider::Claude => self.claude(event).iter().map(Value::to_string).collect(),
            Provider::Vex => self.vex(event).iter().map(Value::to_string).collect(),
            Provider::Text => text(event),
        }
    }

    fn codex(&self, event: &AgentEvent<'_>) -> Vec<Value> {
        let item = |phase: &str, item: Value| json!({"type": format!("item.{phase}"), "item": item});
        let id = format!("item_{}", self.items);
        match *event {
            AgentEvent::Start => {
                vec![
                    json!({"type": "thread.started", "thread_id": self.id}),
                    json!({"type": "turn.started"}),
                ]
            }
            AgentEvent::Message(text) => {
                vec![item(
                    "completed",
                    json!({"id": id, "type": "agent_message", "text": text}),
                )]
            }
            AgentEvent::Reasoning(text) => vec![item(
                "completed",
                json!({"id": id, "type": "reasoning", "text": text}),
            )],
            AgentEvent::Tool { id, command } => vec![item(
                "started",
                json!({"id": id, "type": "command_execution", "command": shell(command), "aggregated_output": "",
                    "exit_code": null, "status": "in_progress"}),
            )],
            AgentEvent::ToolEnd {
                id,
                command,
                exit_code,
                output,
            } => vec![item(
                "completed",
                json!({"id": id, "type": "command_execution", "command": shell(command), "aggregated_output": output,
                    "exit_code": exit_code, "status": if exit_code == 0 { "completed" } else { "failed" }}),
            )],
            AgentEvent::File { path, change } => ["in_progress", "completed"]
                .iter()
                .zip(["started", "completed"])
                .map(|(status, phase)| {
                    let changes = json!([{"path": path, "kind": change}]);
                    item(
                        phase,
                        json!({"id": id, "type": "file_change", "changes": changes, "status": status}),
                    )
                })
                .collect(),
            AgentEvent::Retry { message, .. } => {
                vec![json!({"type": "error", "message": format!("Reconnecting... 1/5 ({message})")})]
            }
            // Codex does not report rate limits in this mode.
            AgentEvent::RateLimit { .. } => Vec::new(),
            AgentEvent::Done { text } => {
                let mut lines = Vec::new();
                if !text.is_empty() {
                    lines.push(item(
                        "completed",
                        json!({"id": id, "type": "agent_message", "text": text}),
                    ));
                }
                lines.push(
                    json!({"type": "turn.completed", "usage": {"input_tokens": self.input_tokens,
                    "cached_input_tokens": self.cached_tokens, "cache_write_input_tokens": 0,
                    "output_tokens": self.output_tokens, "reasoning_output_tokens": 0}}),
                );
                lines
            }
            AgentEvent::Failed { message, .. } => vec![
                json!({"type": "error", "message": message}),
                json!({"type": "turn.failed", "error": {"message": message}}),
            ],
            // Codex prints nothing when it is interrupted.
            AgentEvent::Stopped { .. } => Vec::new(),
        }
    }

    fn claude(&self, event: &AgentEvent<'_>) -> Vec<Value> {
        let message = format!("msg_{:024}", self.items);
        let assistant = |content: Value| {
            json!({"type": "assistant", "message": {"id": message, "type": "message", "role": "assistant",
                "model": self.model, "content": [content], "stop_reason": null, "stop_sequence": null,
                "usage": {"input_tokens": 1000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                    "output_tokens": 1, "service_tier": "standard"}},
                "parent_tool_use_id": null, "session_id": self.id, "uuid": self.uuid(1)})
        };
        match *event {
            AgentEvent::Start => vec![
                json!({"type": "system", "subtype": "init", "cwd": self.cwd, "session_id": self.id,
                "tools": ["Bash", "Edit", "Read", "Write"], "mcp_servers": [], "model": self.model,
                "permissionMode": "bypassPermissions", "slash_commands": [], "apiKeySource": "ANTHROPIC_API_KEY",
                "claude_code_version": "2.1.330", "agents": [], "skills": [], "plugins": [], "uuid": self.uuid(0)}),
            ],
            AgentEvent::Message(text) => vec![assistant(json!({"type": "text", "text": text}))],
            AgentEvent::Reasoning(text) => {
                vec![assistant(
                    json!({"type": "thinking", "thinking": text, "signature": "c2ln"}),
                )]
            }
            AgentEvent::Tool { id, command } => {
                vec![assistant(
                    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}),
                )]
            }
            AgentEvent::ToolEnd {
                id,
                exit_code,
                output,
                ..
            } => {
                let failed = exit_code != 0;
                let content = if failed {
                    format!("Exit code {exit_code}\n{output}")
                } else {
                    output.to_owned()
                };
                vec![self.user(
                    &json!({"tool_use_id": id, "type": "tool_result", "content": content,
                    "is_error": failed}),
                )]
            }
            AgentEvent::File { path, .. } => {
                let id = format!("toolu_{}", self.items);
                let input = json!({"file_path": path, "content": ""});
                vec![
                    assistant(json!({"type": "tool_use", "id": id, "name": "Write", "input": input})),
                    self.user(&json!({"tool_use_id": id, "type": "tool_result", "content": "File written."})),
                ]
            }
            AgentEvent::Retry { status, message } => {
                vec![json!({"type": "system", "subtype": "api_retry", "attempt": 1,
                "max_retries": 4, "retry_delay_ms": 500, "error_status": status, "error": message,
                "session_id": self.id, "uuid": self.uuid(0)})]
            }
            AgentEvent::RateLimit { status } => vec![json!({"type": "rate_limit_event", "rate_limit_info": {
                "status": status, "resetsAt": 1_795_400_000_u64, "rateLimitType": "five_hour", "utilization": 0.92,
                "isUsingOverage": false}, "session_id": self.id, "uuid": self.uuid(0)})],
            AgentEvent::Done { text } => {
                let mut lines = Vec::new();
                if !text.is_empty() {
                    lines.push(assistant(json!({"type": "text", "text": text})));
                }
                lines.push(self.result("success", false, None, Some(text), None));
                lines
            }
            AgentEvent::Failed {
                status,
                message: text,
            } => {
                let class = match status {
                    401 | 403 => "authentication_failed",
                    404 => "model_not_found",
                    429 => "rate_limit",
                    0 | 500.. => "server_error",
                    _ => "unknown",
                };
                let mut line = assistant(json!({"type": "text", "text": text}));
                line["message"]["model"] = json!("<synthetic>");
                line["error"] = json!(class);
                vec![
                    line,
                    self.result(
                        "success",
                        true,
                        Some(status).filter(|s| *s != 0),
                        Some(text),
                        None,
                    ),
                ]
            }
            AgentEvent::Stopped { subtype } => {
                vec![self.result(
                    subtype,
                    true,
                    None,
                    None,
                    Some(json!([format!("stopped: {subtype}")])),
                )]
            }
        }
    }

    fn user(&self, content: &Value) -> Value {
        json!({"type": "user", "message": {"role": "user", "content": [content]}, "parent_tool_use_id": null,
            "session_id": self.id, "uuid": self.uuid(2), "timestamp": "2026-01-01T00:00:00.000Z"})
    }

    fn result(
        &self,
        subtype: &str,
        is_error: bool,
        status: Option<u16>,
        text: Option<&str>,
        errors: Option<Value>,
    ) -> Value {
        let fresh = self.input_tokens.saturating_sub(self.cached_tokens);
        let mut line = json!({"type": "result", "subtype": subtype, "is_error": is_error, "api_error_status": status,
            "duration_ms": 800, "duration_api_ms": 300, "num_turns": self.items});
        if let Some(text) = text {
            line["result"] = json!(text);
        }
        line["stop_reason"] = json!("end_turn");
        line["session_id"] = json!(self.id);
        line["total_cost_usd"] = json!(self.cost_usd);
        line["usage"] = json!({"input_tokens": fresh, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.cached_tokens, "output_tokens": self.output_tokens,
            "service_tier": "standard"});
        line["modelUsage"] = json!({(self.model.clone()): {"inputTokens": fresh, "outputTokens": self.output_tokens,
            "cacheReadInputTokens": self.cached_tokens, "cacheCreationInputTokens": 0, "webSearchRequests": 0,
            "costUSD": self.cost_usd, "contextWindow": 200_000}});
        line["permission_denials"] = json!([]);
        line["terminal_reason"] = json!(if is_error { "api_error" } else { "completed" });
        if let Some(errors) = errors {
            line["errors"] = errors;
        }
        line["uuid"] = json!(self.uuid(3));
        line
    }

    fn vex(&self, event: &AgentEvent<'_>) -> Vec<Value> {
        let figures = json!({"input_tokens": self.input_tokens, "cached_input_tokens": self.cached_tokens,
            "cache_write_input_tokens": 0, "output_tokens": self.output_tokens});
        let line = |kind: &str, more: Value| {
            let mut line = json!({"v": 1, "seq": self.items, "type": kind});
            if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
                line.extend(more);
            }
            line
        };
        let end = |ok: bool, reason: &str, message: &str, exit_code: i32| {
            let evidence = json!({"files_changed": [], "commits": [], "commands": []});
            line(
                "end",
                json!({"ok": ok, "reason": reason, "message": message, "exit_code": exit_code,
                "usage": figures, "cost_usd": self.cost_usd, "evidence": evidence}),
            )
        };
        match *event {
            AgentEvent::Start => vec![line(
                "session_start",
                json!({"session_id": self.id, "model": self.model,
                "version": env!("CARGO_PKG_VERSION"), "provider": "scripted", "cwd": self.cwd,
                "permission": "workspace-write"}),
            )],
            AgentEvent::Message(text) => vec![line("message", json!({"text": text}))],
            AgentEvent::Reasoning(text) => vec![line("reasoning", json!({"text": text}))],
            AgentEvent::Tool { id, command } => vec![line(
                "tool_call",
                json!({"call_id": id, "tool": "run_command",
                "input": {"command": command}}),
            )],
            AgentEvent::ToolEnd {
                id,
                exit_code,
                output,
                ..
            } => vec![line(
                "tool_result",
                json!({"call_id": id,
                "is_error": exit_code != 0, "exit_code": exit_code, "output": output}),
            )],
            AgentEvent::File { path, .. } => {
                let id = format!("call_{}", self.items);
                vec![
                    line(
                        "tool_call",
                        json!({"call_id": id, "tool": "write_file", "input": {"path": path}}),
                    ),
                    line(
                        "tool_result",
                        json!({"call_id": id, "is_error": false, "output": "written"}),
                    ),
                ]
            }
            AgentEvent::Retry { status, message } => {
                vec![line(
                    "error",
                    json!({"message": message, "fatal": false, "http_status": status}),
                )]
            }
            // vex has no event for it.
            AgentEvent::RateLimit { .. } => Vec::new(),
            AgentEvent::Done { text } => {
                vec![
                    line("message", json!({"text": text})),
                    line("usage", figures.clone()),
                    end(true, "done", text, 0),
                ]
            }
            AgentEvent::Failed { status, message } => {
                let class = match status {
                    401 | 403 => "auth",
                    429 => "rate_limit",
                    500.. => "overloaded",
                    _ => "agent",
                };
                let error = json!({"message": message, "fatal": true, "class": class, "http_status": status});
                vec![line("error", error), end(false, "failed", message, 1)]
            }
            AgentEvent::Stopped { .. } => vec![end(false, "limit", "a limit was reached", 5)],
        }
    }

    /// Returns a well-formed UUID; the salt distinguishes those of one session.
    fn uuid(&self, salt: u64) -> String {
        let pid = u64::from(std::process::id());
        format!(
            "{:08x}-0000-4000-8000-{:012x}",
            pid & 0xffff_ffff,
            self.items * 8 + salt
        )
    }
}

fn text(event: &AgentEvent<'_>) -> Vec<String> {
    match *event {
        AgentEvent::Start | AgentEvent::RateLimit { .. } => Vec::new(),
        AgentEvent::Message(text) | AgentEvent::Reasoning(text) => vec![text.to_owned()],
        AgentEvent::Tool { command, .. } => vec![format!("$ {command}")],
        AgentEvent::ToolEnd { output, .. } => output.lines().map(str::to_owned).collect(),
        AgentEvent::File { path, change } => vec![format!("{change} {path}")],
        AgentEvent::Retry { message, .. } => vec![format!("retrying: {message}")],
        AgentEvent::Done { text } => vec![text.to_owned()],
        AgentEvent::Failed { message, .. } => vec![format!("error: {message}")],
        AgentEvent::Stopped { subtype } => vec![format!("stopped: {subtype}")],
    }
}

fn shell(command: &str) -> String {
    format!("/bin/bash -lc '{}'", command.replace('\'', "'\\''"))
}
