//! Exact amounts of money, so that sums of many small costs do not drift.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An amount in millionths of a US dollar; never negative, and sums stop at the largest one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct MicroUsd(pub u64);

impl MicroUsd {
    /// Converts from dollars. A value that is no amount of money (negative, not a number) becomes
    /// zero.
    pub fn from_usd(usd: f64) -> Self {
        // Rounded up, so that a limit may be reached early but never late. The cast saturates.
        Self((usd * 1e6).ceil() as u64)
    }

    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e6
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Amounts below a cent are shown with four places.
        let places = if self.0 < 1_000_000 && !self.0.is_multiple_of(10_000) {
            4
        } else {
            2
        };
        write!(f, "${:.places$}", self.usd())
    }
}
