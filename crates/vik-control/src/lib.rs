//! The control socket: how the command line communicates with a daemon.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod figures;
pub mod history;

mod client;
pub mod http;
mod server;

pub use client::{AskError, ask};
pub use server::{ControlContext, ControlServer, IsRefused, REFUSED, STOPPING};
