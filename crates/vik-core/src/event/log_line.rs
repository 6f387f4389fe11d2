//! The lines of a session log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Event;

/// A line of a session log.
///
/// # Examples
///
/// ```
/// use vik_core::event::{Event, LogLine, LoggedEvent};
///
/// let text = r#"{"seq":7,"at":"2026-03-04T12:00:00.5Z","kind":"message","text":"Hello"}"#;
/// let line: LogLine = serde_json::from_str(text)?;
/// assert_eq!(line.seq, Some(7));
/// let LoggedEvent::Known(Event::Message { text }) = line.event else { panic!() };
/// assert_eq!(text, "Hello");
///
/// // An event of a newer version keeps all of its fields.
/// let line: LogLine = serde_json::from_str(r#"{"seq":8,"kind":"hologram","depth":3}"#)?;
/// let LoggedEvent::Other(other) = line.event else { panic!() };
/// assert_eq!((other.kind.as_str(), &other.fields["depth"]), ("hologram", &3.into()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Serialize, Deserialize)]
pub struct LogLine {
    /// The number of the line, from 1. Absent only in text that is not from a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// When it was written. Absent if the line in the log is damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    #[serde(flatten)]
    pub event: LoggedEvent,
}

/// The event of a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "a log is read one line at a time")]
pub enum LoggedEvent {
    Known(Event<'static>),
    /// An event of another version of Vik: its kind is unknown here, or it has other fields.
    Other(OtherEvent),
}

/// An event that this version cannot decode.
#[derive(Debug, Serialize, Deserialize)]
pub struct OtherEvent {
    #[serde(default)]
    pub kind: String,
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl LogLine {
    /// Creates the line for text in place of an event that cannot be read.
    pub fn malformed(seq: Option<u64>, line: String, bytes: Option<u64>) -> Self {
        Self {
            seq,
            at: None,
            event: LoggedEvent::Known(Event::Malformed {
                line: line.into(),
                bytes,
                offset: None,
            }),
        }
    }
}
