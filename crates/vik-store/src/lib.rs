//! What stays of each attempt: its session log, and the record that says what the attempt was for.
//!
//! The [`ledger`] holds what was decided: claims, counters, limits, decisions.

mod attempt;
pub mod ledger;
mod log;
mod read;

pub use attempt::{AttemptFiles, AttemptRecord, StoreError};
pub use ledger::Ledger;
pub use log::SessionLog;
pub use read::{History, PastAttempt, last_line, lines_of, read_ended};
