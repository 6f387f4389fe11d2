//! Running what an answer asks for.

use std::ops::ControlFlow;

use super::doom::{Effect, Verdict};
use super::{Agent, Ending, unwritten};
use crate::conversation::{Message, ToolCall, ToolResult};
use crate::events::ExitReason;
use crate::session::Entry;
use crate::tools::plan::UpdatePlan;
use crate::tools::{Need, Tool, Toolbox};

impl Agent<'_> {
    /// Runs the calls of an answer. Each result is written down as soon as it is there, and each call has one when this
    /// returns, also when the run was cut off meanwhile.
    pub(super) fn call(&mut self, calls: &[ToolCall]) -> ControlFlow<Ending> {
        let run = &mut self.run;
        let (tools, journal, interrupt) = (run.tools, run.journal, run.interrupt);
        let mut written = Ok(());
        let mut each = |result: &ToolResult| {
            if written.is_ok() {
                let message = Message::Tool(result.clone());
                written = run.session.record(Entry::Message { message });
            }
        };
        let results = tools.call_all(calls, journal, interrupt, &mut each);
        if let Err(error) = written {
            return ControlFlow::Break(unwritten(&error));
        }
        for (call, result) in calls.iter().zip(&results) {
            let effect = effect(tools, call);
            if effect != Effect::Note {
                self.called = true;
                self.called_since_check = true;
                self.patience.sent_back = 0;
            }
            self.planned |= effect == Effect::Note;
            self.doom.saw(call, result, effect);
        }
        self.corrected = false;
        self.denied = results
            .into_iter()
            .rev()
            .find_map(|result| result.denied.then_some(result.output));
        let steps = tools.plan().steps();
        if steps != self.run.session.history().plan() {
            self.note(Entry::Plan { steps })?;
        }
        ControlFlow::Continue(())
    }

    /// Sees whether the run goes in circles, now that a turn is over that said `words`.
    pub(super) fn watch(&mut self, words: &str) -> ControlFlow<Ending> {
        match self.doom.turn(words) {
            Verdict::Go => ControlFlow::Continue(()),
            Verdict::Correct { circle, message } => {
                self.run.journal.guard(circle.as_str(), &message);
                self.corrected = true;
                self.say(&message)
            }
            Verdict::Stop { circle, message } => {
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
        _ => Effect::Look,
    }
}
