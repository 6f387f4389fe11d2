//! One attempt, by processes that die in it: whoever takes it up goes on where the one before ended.
//!
//! Each is this very program, run again with one hidden test of it: what it does is `vik::session::run`, no more.

mod dying;
mod limits;
mod resuming;
mod scene;
