//! The usage of a run before its result reports it.

use vik_core::outcome::Usage;

/// The usage of the requests so far.
#[derive(Debug, Default)]
pub(super) struct RequestUsages {
    /// The last few messages. The lines of one message are consecutive, except for lines of
    /// sub-agents between them.
    recent: Vec<(u64, Usage)>,
    older: Usage,
}

impl RequestUsages {
    const RECENT: usize = 8;

    /// Records the usage of a message and returns whether the sum changed. Every line of a message
    /// repeats its usage.
    pub(super) fn record(&mut self, message_id: &str, usage: Usage) -> bool {
        let key = hash(message_id);
        if let Some((_, seen)) = self.recent.iter_mut().rev().find(|(id, _)| *id == key) {
            let changed = usage.total() > seen.total();
            if changed {
                *seen = usage;
            }
            return changed;
        }
        if self.recent.len() == Self::RECENT {
            let (_, oldest) = self.recent.remove(0);
            self.older = self.older.plus(oldest);
        }
        self.recent.push((key, usage));
        usage != Usage::default()
    }

    /// Returns whether the total of the process includes the usage of earlier processes of the
    /// conversation. Claude Code 2.1.330 starts with what the previous process saved, which a
    /// killed process does not do; 2.1.197 always starts at 0. So the numbers decide: the total
    /// must be large enough for the previous usage plus the usage of this process.
    pub(super) fn total_includes_previous(&self, total: Usage, results: Usage, previous: Usage) -> bool {
        let seen = self.sum();
        let figures: [fn(Usage) -> u64; 4] = [
            |usage| usage.input_tokens,
            |usage| usage.cached_input_tokens,
            |usage| usage.cache_write_input_tokens,
            |usage| usage.output_tokens,
        ];
        figures
            .iter()
            .all(|of| of(total) >= of(previous).saturating_add(of(seen).max(of(results))))
    }

    pub(super) fn sum(&self) -> Usage {
        self.recent
            .iter()
            .fold(self.older, |sum, (_, usage)| sum.plus(*usage))
    }
}

/// FNV-1a: the ids are random, so any hash will do.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(tokens: u64) -> Usage {
        Usage {
            input_tokens: tokens,
            ..Usage::default()
        }
    }

    #[test]
    fn request_usage_counts_each_message_once() {
        let mut requests = RequestUsages::default();
        assert!(requests.record("a", input(5)));
        assert!(requests.record("b", input(7)));
        assert!(!requests.record("a", input(5)), "the same message again");
        assert_eq!(requests.sum(), input(12));
        assert!(requests.record("a", input(6)), "it grew");
        assert_eq!(requests.sum(), input(13));
    }

    #[test]
    fn request_usage_keeps_old_messages_in_the_sum() {
        let mut requests = RequestUsages::default();
        for n in 0..100 {
            requests.record(&format!("message {n}"), input(1));
        }
        assert_eq!(requests.sum(), input(100));
    }
}
