//! Vik: a daemon that turns an issue tracker into a work queue for coding agents.
//!
//! The library exists for the `vik` program, its tests and its benchmarks; it is no stable API.

pub mod template;
pub mod tracker;
pub mod workspace;
