//! Processes that die: at every named point of an attempt's life, and at random under load.

mod full;
mod named;
mod random;
mod real;
mod rig;
