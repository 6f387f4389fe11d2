//! What every part of Vik uses: errors with exit codes, text for people, the clock, fail points.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod clock;
pub mod failpoint;
pub mod report;
