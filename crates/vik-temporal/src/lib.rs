//! Vik on many machines, with Temporal: who leads, the shared log, workers, and attempts.
//!
//! Decisions are made by one hub at a time, in the same loop as on one machine. This crate has what
//! the loop needs from other machines, and no decision of its own.

#![forbid(unsafe_code)]

pub mod attempt;
pub mod codec;
pub mod connect;
pub mod engine;
pub mod examination;
mod forward;
pub mod hub;
pub mod lead;
mod lease;
pub mod log;
pub mod names;
pub mod outputs;
mod peer;
mod poller;
mod remote_folders;
pub mod remote_workspaces;
pub mod request;
mod rpc;
pub mod session_runner;
mod settings;
pub mod shared_ledger;
pub mod worker_list;
pub mod worker_process;
mod worker_workflow;
pub mod workers;

pub use poller::{Poller, PollerError};
