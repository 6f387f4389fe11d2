//! Wire types of the control socket and of every `--json`.
//!
//! Snake case, times RFC 3339 UTC, durations in `_ms`. A schema version only ever gains fields.

mod control;
mod error;
mod runs;
mod status;

pub use control::{PROTOCOL, Request, Response, Verb};
pub use error::ErrorBody;
pub use runs::{AttemptView, RunState, RunView};
pub use status::{
    Daemon, DaemonState, LastPull, ParkedView, PullCounts, SCHEMA, SessionView, Status, WaitingView,
};
