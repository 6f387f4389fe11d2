//! How programs and people reach a daemon: the control socket, the HTTP API and the dashboard.
//!
//! [`http`] serves the API, on the control socket and on TCP, together with the dashboard.
//! [`ControlServer`] accepts the connections to the socket, and refuses agents. [`history`] and [`figures`]
//! read past runs from the ledger and sum them up, with or without a daemon.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod daemon_log;
pub mod diff;
pub mod figures;
pub mod history;
pub mod http;
mod line;
mod point_in_time;
mod server;

pub use point_in_time::{ParsePointInTimeError, PointInTime};
pub use server::{ControlContext, ControlServer, IsRefused};
