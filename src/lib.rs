//! Vik: a daemon that turns an issue tracker into a work queue for coding agents.
//!
//! The library exists for the `vik` program, its tests and its benchmarks; it is not a stable API.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod api_view;
pub mod cli;
pub mod control;
pub mod crash;
pub mod daemon;
pub mod figures;
pub mod git;
pub mod history;
pub mod hooks;
pub mod host;
pub mod intake;
pub mod logging;
pub mod notify;
pub mod orchestrator;
#[cfg(feature = "otlp")]
pub mod otel;
pub mod outbound;
pub mod outputs;
pub mod provenance;
pub mod report;
pub mod sandbox;
pub mod schedule;
pub mod secrets;
pub mod service_state;
pub mod session;
pub mod signals;
pub mod template;
pub mod tracker;
pub mod webhooks;
pub mod workflow_file;
pub mod workspace;
