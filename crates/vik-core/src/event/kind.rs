//! The kinds of events.

use super::Event;

macro_rules! kinds {
    ($($name:ident = $text:literal, $label:literal;)+) => {
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

            /// Returns the kind with a name, if this version has it.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$name),)+
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    SessionStarted = "session_started", "Started";
    Message = "message", "Message";
    Reasoning = "reasoning", "Reasoning";
    ToolCall = "tool_call", "Tool";
    ToolResult = "tool_result", "Result";
    Subagent = "subagent", "Sub-agent";
    TokenUsage = "token_usage", "Usage";
    RateLimit = "rate_limit", "Rate limit";
    Approval = "approval", "Permission";
    Error = "error", "Error";
    Unknown = "unknown", "Unknown";
    Malformed = "malformed", "Malformed";
    Completed = "completed", "Completed";
    Resumed = "resumed", "Resumed";
    ResumeFailed = "resume_failed", "Not resumed";
    Limit = "limit", "Limit";
    Output = "output", "Output";
    PersonMessage = "person_message", "Person";
    Turn = "turn", "Turn";
    Question = "question", "Question";
    Answer = "answer", "Answer";
    Ended = "ended", "Ended";
}

impl EventKind {
    /// Returns whether Vik itself writes all events of this kind. All others come from the agent,
    /// except for approvals with a decider.
    pub fn is_own(self) -> bool {
        match self {
            Self::Resumed
            | Self::ResumeFailed
            | Self::Limit
            | Self::Output
            | Self::PersonMessage
            | Self::Turn
            | Self::Question
            | Self::Answer
            | Self::Ended => true,
            Self::SessionStarted
            | Self::Message
            | Self::Reasoning
            | Self::ToolCall
            | Self::ToolResult
            | Self::Subagent
            | Self::TokenUsage
            | Self::RateLimit
            | Self::Approval
            | Self::Error
            | Self::Unknown
            | Self::Malformed
            | Self::Completed => false,
        }
    }
}

impl Event<'_> {
    /// Returns the kind, without the fields.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::SessionStarted { .. } => EventKind::SessionStarted,
            Self::Message { .. } => EventKind::Message,
            Self::Reasoning { .. } => EventKind::Reasoning,
            Self::ToolCall { .. } => EventKind::ToolCall,
            Self::ToolResult { .. } => EventKind::ToolResult,
            Self::Subagent { .. } => EventKind::Subagent,
            Self::TokenUsage { .. } => EventKind::TokenUsage,
            Self::RateLimit { .. } => EventKind::RateLimit,
            Self::Approval { .. } => EventKind::Approval,
            Self::Error { .. } => EventKind::Error,
            Self::Unknown { .. } => EventKind::Unknown,
            Self::Malformed { .. } => EventKind::Malformed,
            Self::Completed { .. } => EventKind::Completed,
            Self::Resumed { .. } => EventKind::Resumed,
            Self::ResumeFailed { .. } => EventKind::ResumeFailed,
            Self::Limit { .. } => EventKind::Limit,
            Self::Output { .. } => EventKind::Output,
            Self::PersonMessage { .. } => EventKind::PersonMessage,
            Self::Turn { .. } => EventKind::Turn,
            Self::Question { .. } => EventKind::Question,
            Self::Answer { .. } => EventKind::Answer,
            Self::Ended(_) => EventKind::Ended,
        }
    }
}
