//! The control socket: how the command line speaks to a daemon.

mod client;
mod server;
pub mod view;

pub use client::{AskError, ask};
pub use server::{ControlServer, REFUSED, Refuse, STOPPING};
