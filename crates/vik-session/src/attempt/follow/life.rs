//! When an agent last showed that it works, and how fast its answer arrives.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time over which the speed of an answer is measured.
const SPEED_WINDOW: Duration = Duration::from_secs(10);
/// The shortest time that gives a speed.
const MIN_SPEED_WINDOW: Duration = Duration::from_millis(500);
/// A pause in an answer after which its speed is measured anew.
const MAX_PAUSE: Duration = Duration::from_secs(3);
/// The usual number of characters of a token.
const CHARS_PER_TOKEN: f64 = 4.0;

/// The signs of life of an agent. Its work counts without a limit; lines that only show that it or
/// its provider is connected count for a bounded time after that.
#[derive(Debug)]
pub(super) struct SignsOfLife {
    content_at: Instant,
    heartbeat_at: Option<Instant>,
    heartbeat_limit: Duration,
}

impl Default for SignsOfLife {
    fn default() -> Self {
        Self {
            content_at: Instant::now(),
            heartbeat_at: None,
            heartbeat_limit: Duration::ZERO,
        }
    }
}

impl SignsOfLife {
    /// Sets for how long after the last work heartbeats count.
    pub(super) fn set_heartbeat_limit(&mut self, limit: Duration) {
        self.heartbeat_limit = limit;
    }

    pub(super) fn on_content(&mut self) {
        self.content_at = Instant::now();
        self.heartbeat_at = None;
    }

    pub(super) fn on_heartbeat(&mut self) {
        self.on_heartbeat_at(Instant::now());
    }

    fn on_heartbeat_at(&mut self, now: Instant) {
        if now.saturating_duration_since(self.content_at) <= self.heartbeat_limit {
            self.heartbeat_at = Some(now);
        }
    }

    /// Returns the time since the last sign of life that counts.
    pub(super) fn silence(&self) -> Duration {
        self.heartbeat_at.unwrap_or(self.content_at).elapsed()
    }
}

/// The speed of the answer that arrives.
#[derive(Debug, Default)]
pub(super) struct Speed {
    /// The number of characters so far, oldest first.
    samples: VecDeque<(Instant, u64)>,
}

impl Speed {
    /// Adds the number of characters that have arrived since the start of the attempt.
    pub(super) fn on_arrived(&mut self, now: Instant, chars: u64) {
        if let Some((at, before)) = self.samples.back() {
            if chars == *before {
                return;
            }
            if now.saturating_duration_since(*at) > MAX_PAUSE {
                self.samples.clear();
            }
        }
        self.samples.push_back((now, chars));
        while self.samples.len() > 2
            && self
                .samples
                .front()
                .is_some_and(|(at, _)| now.saturating_duration_since(*at) > SPEED_WINDOW)
        {
            self.samples.pop_front();
        }
    }

    /// Returns the estimated tokens per second.
    pub(super) fn tokens_per_second(&self) -> Option<f64> {
        let ((start, before), (end, after)) = (self.samples.front()?, self.samples.back()?);
        let time = end.saturating_duration_since(*start);
        let chars = after.saturating_sub(*before) as f64;
        (time >= MIN_SPEED_WINDOW).then(|| chars / CHARS_PER_TOKEN / time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_count_for_a_bounded_time_after_the_last_work() {
        let mut life = SignsOfLife::default();
        life.set_heartbeat_limit(Duration::from_secs(60));
        let start = life.content_at;
        for second in [20, 60] {
            life.on_heartbeat_at(start + Duration::from_secs(second));
        }
        assert_eq!(life.heartbeat_at, Some(start + Duration::from_secs(60)));
        for second in [61, 100, 1000] {
            life.on_heartbeat_at(start + Duration::from_secs(second));
        }
        assert_eq!(life.heartbeat_at, Some(start + Duration::from_secs(60)));
        life.on_content();
        assert_eq!(life.heartbeat_at, None);
    }

    #[test]
    fn speed_is_measured_while_an_answer_arrives() {
        let start = Instant::now();
        let mut speed = Speed::default();
        assert_eq!(speed.tokens_per_second(), None);
        for step in 0..=100_u32 {
            speed.on_arrived(start + step * Duration::from_millis(100), u64::from(step) * 20);
        }
        assert_eq!(speed.tokens_per_second().map(f64::round), Some(50.0));
        // The next answer has its own speed.
        let next = start + Duration::from_secs(60);
        speed.on_arrived(next, 2100);
        assert_eq!(speed.tokens_per_second(), None);
        speed.on_arrived(next + Duration::from_secs(1), 2140);
        assert_eq!(speed.tokens_per_second(), Some(10.0));
    }
}
