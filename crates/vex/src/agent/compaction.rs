//! What requests leave out when the conversation grows too long, and what replaces it.
//!
//! Old tool output is shortened first: its first lines and a count remain. Then whole turns are
//! replaced by a summary of fixed form, built from the messages themselves. The prompts and the
//! plan are never left out, and a call is never separated from its result.

mod fit;
mod summary;

use serde::{Deserialize, Serialize};

pub use fit::fit;
pub use summary::Summary;

use crate::conversation::{Arguments, Block, Message, Usage};
use crate::plan::{self, Step};

/// Shorter output is not worth shortening, in bytes.
const MIN_SHRINKABLE_BYTES: usize = 600;
/// How much of an old output is kept: lines and bytes.
const KEPT_LINES_AND_BYTES: (usize, usize) = (6, 300);
/// What each message costs beside its texts, in bytes.
const MESSAGE_OVERHEAD_BYTES: usize = 40;

/// One compaction step. It records the decision, so that reading it again gives the same messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// Results before this message keep only their first lines.
    pub shrink_before: usize,
    /// The maximum size of any result, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<usize>,
    /// The first message after the opening one that is kept. Used only if there is a summary.
    #[serde(default)]
    pub cut: usize,
    /// Replaces all messages before `cut`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The usage of the request for the model's own summary.
    #[serde(default)]
    pub usage: Usage,
}

impl Compaction {
    pub(crate) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        self.summary.iter_mut().flat_map(Summary::texts)
    }

    /// Shortens results in place.
    pub(crate) fn shorten(&self, messages: &mut [Message]) {
        for (index, message) in messages.iter_mut().enumerate() {
            let Message::Tool(result) = message else { continue };
            if let Some(short) = self.shortened(index, &result.output) {
                result.output = short;
            }
        }
    }

    /// Returns the number of kept results that this step shortens.
    pub(crate) fn shortens(&self, messages: &[Message]) -> usize {
        let kept = messages.iter().enumerate().skip(self.cut);
        kept.filter(|(index, message)| match message {
            Message::Tool(result) => self.shortened(*index, &result.output).is_some(),
            _ => false,
        })
        .count()
    }

    fn shortened(&self, index: usize, output: &str) -> Option<String> {
        if index < self.shrink_before && output.len() > MIN_SHRINKABLE_BYTES {
            return Some(first_lines(output));
        }
        self.cap
            .filter(|cap| output.len() > *cap)
            .map(|cap| both_ends(output, cap))
    }
}

/// Returns the first message of a shortened conversation: the prompts, the environment, then the
/// summary of the work.
pub(crate) fn opening(prompts: &[String], environment: &str, summary: &Summary, steps: &[Step]) -> String {
    let mut text = prompts.join("\n\n");
    text.push_str("\n\n");
    if !environment.is_empty() {
        text.push_str(environment);
        text.push('\n');
    }
    text.push_str(&summary.render());
    if !steps.is_empty() {
        text.push_str("Plan:\n");
        text.push_str(plan::render(steps).trim_end());
        text.push('\n');
    }
    text
}

/// Returns the approximate length of a message in a request, in bytes.
pub(crate) fn size(message: &Message) -> usize {
    let text = match message {
        Message::User { text } => text.len(),
        Message::Tool(result) => result.output.len() + result.call_id.len(),
        Message::Assistant(turn) => turn.blocks.iter().map(size_of_block).sum(),
    };
    text + MESSAGE_OVERHEAD_BYTES
}

fn size_of_block(block: &Block) -> usize {
    match block {
        Block::Text { text } => text.len(),
        Block::Thinking { text, signature } => text.len() + signature.as_ref().map_or(0, String::len),
        Block::Native { item, .. } => item.to_string().len(),
        Block::ToolCall(call) => {
            let input = match &call.input {
                Arguments::Json(input) => input.to_string().len(),
                Arguments::Broken { raw, .. } => raw.len(),
            };
            input + call.tool.len() + call.call_id.len() + MESSAGE_OVERHEAD_BYTES
        }
    }
}

fn first_lines(output: &str) -> String {
    let (lines, bytes) = KEPT_LINES_AND_BYTES;
    let end = output
        .match_indices('\n')
        .nth(lines - 1)
        .map_or(output.len(), |(at, _)| at);
    let kept = &output[..output.floor_char_boundary(end.min(bytes))];
    let left_out = output[kept.len()..].trim_start_matches('\n');
    format!(
        "{kept}\n[… {} more lines, {} bytes, left out to save room: call the tool again if they are needed]",
        left_out.lines().count(),
        left_out.len()
    )
}

fn both_ends(output: &str, cap: usize) -> String {
    // The note counts towards the limit.
    let half = cap.saturating_sub(60) / 2;
    let head = output.floor_char_boundary(half);
    let tail = output.ceil_char_boundary(output.len() - half);
    format!(
        "{}\n[… {} bytes left out to save room …]\n{}",
        &output[..head],
        tail - head,
        &output[tail..]
    )
}

#[cfg(test)]
mod tests;
