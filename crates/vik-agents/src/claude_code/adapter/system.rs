//! Lines about the session: its start, retries, sub-agents, rate limits.

use std::borrow::Cow;
use std::fmt::Write as _;

use jiff::Timestamp;
use vik_core::event::Event;
use vik_core::outcome::FailureClass;

use super::ClaudeCode;
use crate::claude_code::errors::class_of_code;
use crate::claude_code::line::{ControlLine, Line, RateLimitLine, System, Task};
use crate::wire::{self, Text};
use crate::{RateLimit, Sink};

impl ClaudeCode {
    pub(super) fn system<'a>(&mut self, line: &'a str, parsed: &Line<'a>, sink: &mut Sink<'_>) {
        let subtype = parsed.subtype.as_ref().map_or("", Text::as_str);
        if let "status" | "thinking_tokens" | "permission_denied" | "vcs_state_changed" = subtype {
            // Keep-alives, and lines whose content is repeated by the result of the call.
            return;
        }
        let Ok(system) = serde_json::from_str::<System<'a>>(line) else {
            return wire::emit_unparsed(line, sink);
        };
        match subtype {
            // The lines of each task repeat this.
            "background_tasks_changed" => {
                let tasks = wire::read::<Vec<Task<'_>>>(system.tasks).unwrap_or_default();
                let agents = tasks
                    .iter()
                    .filter(|task| task.task_type.as_str() == "local_agent");
                if let Some(control) = &mut self.control {
                    control.set_background_agents(agents.count());
                }
            }
            "init" => {
                // Every message of a longer conversation repeats this line.
                let id = parsed.session_id.as_ref().map(|id| id.0.clone());
                let version = system.claude_code_version.map(|version| version.0);
                let model = system.model.map(|model| model.0);
                self.session.set_activity("thinking");
                self.session.start(id, version, model, sink);
            }
            "api_retry" => {
                let class = system.error.as_ref().map_or("unknown", Text::as_str);
                let mut message = format!("the model API failed ({class}");
                if let Some(status) = system.error_status {
                    let _ = write!(message, ", HTTP {status}");
                }
                let _ = write!(
                    message,
                    "); retry {} of {} in {:.0} ms",
                    system.attempt.unwrap_or(0),
                    system.max_retries.unwrap_or(0),
                    system.retry_delay_ms.unwrap_or(0.0)
                );
                let failure_class = class_of_code(class, system.error_status, "");
                if !self.fatal_reported {
                    self.session
                        .record_fault(&message, failure_class, system.error_status);
                }
                sink(Event::Error {
                    message: Cow::Owned(message),
                    fatal: false,
                    failure_class,
                    http_status: system.error_status,
                });
            }
            "model_fallback" | "model_refusal_no_fallback" => {
                let refused = subtype != "model_fallback";
                let message = system.content.map(|text| text.0).filter(|text| !text.is_empty());
                let otherwise = if refused {
                    "the model refused the request"
                } else {
                    "the model was changed"
                };
                let failure_class = if refused { Some(FailureClass::Model) } else { None };
                let message = message.unwrap_or(Cow::Borrowed(otherwise));
                if refused {
                    self.session.record_fault(&message, failure_class, None);
                }
                sink(Event::Error {
                    message,
                    fatal: false,
                    failure_class,
                    http_status: None,
                });
            }
            subtype if subtype.starts_with("task_") => {
                let patched = system.patch.and_then(|patch| patch.status);
                let event = Cow::Borrowed(subtype.trim_start_matches("task_"));
                let status = system.status.or(patched).map_or(event, |status| status.0);
                sink(Event::Subagent {
                    id: system.task_id.map(|id| id.0),
                    status,
                    description: system.description.or(system.summary).map(|text| text.0),
                });
            }
            _ => wire::emit_unparsed(line, sink),
        }
    }

    pub(super) fn rate_limit(&mut self, line: &str, sink: &mut Sink<'_>) {
        let Ok(RateLimitLine {
            rate_limit_info: info,
        }) = serde_json::from_str(line)
        else {
            return wire::emit_unparsed(line, sink);
        };
        self.rejected = info
            .status
            .as_ref()
            .is_some_and(|status| status.as_str() == "rejected");
        if self.rejected {
            let resets_at = info
                .resets_at
                .and_then(|at| Timestamp::from_second(at as i64).ok());
            self.resets_at = resets_at;
        }
        if let Some(utilization) = info.utilization {
            self.session.live.rate_limit = Some(RateLimit {
                used_percent: utilization * 100.0,
                resets_at: info.resets_at.map(|at| at as i64),
            });
        }
        sink(Event::RateLimit {
            status: info.status.map(|status| status.0),
            resets_at_unix: info.resets_at.map(|at| at as i64),
            utilization: info.utilization,
        });
    }

    pub(super) fn control(&mut self, line: &str, sink: &mut Sink<'_>) {
        match serde_json::from_str::<ControlLine<'_>>(line) {
            Ok(ControlLine { request }) if request.subtype.as_str() == "can_use_tool" => {
                sink(Event::Approval {
                    by: None,
                    tool: request.tool_name.map_or(Cow::Borrowed(""), |tool| tool.0),
                    decision: Cow::Borrowed("requested"),
                    detail: wire::present(request.input).map(|input| Cow::Borrowed(input.get())),
                });
            }
            _ => wire::emit_unparsed(line, sink),
        }
    }
}
