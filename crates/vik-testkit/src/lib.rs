//! Helpers of Vik's tests: a scripted agent, a scripted model server, a fake tracker, a test
//! environment.
//!
//! For development only. It panics if a test cannot continue; the message says what was wrong. The
//! README of this crate describes the scripts of the agent and of the model server.

#![forbid(unsafe_code)]
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
mod text;
mod tracker;
mod wait;

pub use env::TestEnv;
pub use http::{EventStream, HttpClient, Reply, ServerEvent};
pub use leftovers::{Leftover, alive, leftovers_of};
pub use real::{RealAgent, RealMcpServer, report_skipped, test_name};
pub use text::assert_contains;
pub use tracker::{FakeTracker, TrackedIssue};
pub use wait::{eventually, wait_for, wait_for_value};
