//! The state that follows from the lines of a log: the messages of the next request.

use crate::agent::compaction::{self, Compaction, Summary};
use crate::conversation::{Block, Message, Turn};
use crate::plan::Step;
use crate::session::Entry;

/// The state of a conversation. The same lines give the same state, in the process that writes them
/// and in one that resumes later.
#[derive(Debug, Default)]
pub struct History {
    prompts: Vec<String>,
    environment: String,
    messages: Vec<Message>,
    summary: Summary,
    plan: Vec<Step>,
    answers: u32,
    ended: bool,
    bytes: usize,
}

impl History {
    pub fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Prompt { text } => {
                self.prompts.push(text.clone());
                self.push(Message::User { text });
            }
            Entry::Environment { text } => {
                self.environment.clone_from(&text);
                self.push(Message::User { text });
            }
            Entry::Message { message } => {
                self.ended = false;
                self.push(message);
            }
            Entry::End { .. } => self.ended = true,
            Entry::Plan { steps } => self.plan = steps,
            Entry::Compaction(compaction) => self.compact(*compaction),
            Entry::FreshStart { note } => self.start_afresh(&note),
            Entry::Session(_) | Entry::Resumed { .. } | Entry::Unknown => {}
        }
    }

    fn push(&mut self, message: Message) {
        // Some models reject two messages of the same role in a row.
        if let (Message::User { text: more }, Some(Message::User { text })) =
            (&message, self.messages.last_mut())
        {
            text.push_str("\n\n");
            text.push_str(more);
            self.bytes += more.len() + 2;
            return;
        }
        self.answers += u32::from(matches!(message, Message::Assistant(_)));
        self.bytes += compaction::size(&message);
        self.messages.push(message);
    }

    fn start_afresh(&mut self, note: &str) {
        self.messages.clear();
        self.bytes = 0;
        self.summary = Summary::default();
        self.plan.clear();
        let mut texts = self.prompts.clone();
        texts.extend([self.environment.clone(), note.to_owned()]);
        for text in texts.into_iter().filter(|text| !text.is_empty()) {
            self.push(Message::User { text });
        }
    }

    fn compact(&mut self, compaction: Compaction) {
        compaction.shorten(&mut self.messages);
        if let Some(summary) = compaction.summary {
            self.summary = summary;
            let kept = self.messages.split_off(compaction.cut.min(self.messages.len()));
            self.messages = vec![Message::user(compaction::opening(
                &self.prompts,
                &self.environment,
                &self.summary,
                &self.plan,
            ))];
            self.messages.extend(kept);
        }
        self.bytes = self.messages.iter().map(compaction::size).sum();
    }

    /// Returns the messages of the next request.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns all prompts, in order.
    pub fn prompts(&self) -> &[String] {
        &self.prompts
    }

    /// Returns the last description of the workspace.
    pub fn environment(&self) -> &str {
        &self.environment
    }

    /// Returns the last answer if it has no calls and the run has not ended.
    pub(super) fn unended_answer(&self) -> Option<&Turn> {
        match self.messages.last() {
            Some(Message::Assistant(turn)) if !self.ended && turn.tool_calls().next().is_none() => Some(turn),
            _ => None,
        }
    }

    /// Returns the summary of dropped messages.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    pub fn plan(&self) -> &[Step] {
        &self.plan
    }

    /// Returns the number of answers, including dropped ones.
    pub fn answers(&self) -> u32 {
        self.answers
    }

    /// Returns the approximate length of the messages in a request, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the ids of the calls without a result.
    pub fn open_calls(&self) -> Vec<String> {
        let answer = self
            .messages
            .iter()
            .rposition(|message| matches!(message, Message::Assistant(_)));
        let Some((answer, results)) = answer.and_then(|at| self.messages[at..].split_first()) else {
            return Vec::new();
        };
        let has_result = |id: &str| {
            results
                .iter()
                .any(|message| matches!(message, Message::Tool(result) if result.call_id == id))
        };
        let Message::Assistant(turn) = answer else {
            return Vec::new();
        };
        let calls = turn.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) if !has_result(&call.call_id) => Some(call.call_id.clone()),
            _ => None,
        });
        calls.collect()
    }
}
