//! Simulates worlds around the pure core.
//!
//! A [`World`] drives the real scheduler with a simulated tracker, agents, people, clocks and a
//! ledger whose commits can be lost, and kills the daemon at any instant. All randomness comes from
//! one seed, so that a seed is reproducible. After each step the invariants are checked; faults
//! planted around the core show that the checks find errors.

#![forbid(unsafe_code)]

mod campaign;
mod clock;
mod disk;
mod fault;
mod host;
mod oracle;
mod policy;
mod restore;
mod rng;
mod trace;
mod tracker;
mod world;

pub use campaign::{Campaign, Caught, Failure, Figures, Ran, run_seed, self_test};
pub use fault::Fault;
pub use oracle::Broken;
pub use trace::KINDS;
pub use world::World;
