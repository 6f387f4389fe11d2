//! Wire types of the control socket and of every `--json`.
//!
//! Snake case, times RFC 3339 UTC, durations in `_ms`. A schema version only ever gains fields.

mod control;
mod error;
mod explain;
mod runs;
mod spend;
mod status;

pub use control::{PROTOCOL, Request, Response, Verb};
pub use error::ErrorBody;
pub use explain::{DecisionView, Explained, Explanation, HoldView, StageState, StageView};
pub use runs::{AttemptView, RunState, RunView};
pub use spend::{DayView, LifeView, LimitView, SpendView};
pub use status::{
    Daemon, DaemonState, LastPull, LedgerView, ParkedView, PullCounts, RejectedEdit, SCHEMA, SessionView,
    Status, WaitingView, WorkflowView,
};
