//! Keeps the conversation within the context of the model.

use std::ops::ControlFlow;

use super::compaction::{Compaction, fit};
use super::{Agent, Ending};
use crate::conversation::{Message, Usage};
use crate::events::Compacted;
use crate::provider::{Progress, ProviderError, Request};
use crate::session::Entry;

/// The target after a compaction, as a share of the window. A lower target makes compactions rarer.
const TARGET_SHARE: f64 = 0.40;
/// The target as a part of the soft limit, if that limit is small.
const TARGET_PART_OF_SOFT: f64 = 0.60;
/// The minimum share for turns, however much is pinned.
const MIN_TURNS_SHARE: f64 = 0.25;
/// The share for a summary, and its bounds in bytes.
const SUMMARY_SHARE_AND_BOUNDS: (f64, usize, usize) = (0.08, 800, 8000);

const SUMMARY_PROMPT: &str = "Before older messages are left out to save room: sum up in at most 200 words what you decided and why, \
                   what is done, and what is still to do. Answer with these words only, without a tool call.";

impl Agent<'_> {
    /// Compacts the conversation when the context is nearly full.
    pub(super) fn make_room(&mut self) -> ControlFlow<Ending> {
        let history = self.run.session.history();
        let context = self.run.settings.context;
        let (soft, hard) = (f64::from(context.soft) / 100.0, f64::from(context.hard) / 100.0);
        let Some(share) = self
            .estimator
            .share(history.bytes())
            .filter(|share| *share >= soft)
        else {
            return ControlFlow::Continue(());
        };
        let pinned: usize = history.prompts().iter().map(String::len).sum();
        let room = |share| self.estimator.message_bytes(share).unwrap_or(0);
        let turns = self.estimator.bytes(MIN_TURNS_SHARE).unwrap_or(0);
        let target = room(TARGET_SHARE.min(soft * TARGET_PART_OF_SOFT))
            .max(pinned + turns)
            .min(room(soft));
        let Some(mut compaction) = fit(history, target, 2, self.summary_bytes()) else {
            return ControlFlow::Continue(());
        };
        if share < hard && self.run.settings.summaries && compaction.summary.is_some() {
            self.ask_for_summary(&mut compaction)?;
        }
        self.compact(compaction)
    }

    /// Compacts the conversation after the provider refused a request as too long, whatever the
    /// estimate was. Returns whether the request is shorter now.
    pub(super) fn overflow(&mut self, times: u32) -> ControlFlow<Ending, bool> {
        let history = self.run.session.history();
        let part = history.bytes() / 2;
        let target = match self.estimator.message_bytes(TARGET_SHARE) {
            Some(target) if times == 0 => target.min(part),
            _ => part,
        };
        let Some(compaction) = fit(history, target, 1, self.summary_bytes()) else {
            return ControlFlow::Continue(false);
        };
        match self.compact(compaction) {
            ControlFlow::Continue(()) => ControlFlow::Continue(true),
            ControlFlow::Break(ending) => ControlFlow::Break(ending),
        }
    }

    fn summary_bytes(&self) -> usize {
        let (share, least, most) = SUMMARY_SHARE_AND_BOUNDS;
        self.estimator.bytes(share).unwrap_or(most).clamp(least, most)
    }

    fn compact(&mut self, compaction: Compaction) -> ControlFlow<Ending> {
        let history = self.run.session.history();
        let before_tokens = self.estimator.tokens(history.bytes());
        let mut compacted = Compacted {
            before_tokens,
            after_tokens: 0,
            dropped_messages: compaction.cut.saturating_sub(1) as u64,
            shortened_results: compaction.shortens(history.messages()) as u64,
            by_model: compaction.usage != Usage::default(),
        };
        self.record_entry(Entry::Compaction(Box::new(compaction)))?;
        self.loop_detector.forget();
        compacted.after_tokens = self.estimator.tokens(self.run.session.history().bytes());
        self.run.journal.compaction(compacted);
        ControlFlow::Continue(())
    }

    /// Asks the model for a summary of the dropped turns. If it gives none, the facts alone are
    /// used.
    fn ask_for_summary(&mut self, compaction: &mut Compaction) -> ControlFlow<Ending> {
        let run = &mut self.run;
        let mut messages = run.session.history().messages().to_vec();
        match messages.last_mut() {
            Some(Message::User { text }) => text.push_str(&format!("\n\n{SUMMARY_PROMPT}")),
            _ => messages.push(Message::user(SUMMARY_PROMPT)),
        }
        let request = Request {
            system: &run.session.head().system,
            messages: &messages,
            tools: run.tools.definitions(),
            output_schema: None,
            temperature: None,
        };
        // The content of this answer is not part of the run, but its arrival shows activity.
        let journal = run.journal;
        let mut empty = Vec::new();
        let mut progress = |progress: Progress<'_>| match progress {
            Progress::Text { .. } | Progress::Thinking { .. } => {}
            Progress::Empty(turn) => empty.push(turn.clone()),
            progress => journal.progress(&progress),
        };
        let answer = run.provider.turn(request, &mut progress, run.interrupt);
        self.count_empty(&empty);
        let turn = match answer {
            Ok(turn) => turn,
            Err(ProviderError::Interrupted) => return ControlFlow::Break(self.interrupted()),
            Err(_) => return ControlFlow::Continue(()),
        };
        self.add_usage(&turn);
        let max = self.summary_bytes();
        let text = turn.text();
        if let Some(summary) = compaction.summary.as_mut().filter(|_| !text.trim().is_empty()) {
            compaction.usage = turn.usage;
            summary.set_model_summary(&text, max);
        }
        ControlFlow::Continue(())
    }
}
