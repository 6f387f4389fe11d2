//! Decodes the lines of a session log for display.

use jiff::Timestamp;
use vik_core::event::LogLine;
use vik_text::transcript::Entry as Content;

/// The maximum bytes of one text.
const MAX_TEXT: usize = 64 << 10;

pub(super) struct Item {
    pub(super) seq: u64,
    pub(super) at: Option<Timestamp>,
    pub(super) content: Content,
}

impl Item {
    /// Decodes a line; `None` if it is not a line of a session log.
    pub(super) fn read(line: &str) -> Option<Self> {
        let line: LogLine = serde_json::from_str(line).ok()?;
        let mut content = Content::of(line.event);
        content.truncate(MAX_TEXT);
        Some(Self {
            seq: line.seq?,
            at: line.at,
            content,
        })
    }
}
