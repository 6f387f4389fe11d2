//! The tool calls that an agent has started and not ended.

use std::time::Instant;

use jiff::Timestamp;
use vik_core::event::Event;

use super::mapper::head;

/// The maximum number of tracked open tool calls, and the maximum length of a call id in bytes.
const MAX_OPEN_TOOLS: usize = 1024;
const MAX_TOOL_ID: usize = 256;

/// The open tool calls, oldest first. A call may end in the same poll in which the next one starts.
#[derive(Debug, Default)]
pub(super) struct OpenTools(Vec<OpenTool>);

#[derive(Debug)]
struct OpenTool {
    id: String,
    name: String,
    since: Instant,
    opened_at: Timestamp,
}

impl OpenTool {
    fn new(id: &str, name: &str, opened_at: Timestamp) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            since: Instant::now(),
            opened_at,
        }
    }
}

impl OpenTools {
    /// Handles an event that was printed at this time.
    pub(super) fn on_event(&mut self, event: &Event<'_>, at: Timestamp) {
        match event {
            Event::ToolCall { call_id, tool, .. } => {
                let new = head(call_id, MAX_TOOL_ID);
                if self.0.len() < MAX_OPEN_TOOLS && self.0.iter().all(|open| open.id != new) {
                    self.0.push(OpenTool::new(new, head(tool, MAX_TOOL_ID), at));
                }
            }
            Event::ToolResult { call_id, .. } => {
                let ended = head(call_id, MAX_TOOL_ID);
                self.0.retain(|open| open.id != ended);
            }
            _ => {}
        }
    }

    /// Adopts the adapter's count of open calls, as the end of a turn closes all calls.
    pub(super) fn set_count(&mut self, count: usize) {
        if self.0.is_empty() && count > 0 {
            self.0.push(OpenTool::new("", "", Timestamp::now()));
        }
        self.0.drain(..self.0.len().saturating_sub(count));
    }

    /// Returns since when the oldest call is open.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.0.first().map(|open| open.since)
    }

    /// Returns the name of the oldest call, which may be empty, and when it was opened.
    pub(super) fn oldest_call(&self) -> Option<(&str, Timestamp)> {
        self.0.first().map(|open| (open.name.as_str(), open.opened_at))
    }

    /// Lets all calls count as opened now for their timeout.
    pub(super) fn restart_times(&mut self, now: Instant) {
        self.0.iter_mut().for_each(|open| open.since = now);
    }
}
