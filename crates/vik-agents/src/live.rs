//! What an agent is doing right now, beside its events.

/// What of an answer is arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arriving {
    Text,
    Thinking,
    /// The arguments of a tool call.
    ToolInput,
}

/// Facts about a running agent that change too often for its log.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AgentLive {
    /// What of an answer arrived last; `None` if its message or call is whole.
    pub arriving: Option<Arriving>,
    /// The number of characters of answers that arrived in parts.
    pub arrived_chars: u64,
    /// The number of bytes of partial lines ([`Adapter::is_partial`](crate::Adapter::is_partial)).
    pub partial_bytes: u64,
    /// The number of lines that only show that the agent or its provider is connected.
    pub heartbeats: u64,
    /// The tokens that the conversation takes of the context.
    pub context_used: Option<u64>,
    /// The size of the context, in tokens.
    pub context_window: Option<u64>,
    pub rate_limit: Option<RateLimit>,
}

impl AgentLive {
    /// Counts a partial line and its newline.
    pub(crate) fn count_partial_line(&mut self, line: &str) {
        self.partial_bytes += line.len() as u64 + 1;
    }

    pub(crate) fn arrived(&mut self, kind: Arriving, text: &str) {
        self.arriving = Some(kind);
        self.arrived_chars += text.chars().count() as u64;
    }
}

/// How much of a rate limit is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// From 0 to 100.
    pub used_percent: f64,
    /// When it is reset, in Unix seconds.
    pub resets_at: Option<i64>,
}
