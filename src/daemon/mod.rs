//! The daemon: one instance per workflow, found by its folder, ended by a signal or a request.

mod detach;
mod instance;
mod recover;
mod serve;

pub use detach::{Ready, detach};
pub use instance::{Instance, InstanceInfo, Presence};
pub use serve::{ServeOptions, exit_of, host, serve};
