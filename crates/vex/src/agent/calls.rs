//! Running the tool calls of an answer.

use std::ops::ControlFlow;

use super::loop_detector::{Effect, TurnAction};
use super::{Agent, Ending, log_failure};
use crate::conversation::{Message, ToolCall, ToolResult};
use crate::events::ExitReason;
use crate::session::Entry;
use crate::tools::UpdatePlan;
use crate::tools::{Need, Tool, Toolbox};

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
        for (call, result) in calls.iter().zip(&results) {
            let effect = effect(tools, call);
            if effect != Effect::Note {
                self.called = true;
                self.called_since_check = true;
                self.retry_budget.retries = 0;
            }
            self.planned |= effect == Effect::Note;
            self.loop_detector.record_call(call, result, effect);
        }
        self.corrected = false;
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

    /// Checks, at the end of a turn whose text is `text`, whether the run is in a loop.
    pub(super) fn check_for_loop(&mut self, text: &str) -> ControlFlow<Ending> {
        match self.loop_detector.end_turn(text) {
            TurnAction::Continue => ControlFlow::Continue(()),
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

fn effect(tools: &Toolbox, call: &ToolCall) -> Effect {
    match tools.definition(&call.tool) {
        Some(definition) if definition.name == UpdatePlan::NAME => Effect::Note,
        Some(definition) if definition.need == Need::Write => Effect::Change,
        _ => Effect::Read,
    }
}
