//! One attempt whose processes die: each new process resumes it where the one before ended.
//!
//! Each process is this program, run again with one hidden test, which only calls
//! `vik_session::attempt::run`.

mod before_run;
mod dying;
mod leases;
mod limits;
mod resuming;
mod scene;
