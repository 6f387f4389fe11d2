//! The deliveries that came already, as far back as memory is given to them.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use super::verify::Mark;

/// How many marks are kept for one hook.
const MOST: usize = 10_000;

/// For how long.
const LASTS: Duration = Duration::from_secs(24 * 3600);

/// The deliveries of one hook that came already.
#[derive(Debug, Default)]
pub(super) struct RecentDeliveries {
    marks: HashSet<Mark>,
    order: VecDeque<(Duration, Mark)>,
}

impl RecentDeliveries {
    /// Notes a delivery; `false`: it came before.
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
