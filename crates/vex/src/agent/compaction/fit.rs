//! Decides how much must be left out.

use super::{Compaction, MIN_SHRINKABLE_BYTES, first_lines, opening, size};
use crate::conversation::Message;
use crate::session::History;

/// The minimum size of a shortened result, in bytes.
const MIN_RESULT_BYTES: usize = 200;

/// Returns the compaction that makes the messages fit into `target` bytes, or `None` if none is
/// needed or none is possible. The last `recent` turns are shortened last. `summary_bytes` is the
/// maximum length of a summary.
pub fn fit(history: &History, target: usize, recent: usize, summary_bytes: usize) -> Option<Compaction> {
    if history.bytes() <= target {
        return None;
    }
    let messages = history.messages();
    let turns: Vec<usize> = (1..messages.len())
        .filter(|&at| matches!(messages[at], Message::Assistant(_)))
        .collect();
    let (&first, &last) = (turns.first()?, turns.last()?);
    let recent = turns[turns.len().saturating_sub(recent.max(1))];

    let mut compaction = Compaction {
        shrink_before: recent,
        ..Compaction::default()
    };
    let sizes: Vec<usize> = messages
        .iter()
        .enumerate()
        .map(|(at, message)| shrunk(at < recent, message))
        .collect();
    let shrinks = sizes.iter().sum::<usize>() < history.bytes();
    if sizes.iter().sum::<usize>() <= target {
        return Some(compaction);
    }

    // Keep as many turns as fit beside a summary of maximum length.
    let pinned: usize = history.prompts().iter().map(|prompt| prompt.len() + 2).sum();
    let plan: usize = history.plan().iter().map(|step| step.text.len() + 8).sum();
    let room = target.saturating_sub(pinned + plan + summary_bytes + 100);
    let fits = |&&cut: &&usize| sizes[cut..].iter().sum::<usize>() <= room;
    let cut = turns.iter().find(fits).copied().unwrap_or(last);
    let left = if cut > first {
        let mut summary = history.summary().clone();
        summary.absorb(&messages[1..cut], summary_bytes);
        let text = opening(history.prompts(), history.environment(), &summary, history.plan());
        let opening = size(&Message::User { text });
        compaction.cut = cut;
        compaction.summary = Some(summary);
        target.saturating_sub(opening)
    } else {
        target.saturating_sub(sizes[0])
    };

    let kept = &messages[cut.max(1)..];
    if sizes[cut.max(1)..].iter().sum::<usize>() > left {
        let outputs = kept.iter().filter_map(|message| match message {
            Message::Tool(result) => Some(result.output.len()),
            _ => None,
        });
        let (count, total) = outputs
            .clone()
            .fold((0, 0), |(count, sum), len| (count + 1, sum + len));
        let other = kept.iter().map(size).sum::<usize>() - total;
        let cap = (left.saturating_sub(other) / count.max(1)).max(MIN_RESULT_BYTES);
        if outputs.clone().any(|len| len > cap) {
            compaction.cap = Some(cap);
        }
    }
    let changes = shrinks || compaction.summary.is_some() || compaction.cap.is_some();
    changes.then_some(compaction)
}

fn shrunk(old: bool, message: &Message) -> usize {
    match message {
        Message::Tool(result) if old && result.output.len() > MIN_SHRINKABLE_BYTES => {
            size(message) - result.output.len() + first_lines(&result.output).len()
        }
        _ => size(message),
    }
}
