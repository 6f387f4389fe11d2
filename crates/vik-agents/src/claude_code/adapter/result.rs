//! The `result` line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use vik_core::event::Event;
use vik_core::outcome::{FailureClass, Usage};

use super::ClaudeCode;
use crate::claude_code::control::Control;
use crate::claude_code::errors::failure_text;
use crate::claude_code::line::{Denial, RequestUsage, ResultLine};
use crate::state::note;
use crate::wire;
use crate::{Sink, classify};

/// The content of the last `result` line.
#[derive(Clone, Debug, Default)]
pub(super) struct FinalResult {
    pub(super) ok: bool,
    pub(super) over_budget: bool,
    pub(super) structured: Option<Box<RawValue>>,
}

impl ClaudeCode {
    pub(super) fn result(&mut self, line: &str, sink: &mut Sink<'_>) {
        let Ok(result) = serde_json::from_str::<ResultLine<'_>>(line) else {
            return wire::emit_unparsed(line, sink);
        };
        if let Some(id) = wire::text(result.session_id) {
            self.session.set_id(&id);
        }
        self.session.open_tools.clear();
        self.record_usage(&result, sink);
        for denial in wire::read::<Vec<Denial<'_>>>(result.permission_denials).unwrap_or_default() {
            let id = wire::text(denial.tool_use_id).unwrap_or_default();
            if self.control.as_ref().is_some_and(|c| c.is_refused(&id)) {
                continue;
            }
            sink(Event::Approval {
                by: None,
                tool: denial.tool_name.0,
                decision: Cow::Borrowed("denied"),
                detail: wire::present(denial.tool_input).map(|input| Cow::Borrowed(input.get())),
            });
        }

        let is_interrupted = self.control.as_mut().is_some_and(Control::take_interrupt);
        let subtype = wire::text(result.subtype).unwrap_or(Cow::Borrowed(""));
        let terminal = wire::text(result.terminal_reason).unwrap_or(Cow::Borrowed(""));
        let status = wire::read::<u16>(result.api_error_status);
        // `subtype` is `success` for API failures too; an interrupt may come without `is_error`.
        let ok = subtype == "success"
            && wire::read::<bool>(result.is_error) == Some(false)
            && wire::present(result.api_error_status).is_none()
            && !terminal.starts_with("aborted");
        if let Some(control) = &mut self.control {
            control.on_turn_end(ok);
        }
        let over_budget = matches!(&*subtype, "error_max_turns" | "error_max_budget_usd");
        let stop = wire::text(result.stop_reason).unwrap_or(Cow::Borrowed(""));
        let text = wire::text(result.result);
        let structured = wire::present(result.structured_output);
        let reasons = if ok || subtype == "success" {
            [&terminal, &stop, &subtype]
        } else {
            [&subtype, &terminal, &stop]
        };
        let reason = reasons
            .into_iter()
            .find(|reason| !reason.is_empty())
            .map(|reason| Cow::Borrowed(&**reason));
        if ok {
            if let Some(text) = &text {
                self.session.set_last_message(text);
            }
            self.session.fault = None;
            self.session.set_activity("done");
            let message = self.session.last_message().map(Cow::Borrowed);
            sink(Event::Completed {
                ok,
                message,
                result: structured.map(Into::into),
                reason,
            });
        } else {
            let message = failure_text(&result, text.as_deref(), &subtype);
            let class = self.failure_class(status, &message, &terminal, &stop, &subtype);
            self.session.record_fault(&message, class, status);
            self.session.set_activity("failed");
            if is_interrupted && (terminal.starts_with("aborted") || subtype == "error_during_execution") {
                // The message for which Vik stopped it starts another turn.
                sink(note("the current step was stopped for a message".into()));
                self.fatal_reported = false;
                self.final_result = Some(FinalResult::default());
                return;
            }
            if !self.fatal_reported {
                let message = Cow::Borrowed(&*message);
                sink(Event::Error {
                    message,
                    fatal: true,
                    failure_class: class,
                    http_status: status,
                });
            }
            let message = Some(Cow::Borrowed(&*message));
            sink(Event::Completed {
                ok,
                message,
                result: structured.map(Into::into),
                reason,
            });
        }
        self.fatal_reported = false;
        let structured = structured.map(ToOwned::to_owned);
        self.final_result = Some(FinalResult {
            ok,
            over_budget,
            structured,
        });
    }

    /// Records the usage and the cost of a result line.
    fn record_usage(&mut self, result: &ResultLine<'_>, sink: &mut Sink<'_>) {
        // `modelUsage` covers the whole process so far, `usage` one message each. The result
        // replaces the sum over the requests, even if it is lower.
        let main = wire::read::<RequestUsage>(result.usage).map(Usage::from);
        let models: BTreeMap<String, RequestUsage> = wire::read(result.model_usage).unwrap_or_default();
        let models = models
            .values()
            .map(|model| (Usage::from(*model), model.context_window.0));
        // The main model is the one with the most input.
        let by_input = models.clone().map(|(usage, window)| (usage.input_tokens, window));
        let window = by_input.max().map(|(_, window)| window);
        let live = &mut self.session.live;
        live.context_window = window.filter(|window| *window > 0).or(live.context_window);
        let models = models.map(|(usage, _)| usage).reduce(Usage::plus);
        self.results = self.results.plus(main.unwrap_or_default());
        let before = models
            .filter(|total| {
                self.requests
                    .total_includes_previous(*total, self.results, self.previous.usage)
            })
            .map(|_| self.previous)
            .unwrap_or_default();
        if let Some(figures) = models.or(main.map(|_| self.results)) {
            self.session.usage = figures.since(before.usage);
            self.reported = Some((self.session.usage, self.requests.sum()));
        }
        if let Some(cost) = wire::read::<f64>(result.total_cost_usd) {
            self.session.cost_usd = Some((cost - before.cost_usd).max(0.0));
        }
        self.session.report_usage(sink);
    }

    fn failure_class(
        &self,
        status: Option<u16>,
        message: &str,
        terminal: &str,
        stop: &str,
        subtype: &str,
    ) -> Option<FailureClass> {
        if terminal == "prompt_too_long" {
            return Some(FailureClass::Context);
        }
        if subtype.starts_with("error_max") {
            // A limit of the agent's own.
            return Some(FailureClass::Agent);
        }
        // After the status, the class that the CLI gave on the line before is the most reliable
        // one.
        let reported = self
            .session
            .fault
            .as_ref()
            .filter(|_| self.fatal_reported)
            .and_then(|fault| fault.class);
        let class = match status {
            Some(_) => classify::class_of_error(status, message).or(reported),
            None => reported.or_else(|| classify::class_of_error(None, message)),
        };
        class
            .or_else(|| (stop == "refusal").then_some(FailureClass::Model))
            .or_else(|| self.rejected.then_some(FailureClass::RateLimit))
    }
}
