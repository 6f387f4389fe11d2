//! Running what an answer asks for.

use std::ops::ControlFlow;

use super::{Agent, Ending, unwritten};
use crate::conversation::{Message, ToolCall, ToolResult};
use crate::session::Entry;

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
}
