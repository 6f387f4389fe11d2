//! The real `vik` program against agents, trackers and people that misbehave.
//!
//! One binary, so that it links once. Each module covers one area of the daemon; `predecessor`
//! covers the faults of the program before this one.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod support;

mod api;
mod approvals;
mod attempts;
mod backends;
mod chaos;
mod cli;
mod closed;
mod crash;
mod daemon;
mod deciding;
mod diff;
mod durable;
mod escape;
mod examples;
mod extensions;
mod files;
mod follow_up;
mod gates;
mod git;
mod hand_over;
mod incident;
mod intake;
mod leftover;
mod limits;
#[cfg(feature = "temporal")]
mod machines;
mod messages;
mod notify;
mod offline;
mod open_files;
mod output;
mod outputs;
#[cfg(target_os = "linux")]
mod own_servers;
mod places;
mod predecessor;
mod prune;
mod questions;
mod readme;
mod real_agents;
mod reconcile;
mod reload;
mod replaced;
mod reports;
mod retention;
mod sandbox;
mod saved_work;
mod schedule;
mod scope;
mod secrets;
mod sessions;
mod shell;
mod steering;
mod stopping;
#[cfg(target_os = "linux")]
mod storms;
mod streaming;
mod survive;
pub mod takeover;
mod templates;
mod trace;
mod tracker;
mod turns;
mod vex_agent;
mod webhooks;
mod work_trees;
#[cfg(all(feature = "temporal", target_os = "linux"))]
mod worker_install;
mod workspaces_hooks;
