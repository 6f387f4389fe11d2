//! What every part of Vik uses: errors with exit codes, text for people, the clock, fail points.
//!
//! An error on its way to a person or a script is a [`report::Failure`]: what failed, why, what to
//! do, a stable code, and the [`report::Exit`] of the process. [`report`] is the only module that
//! writes messages for people. [`clock::now`] is the wall clock, and [`failpoint::reach`] a named
//! point at which a test stops a daemon.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod clock;
pub mod failpoint;
pub mod report;
