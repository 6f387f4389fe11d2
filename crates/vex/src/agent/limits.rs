//! Limits of a run.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::conversation::Turn;

/// The limits of one process. Usage of earlier processes of the same conversation is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    pub turns: Option<NonZeroU32>,
    /// Tokens of all requests and answers together.
    pub tokens: Option<u64>,
    pub usd: Option<f64>,
    pub time: Option<Duration>,
}

/// The usage so far.
#[derive(Debug)]
pub(super) struct Meter {
    limits: Limits,
    turns: u32,
    tokens: u64,
    usd: f64,
    last_usd: f64,
}

impl Meter {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            turns: 0,
            tokens: 0,
            usd: 0.0,
            last_usd: 0.0,
        }
    }

    /// Counts the usage of an answer.
    pub(super) fn paid(&mut self, turn: &Turn) {
        self.tokens = self
            .tokens
            .saturating_add(turn.usage.input_tokens)
            .saturating_add(turn.usage.output_tokens);
        self.last_usd = turn.cost_usd.unwrap_or(0.0);
        self.usd += self.last_usd;
    }

    /// Counts an answer as a turn.
    pub(super) fn answered(&mut self) {
        self.turns += 1;
    }

    /// Returns why no further request of about `estimate` tokens may be sent.
    pub(super) fn forbids(&self, estimate: u64) -> Option<String> {
        if let Some(turns) = self.limits.turns.filter(|turns| self.turns >= turns.get()) {
            return Some(format!("reached the limit of {turns} turns"));
        }
        if let Some(tokens) = self.limits.tokens {
            if self.tokens >= tokens {
                return Some(format!(
                    "reached the limit of {tokens} tokens: {} used",
                    self.tokens
                ));
            }
            if self.tokens.saturating_add(estimate) > tokens {
                return Some(format!(
                    "the next request would exceed the limit of {tokens} tokens: {} used, and it has about {estimate}",
                    self.tokens
                ));
            }
        }
        if let Some(usd) = self.limits.usd {
            if self.usd >= usd {
                return Some(format!("reached the limit of {usd} USD: {:.4} spent", self.usd));
            }
            // The next answer costs about as much as the last one: the conversation only grows.
            if self.usd + self.last_usd > usd {
                return Some(format!(
                    "the next answer would exceed the limit of {usd} USD: {:.4} spent, and the last answer cost {:.4}",
                    self.usd, self.last_usd
                ));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Usage;

    fn turn(tokens: u64, usd: f64) -> Turn {
        Turn {
            usage: Usage {
                input_tokens: tokens,
                output_tokens: 0,
                ..Usage::default()
            },
            cost_usd: Some(usd),
            ..Turn::default()
        }
    }

    #[test]
    fn limits_are_checked_before_each_request() {
        let none = Meter::new(Limits::default());
        assert_eq!(none.forbids(u64::MAX), None);

        let mut turns = Meter::new(Limits {
            turns: NonZeroU32::new(2),
            ..Limits::default()
        });
        turns.answered();
        assert_eq!(turns.forbids(0), None);
        turns.answered();
        assert_eq!(turns.forbids(0).unwrap(), "reached the limit of 2 turns");

        let mut tokens = Meter::new(Limits {
            tokens: Some(100),
            ..Limits::default()
        });
        tokens.paid(&turn(60, 0.0));
        assert_eq!(tokens.forbids(40), None);
        assert!(tokens.forbids(41).unwrap().contains("would exceed"));
        tokens.paid(&turn(40, 0.0));
        assert!(tokens.forbids(0).unwrap().contains("reached the limit"));
    }

    #[test]
    fn cost_limit_reserves_the_cost_of_the_last_answer() {
        let mut usd = Meter::new(Limits {
            usd: Some(1.0),
            ..Limits::default()
        });
        usd.paid(&turn(1, 0.4));
        assert_eq!(usd.forbids(0), None);
        usd.paid(&turn(1, 0.4));
        assert!(usd.forbids(0).unwrap().contains("would exceed"));
    }

    #[test]
    fn time_limit_does_not_affect_the_cost_limit() {
        let meter = Meter::new(Limits {
            usd: Some(0.000_001),
            time: Some(Duration::from_secs(1)),
            ..Limits::default()
        });
        assert_eq!(meter.forbids(0), None);
    }
}
