//! How programs and people reach a daemon: the control socket, the HTTP API and the dashboard.
//!
//! [`ask`] sends one request to a daemon, and [`ControlServer`] answers it. [`http`] serves the
//! API, on the control socket and on TCP, together with the dashboard. [`history`] and [`figures`]
//! read past runs from the ledger and sum them up, with or without a daemon.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod client;
pub mod figures;
pub mod history;
pub mod http;
mod server;

pub use client::{AskError, ask};
pub use server::{ControlContext, ControlServer, IsRefused};
