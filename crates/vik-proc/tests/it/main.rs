//! The shim with real processes. Every test has its own folder and mark, waits with deadlines and
//! leaves no process behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests"
)]

mod adopting;
mod auditing;
#[cfg(target_os = "linux")]
mod calls;
mod command;
mod ending;
mod leases;
mod lost;
mod matrix;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod opened;
mod owners;
#[cfg(target_os = "linux")]
mod servers;
mod starting;
#[cfg(target_os = "linux")]
mod storms;
mod support;
mod sweeping;
#[cfg(target_os = "linux")]
mod walled;
mod worker_leases;
