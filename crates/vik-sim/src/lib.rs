//! The pure core in a simulated world.
//!
//! A [`World`] drives the real scheduler with a simulated tracker, agents, people, clocks and a ledger whose commits can be
//! lost, and lets the daemon die at every instant. All chance comes from one seed: the same seed goes the same way.
//! After each step, what must always hold is looked at; faults that are planted around the core show that the checks see.

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
