//! Processes that die: at every named point of the life of an attempt, and at random under load.

mod full;
mod messages;
mod named;
mod questions;
pub mod random;
mod real;
mod rig;
mod turns;
