//! A random generator with a fixed algorithm: a seed gives the same world on every machine.

#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which must not be zero.
    pub fn below(&mut self, end: usize) -> usize {
        // The bias is negligible for such small ranges.
        (self.any() % end.max(1) as u64) as usize
    }

    /// Returns a number from `low` to `high`, inclusive.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.any() % (high - low + 1)
    }

    /// Returns true in this percentage of cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.any() % 100 < percent
    }

    /// Returns one of the items; the list must not be empty.
    pub fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// Takes any element out of a list.
    pub fn take<T>(&mut self, list: &mut Vec<T>) -> Option<T> {
        (!list.is_empty()).then(|| list.swap_remove(self.below(list.len())))
    }

    /// Returns an index with a probability according to its weight.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let sum: u32 = weights.iter().sum();
        let mut at = (self.any() % u64::from(sum.max(1))) as u32;
        for (index, weight) in weights.iter().enumerate() {
            if at < *weight {
                return index;
            }
            at -= weight;
        }
        0
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rng_algorithm_is_fixed() {
        let mut rng = Rng::new(0);
        assert_eq!(
            [rng.any(), rng.any()],
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]
        );
        assert_eq!(rng.weighted(&[0, 3, 0]), 1);
    }
}
