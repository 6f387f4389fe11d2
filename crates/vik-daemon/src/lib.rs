//! The daemon: one instance per workflow, found by its folder, ended by a signal or a request.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod logging;
pub mod notify;
#[cfg(feature = "otlp")]
pub mod otel;
pub mod outbound;
pub mod schedule;
pub mod webhooks;

mod detach;
mod instance;
mod recover;
mod serve;

pub use detach::{Ready, detach};
pub use instance::{Instance, InstanceInfo, Presence};
pub use serve::{ServeOptions, exit_of, host, serve};
