//! How long to wait before the next attempt.

use std::time::Duration;

use crate::workflow::Retry;

/// The wait after the `failed`th attempt (from 1): `initial_backoff`, doubled each time, at most `max_backoff`.
///
/// Without jitter: one daemon starts at most `max_issue_concurrency` agents, and the slots spread them.
pub fn wait_after(failed: u32, retry: &Retry) -> Duration {
    let doublings = failed.saturating_sub(1).min(31);
    retry
        .initial_backoff
        .0
        .saturating_mul(1 << doublings)
        .min(retry.max_backoff.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::Span;

    #[test]
    fn doubles_up_to_the_most() {
        let retry = Retry {
            max_attempts: 9,
            initial_backoff: Span::secs(10),
            max_backoff: Span::mins(1),
        };
        let waits: Vec<_> = [0, 1, 2, 3, 4, 40, u32::MAX]
            .map(|n| wait_after(n, &retry).as_secs())
            .into();
        assert_eq!(waits, [10, 10, 20, 40, 60, 60, 60]);
    }
}
