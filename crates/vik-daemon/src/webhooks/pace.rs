//! When pulls are requested, and how many refused calls are logged. There is no clock here: `now`
//! is the time since any fixed point.

use std::time::Duration;

/// Combines many calls into few pulls: one immediately, then at most one per gap. A pull always
/// follows the last call.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    is_wanted: bool,
    last: Option<Duration>,
}

impl Pacer {
    /// Records that a call needs a pull.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Returns how long to wait until the next pull; `None` if none is needed.
    pub(super) fn wait(&self, now: Duration, gap: Duration) -> Option<Duration> {
        let next = self.last.map_or(Duration::ZERO, |last| last.saturating_add(gap));
        self.is_wanted.then(|| next.saturating_sub(now))
    }

    /// Records that a pull is requested now. It serves all calls before it.
    pub(super) fn ask(&mut self, now: Duration) {
        self.is_wanted = false;
        self.last = Some(now);
    }
}

/// The number of refused calls that are logged individually at once.
const BURST: f64 = 60.0;

/// The number of further ones per second.
const PER_SECOND: f64 = 1.0;

/// A token bucket for calls that were not verified.
#[derive(Debug)]
pub(super) struct Bucket {
    tokens: f64,
    at: Duration,
}

impl Bucket {
    /// Creates a full bucket.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            tokens: BURST,
            at: now,
        }
    }

    /// Takes a token. Returns `false` if there is none.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * PER_SECOND).min(BURST);
        self.at = self.at.max(now);
        let has_one = self.tokens >= 1.0;
        if has_one {
            self.tokens -= 1.0;
        }
        has_one
    }
}
