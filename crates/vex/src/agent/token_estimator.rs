//! Estimates how full the context of the model is.

use crate::conversation::Turn;

/// Tokens per byte before the provider has reported any figures.
const DEFAULT_TOKENS_PER_BYTE: f64 = 0.25;

/// Estimates the tokens of requests, by the figures of the provider once it has reported any.
#[derive(Debug)]
pub(super) struct TokenEstimator {
    window: Option<u64>,
    /// The length of the system prompt and the tools, which each request contains beside the
    /// messages, in bytes.
    overhead: usize,
    per_byte: f64,
}

impl TokenEstimator {
    pub(super) fn new(window: Option<u64>, overhead: usize) -> Self {
        Self {
            window: window.filter(|window| *window > 0),
            overhead,
            per_byte: DEFAULT_TOKENS_PER_BYTE,
        }
    }

    /// Estimates the tokens of a request with messages of this length.
    pub(super) fn tokens(&self, bytes: usize) -> u64 {
        whole((bytes + self.overhead) as f64 * self.per_byte)
    }

    /// Returns the share of the window that such a request takes, or `None` if the window is
    /// unknown.
    pub(super) fn share(&self, bytes: usize) -> Option<f64> {
        Some(self.tokens(bytes) as f64 / self.window? as f64)
    }

    /// Returns the length of text that takes this share of the window.
    pub(super) fn bytes(&self, share: f64) -> Option<usize> {
        Some(whole(self.window? as f64 * share / self.per_byte) as usize)
    }

    /// Returns the length of messages with which a request takes this share of the window.
    pub(super) fn message_bytes(&self, share: f64) -> Option<usize> {
        Some(self.bytes(share)?.saturating_sub(self.overhead))
    }

    /// Learns from the answer to a request with messages of this length.
    pub(super) fn learn(&mut self, bytes: usize, turn: &Turn) {
        let bytes = (bytes + self.overhead) as f64;
        if turn.counted && turn.usage.input_tokens > 0 {
            // No text lies outside of these bounds. Some servers count only uncached tokens.
            self.per_byte = (turn.usage.input_tokens as f64 / bytes).clamp(0.12, 1.0);
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative, and far from the end"
)]
fn whole(estimate: f64) -> u64 {
    estimate.ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Usage;

    #[test]
    fn estimator_prefers_the_figures_of_the_provider() {
        let mut estimator = TokenEstimator::new(Some(1000), 400);
        assert_eq!(estimator.tokens(400), 200);
        assert_eq!(estimator.share(400), Some(0.2));
        assert_eq!(
            (estimator.bytes(0.5), estimator.message_bytes(0.5)),
            (Some(2000), Some(1600))
        );
        let turn = |input_tokens, counted| Turn {
            usage: Usage {
                input_tokens,
                ..Usage::default()
            },
            counted,
            ..Turn::default()
        };
        estimator.learn(400, &turn(400, false));
        assert_eq!(estimator.tokens(400), 200, "an estimate teaches nothing");
        estimator.learn(400, &turn(400, true));
        assert_eq!(estimator.tokens(400), 400);
        estimator.learn(400, &turn(1_000_000, true));
        assert_eq!(estimator.tokens(400), 800, "figures that cannot be are bounded");
    }

    #[test]
    fn share_is_none_without_a_context_window() {
        let estimator = TokenEstimator::new(None, 0);
        assert_eq!((estimator.share(1), estimator.bytes(0.5)), (None, None));
        assert_eq!(TokenEstimator::new(Some(0), 0).share(1), None);
    }
}
