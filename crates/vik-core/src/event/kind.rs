//! The kinds of events.

use super::Event;

macro_rules! kinds {
    ($($name:ident = $text:literal, $label:literal, $is_own:literal;)+) => {
        /// The kind of an event.
        ///
        /// # Examples
        ///
        /// ```
        /// use vik_core::event::EventKind;
        ///
        /// assert_eq!(EventKind::from_name("tool_call"), Some(EventKind::ToolCall));
        /// assert_eq!(EventKind::from_name("hologram"), None);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($name,)+
        }

        impl EventKind {
            /// All kinds, in the order of [`Event`].
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Returns the name used in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Returns the heading for people.
            pub fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)+ }
            }

            /// Returns whether Vik itself writes all events of this kind. All others come from the
            /// agent, except for approvals with a decider.
            pub fn is_own(self) -> bool {
                match self { $(Self::$name => $is_own,)+ }
            }

            /// Returns the kind with a name, if this version has it.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$name),)+
                    _ => None,
                }
            }
        }

        impl Event<'_> {
            /// Returns the kind, without the fields.
            pub fn kind(&self) -> EventKind {
                match self { $(Self::$name { .. } => EventKind::$name,)+ }
            }
        }
    };
}

// The name in JSON, the heading, and whether Vik itself writes all events of the kind.
kinds! {
    SessionStarted = "session_started", "Started", false;
    Message = "message", "Message", false;
    Reasoning = "reasoning", "Reasoning", false;
    ToolCall = "tool_call", "Tool", false;
    ToolResult = "tool_result", "Result", false;
    Subagent = "subagent", "Sub-agent", false;
    TokenUsage = "token_usage", "Usage", false;
    RateLimit = "rate_limit", "Rate limit", false;
    Approval = "approval", "Permission", false;
    Error = "error", "Error", false;
    Unknown = "unknown", "Unknown", false;
    Malformed = "malformed", "Malformed", false;
    Completed = "completed", "Completed", false;
    Resumed = "resumed", "Resumed", true;
    ResumeFailed = "resume_failed", "Not resumed", true;
    Limit = "limit", "Limit", true;
    Output = "output", "Output", true;
    PersonMessage = "person_message", "Person", true;
    Turn = "turn", "Turn", true;
    Question = "question", "Question", true;
    Answer = "answer", "Answer", true;
    Ended = "ended", "Ended", true;
}
