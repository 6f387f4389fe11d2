//! The wait before the next attempt.

use std::time::Duration;

use crate::ids::AttemptId;
use crate::workflow::Retry;

/// Returns the wait after the `failed`th attempt (from 1): `initial_backoff`, doubled each time, at
/// most `max_backoff`.
pub fn wait_after(failed: u32, retry: &Retry) -> Duration {
    doubled(retry.initial_backoff.0, failed, retry.max_backoff.0)
}

/// Returns the wait after the `failed`th failure (from 1): `initial`, doubled each time, at most
/// `longest`.
pub fn doubled(initial: Duration, failed: u32, longest: Duration) -> Duration {
    let doublings = failed.saturating_sub(1).min(31);
    initial.saturating_mul(1 << doublings).min(longest)
}

/// Returns a wait between three quarters and the whole of the given one, so that attempts which
/// failed together are not retried together. It is the same for the same attempt.
pub fn jittered(wait: Duration, attempt_id: AttemptId) -> Duration {
    wait - (wait / 4).mul_f64(fraction(attempt_id))
}

/// Returns a pseudorandom number in 0..1 that is the same for the same attempt.
pub(crate) fn fraction(attempt_id: AttemptId) -> f64 {
    // The finalizer of SplitMix64, because the ids of one daemon differ in few bits.
    let (high, low) = attempt_id.0.as_u64_pair();
    let mut bits = high.rotate_left(32) ^ low;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    (bits >> 11) as f64 / (1_u64 << 53) as f64
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

    #[test]
    fn jitter_spreads_over_the_last_quarter() {
        let wait = Duration::from_secs(100);
        let mut quarters = [0; 4];
        for number in 0..1000_u128 {
            let attempt_id = AttemptId(uuid::Uuid::from_u128(number << 40));
            let jittered = jittered(wait, attempt_id);
            assert_eq!(jittered, super::jittered(wait, attempt_id));
            let missing = (wait - jittered).as_secs_f64();
            assert!((0.0..25.0).contains(&missing), "{missing}");
            quarters[(missing / 6.25) as usize] += 1;
        }
        assert!(quarters.iter().all(|&count| count > 150), "{quarters:?}");
    }
}
