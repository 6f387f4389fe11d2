//! An attempt from its claim to its end: hooks, sandbox, secrets, the agent and its outputs.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod attempt;
pub mod hooks;
pub mod host;
pub mod outputs;
pub mod provenance;
pub mod sandbox;
pub mod secrets;

#[cfg(test)]
mod tests;
