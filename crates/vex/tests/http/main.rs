//! Providers over HTTP against the scripted model server, in each of the three protocols.

#![allow(
    clippy::unwrap_used,
    reason = "a panic here is a failed test, with its reason"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values are made for the call"
)]

mod answers;
mod faults;
mod support;
mod waits;
