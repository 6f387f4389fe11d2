//! What stays of each attempt: its session log, and the record that says what the attempt was for.
//!
//! The ledger (claims, limits, decisions) joins them here later.

mod attempt;
mod log;
mod read;

pub use attempt::{AttemptFiles, AttemptRecord, StoreError};
pub use log::SessionLog;
pub use read::{History, PastAttempt, last_line, lines_of, read_ended};
