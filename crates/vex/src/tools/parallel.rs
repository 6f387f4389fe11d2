//! Several calls of one answer: read-only ones run in parallel, all others in their order.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use super::Toolbox;
use crate::conversation::{ToolCall, ToolResult};
use crate::events::Journal;
use crate::interrupt::Interrupt;

/// The maximum number of parallel calls.
const MAX_THREADS: usize = 8;

impl Toolbox {
    /// Runs the calls of one answer and returns their results, in their order. `each` receives a
    /// result as soon as it and all earlier ones exist: before any call after a write starts.
    ///
    /// Adjacent read-only calls run in parallel. An interrupt deprives no call of its result.
    pub fn call_all(
        &self,
        calls: &[ToolCall],
        journal: &Journal,
        interrupt: &Interrupt,
        each: &mut dyn FnMut(&ToolResult),
    ) -> Vec<ToolResult> {
        let mut results = Vec::with_capacity(calls.len());
        let mut remaining = calls;
        while let Some(first) = remaining.first() {
            let together = remaining
                .iter()
                .take_while(|call| self.runs_side_by_side(call))
                .count();
            let (batch, after) = remaining.split_at(together.max(1));
            remaining = after;
            let mut done = |result: ToolResult| {
                each(&result);
                results.push(result);
            };
            if batch.len() == 1 {
                done(self.call(first, journal, interrupt));
            } else {
                self.side_by_side(batch, journal, interrupt, &mut done);
            }
        }
        results
    }

    fn runs_side_by_side(&self, call: &ToolCall) -> bool {
        self.find(&call.tool).is_ok_and(|(entry, _)| entry.side_by_side)
    }

    fn side_by_side(
        &self,
        calls: &[ToolCall],
        journal: &Journal,
        interrupt: &Interrupt,
        done: &mut dyn FnMut(ToolResult),
    ) {
        for call in calls {
            journal.tool_call(call, self.shown_name(call));
        }
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let next = AtomicUsize::new(0);
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            // Reads wait for disks and hosts more than they compute.
            for _ in 0..calls.len().min(MAX_THREADS).min(2 * cores) {
                let (results, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    while let Some((index, call)) = {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        calls.get(index).map(|call| (index, call))
                    } {
                        let run = std::panic::AssertUnwindSafe(|| self.execute(call, journal, interrupt));
                        let result = std::panic::catch_unwind(run).unwrap_or_else(|_| broken(call));
                        let _ = results.send((index, result));
                    }
                });
            }
            drop(sender);
            let mut waiting: Vec<Option<ToolResult>> = vec![None; calls.len()];
            let mut first = 0;
            for (index, result) in receiver {
                waiting[index] = Some(result);
                while let Some(result) = waiting.get_mut(first).and_then(Option::take) {
                    journal.tool_result(&result);
                    done(result);
                    first += 1;
                }
            }
        });
    }
}

/// Returns the result of a call whose thread panicked.
fn broken(call: &ToolCall) -> ToolResult {
    ToolResult {
        call_id: call.call_id.clone(),
        is_error: true,
        exit_code: None,
        output: format!("{} failed inside of vex", call.tool),
        denied: false,
    }
}
