//! Vik: a daemon that turns an issue tracker into a work queue for coding agents.
//!
//! The library exists for the `vik` program, its tests and its benchmarks; it is not a stable API.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod cli;
