//! What Vik's tests stand on: a scripted agent, a scripted model server, a fake tracker, a test environment.
//!
//! Development only. It panics where a test could not go on anyway; the message says what was wrong. How scripts of
//! the agent and of the model server are written is in the README of this crate.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic here is a failed test, with its reason"
)]

pub mod bins;
mod env;
mod http;
mod leftovers;
mod real;
pub mod server;
mod tracker;
mod wait;

pub use env::TestEnv;
pub use http::{EventStream, HttpClient, Reply, ServerEvent};
pub use leftovers::{Leftover, alive, leftovers_of};
pub use real::RealAgent;
pub use tracker::{FakeTracker, TrackedIssue};
pub use wait::{eventually, wait_for, wait_for_value};
