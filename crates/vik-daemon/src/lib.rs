//! The daemon: one instance per workflow, found by its folder, ended by a signal or a request.
//!
//! [`serve()`] runs a daemon to its end: it takes the lock of its [`Instance`], opens the ledger,
//! recovers what an earlier daemon left, and starts the loop with all that surrounds it:
//! [`schedule`], [`webhooks`], [`notify`] and [`logging`]. [`detach()`] starts it in a session of
//! its own. Verbs that need no daemon get their paths and environment from [`host`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod detach;
pub mod engine;
mod instance;
pub mod logging;
pub mod notify;
pub mod offline;
#[cfg(feature = "otlp")]
pub mod otel;
mod recover;
pub mod schedule;
mod serve;
pub mod webhooks;

pub use detach::{Ready, detach};
pub use instance::{Instance, InstanceInfo, Presence};
pub use serve::{Home, ListenOptions, ServeOptions, end_cut_off_logs, exit_of, host, serve};
