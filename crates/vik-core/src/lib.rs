//! The pure core of Vik.
//!
//! It is deterministic: no I/O, no clock, no async runtime. Time is an argument, and effects are
//! returned as data.

pub mod approval;
pub mod attempt;
pub mod backoff;
pub mod changes;
pub mod duration;
pub mod event;
pub mod file_change;
pub mod ids;
pub mod intent;
pub mod issue;
pub mod limits;
pub mod machine;
pub mod money;
pub mod mutation;
pub mod outcome;
pub mod outputs;
pub mod plural;
pub mod scheduler;
pub mod time;
pub mod trust;
pub mod visible;
pub mod workflow;

pub use vik_scope as scope;
