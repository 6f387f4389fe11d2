//! When pulls are asked for, and how many bad calls are answered with care. No clock of its own: `now` is since any fixed point.

use std::time::Duration;

/// Makes few pulls of many calls: one at once, then at most one in each gap; the last call is always followed by one.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    is_wanted: bool,
    last: Option<Duration>,
}

impl Pacer {
    /// A call wants a pull.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// How long to wait until one is asked for; `None`: nobody wants one.
    pub(super) fn wait(&self, now: Duration, gap: Duration) -> Option<Duration> {
        let next = self.last.map_or(Duration::ZERO, |last| last.saturating_add(gap));
        self.is_wanted.then(|| next.saturating_sub(now))
    }

    /// One is asked for now: it serves all calls up to here.
    pub(super) fn ask(&mut self, now: Duration) {
        self.is_wanted = false;
        self.last = Some(now);
    }
}

/// How many bad calls are told one by one.
const BURST: f64 = 60.0;

/// How many more in each second.
const PER_SECOND: f64 = 1.0;

/// A token bucket for calls that were not believed.
#[derive(Debug)]
pub(super) struct Bucket {
    tokens: f64,
    at: Duration,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            tokens: BURST,
            at: now,
        }
    }

    /// Takes a token; `false`: there is none left.
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
