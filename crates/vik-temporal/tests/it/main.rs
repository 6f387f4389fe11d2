//! Tests against a real server, whose program `VIK_TEMPORAL_BIN` names. Without it, they are skipped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests"
)]

mod attempt;
mod child;
mod compaction;
mod import;
mod lead;
mod log;
mod machines;
mod outputs;
mod remote;
mod replay;
mod request;
mod scale;
mod secrets;
mod server;
mod shared_ledger;
mod workers;
