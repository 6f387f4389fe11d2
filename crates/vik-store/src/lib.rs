//! The persistent state of Vik: the [`ledger`] holds decisions (claims, counters, limits), and the
//! files of each attempt hold its specification, its session log and its journal. Session logs are
//! written by `vik-session-log`.

#![forbid(unsafe_code)]

mod appended;
mod attempt;
pub mod fault;
mod journal;
pub mod ledger;
mod outputs;
mod read;

pub use attempt::{AttemptFiles, AttemptRecord, AttemptSpec, DurableSpec, StoreError};
pub use journal::{
    AttemptFailure, CheckedTurn, Journal, NotedInput, NotedTurn, ProcessRecord, ResumePoint, ScriptProgress,
    Step, commands_run_twice, is_awaiting_result_approval, script_failure, steps, timed_steps,
};
pub use ledger::Ledger;
pub use outputs::{OutputBook, output_notes};
pub use read::{
    History, LONGEST_EVENT, LineRead, PastAttempt, attempts_without_end, last_line, lines_of, read_ended,
    read_line,
};
