//! The control socket: how the command line communicates with a daemon.

mod client;
pub mod http;
mod server;

pub use client::{AskError, ask};
pub use server::{ControlContext, ControlServer, IsRefused, REFUSED, STOPPING};
