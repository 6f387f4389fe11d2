//! An attempt from its claim to its end: hooks, sandbox, secrets, the agent and its outputs.
//!
//! [`attempt::run`] runs one [`attempt::Attempt`], or resumes it where an earlier daemon left it; the
//! loop of the daemon holds its [`attempt::AttemptHandle`].
//! It needs a [`host::Host`]: the paths, the environment and the supervisor of a daemon. [`hooks`]
//! runs the author's scripts, [`sandbox`] turns the policy of the workflow into paths of this
//! machine, [`secrets`] looks up values for those that list them, [`outputs`] reads what an agent
//! asks for, [`provenance`] records which attempt changed which lines, [`removal`] removes the
//! workspace of an issue, and [`taken_over`] serves people who take an issue over.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod attempt;
mod durable;
pub mod hooks;
pub mod host;
pub mod outputs;
pub mod provenance;
pub mod removal;
pub mod sandbox;
pub mod secrets;
pub mod taken_over;

#[cfg(test)]
mod tests;
