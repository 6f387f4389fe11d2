//! The deliveries that were already received, within a bounded memory.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use super::verify::Mark;

/// The maximum number of marks kept for one hook.
const MOST: usize = 10_000;

/// How long a mark is kept.
const LASTS: Duration = Duration::from_secs(24 * 3600);

/// The recent deliveries of one hook.
#[derive(Debug, Default)]
pub(super) struct RecentDeliveries {
    marks: HashSet<Mark>,
    order: VecDeque<(Duration, Mark)>,
}

impl RecentDeliveries {
    /// Adds a delivery. Returns `false` if it was received before.
    pub(super) fn note(&mut self, marks: &[Mark], now: Duration) -> bool {
        while let Some((at, mark)) = self.order.front()
            && (self.order.len() > MOST || now.saturating_sub(*at) > LASTS)
        {
            self.marks.remove(mark);
            self.order.pop_front();
        }
        let is_known = marks.iter().any(|mark| self.marks.contains(mark));
        for mark in marks {
            if self.marks.insert(*mark) {
                self.order.push_back((now, *mark));
            }
        }
        !is_known
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.marks.len(), self.order.len());
        self.order.len()
    }
}
