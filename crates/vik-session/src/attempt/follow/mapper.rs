//! Maps lines of an agent to events.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use vik_agents::{Adapter, AgentRequest};
use vik_core::event::Event;
use vik_mask::Masker;
use vik_session_log::SessionLog;
use vik_store::StoreError;

use super::lines::Line;
use super::open_tools::OpenTools;

/// The number of bytes that are kept of a line that is too long.
pub(super) const MAX_CUT_BYTES: usize = 64 * 1024;

/// What was mapped at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mapped {
    pub(super) lines: u64,
    /// The events that show what the agent does; usage and rate limits do not.
    pub(super) events: u64,
}

/// Maps lines to events, and writes those that the log does not contain.
pub(super) struct Mapper<'f> {
    pub(super) at: Timestamp,
    pub(super) printed_at: Timestamp,
    pub(super) masker: Masker,
    pub(super) adapter: &'f mut dyn Adapter,
    pub(super) log: &'f mut SessionLog,
    pub(super) log_error: &'f mut Option<Arc<StoreError>>,
    pub(super) tools: &'f mut OpenTools,
    pub(super) logged: &'f mut u64,
    pub(super) requests: &'f mut Vec<AgentRequest>,
    pub(super) answered: &'f mut bool,
    pub(super) mapped: Mapped,
}

impl Mapper<'_> {
    pub(super) fn line(&mut self, line: Line<'_>) {
        self.mapped.lines += 1;
        match line {
            Line::Whole(line) => self.whole(line),
            Line::Cut { head, bytes, offset } => self.cut(head, bytes, offset),
        }
    }

    fn whole(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return;
        }
        // All of the agent's output passes through here, so no secret reaches the log or the
        // adapter.
        let text = match std::str::from_utf8(line) {
            Ok(text) => Cow::Borrowed(text),
            // Much slower.
            Err(_) => String::from_utf8_lossy(line),
        };
        let masked_line = self.masker.mask_json(&text);
        let Self {
            adapter,
            log,
            log_error,
            tools,
            logged,
            at,
            printed_at,
            answered,
            mapped,
            ..
        } = self;
        adapter.line(masked_line.as_bytes(), &mut |event: Event<'_>| {
            tools.on_event(&event, *printed_at);
            **answered |= event.is_answer();
            mapped.events += u64::from(!matches!(
                event,
                Event::TokenUsage { .. } | Event::RateLimit { .. }
            ));
            if **logged > 0 {
                **logged -= 1;
            } else if log_error.is_none() {
                **log_error = log.push(*at, &event).err().map(Arc::new);
            }
        });
        self.requests.append(&mut self.adapter.take_requests());
    }

    /// Writes the start of a line that is too long to the log. The adapter does not receive such a
    /// line.
    fn cut(&mut self, start: &[u8], bytes: u64, offset: u64) {
        if *self.logged > 0 {
            *self.logged -= 1;
            return;
        }
        if self.log_error.is_some() {
            return;
        }
        let masker = &self.masker;
        let text = String::from_utf8_lossy(&start[..start.len().min(MAX_CUT_BYTES + masker.around())]);
        let kept = head(&text, MAX_CUT_BYTES).len();
        let event = Event::Malformed {
            line: masker.mask_part(&text, 0..kept).into(),
            bytes: Some(bytes),
            offset: Some(offset),
        };
        *self.log_error = self.log.push(self.at, &event).err().map(Arc::new);
    }
}

/// Returns at most the first `max_bytes` bytes of a text, whole characters only.
pub(super) fn head(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}
