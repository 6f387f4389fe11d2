//! Parts of an answer that is arriving: masked, and merged so that they do not flood the output.

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use vik_mask::MaskStream;

use super::types::DeltaKind;
use crate::redact;

/// The minimum time between two `delta` events.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// A part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Delta {
    pub(super) kind: DeltaKind,
    pub(super) block: u64,
    pub(super) text: String,
}

/// The parts of one answer that were not emitted yet.
#[derive(Debug, Default)]
pub(super) struct Deltas {
    /// The part that is arriving. Its mask holds back what may become a secret.
    open: Option<(DeltaKind, u64, MaskStream)>,
    waiting: VecDeque<Delta>,
    last_at: Option<Instant>,
}

impl Deltas {
    /// Masks text that arrived, and lets it wait for its turn.
    pub(super) fn push(&mut self, kind: DeltaKind, block: u64, text: &str) {
        if self
            .open
            .as_ref()
            .is_none_or(|open| (open.0, open.1) != (kind, block))
        {
            self.close();
            self.open = Some((kind, block, redact::stream()));
        }
        if let Some((.., mask)) = &mut self.open {
            let masked = mask.push(text);
            self.add(kind, block, masked);
        }
    }

    /// Takes the oldest text, unless some was taken a moment ago.
    pub(super) fn take_due(&mut self) -> Option<Delta> {
        if self.last_at.is_some_and(|at| at.elapsed() < INTERVAL) {
            return None;
        }
        let due = self.waiting.pop_front()?;
        self.last_at = Some(Instant::now());
        Some(due)
    }

    /// Ends the answer, and returns what was not taken. The time of the last delta is kept.
    pub(super) fn finish(&mut self) -> VecDeque<Delta> {
        self.close();
        mem::take(&mut self.waiting)
    }

    /// Lets the next delta be taken at once.
    #[cfg(test)]
    pub(super) fn forget_last_time(&mut self) {
        self.last_at = None;
    }

    fn close(&mut self) {
        if let Some((kind, block, mut mask)) = self.open.take() {
            let masked = mask.finish();
            self.add(kind, block, masked);
        }
    }

    fn add(&mut self, kind: DeltaKind, block: u64, text: String) {
        if text.is_empty() {
            return;
        }
        match self.waiting.back_mut() {
            Some(last) if (last.kind, last.block) == (kind, block) => last.text.push_str(&text),
            _ => self.waiting.push_back(Delta { kind, block, text }),
        }
    }
}
