//! Wire types of the control socket, of HTTP and of every `--json`.
//!
//! Snake case, times RFC 3339 UTC, durations in `_ms`. A schema version only ever gains fields.
//!
//! A [`Request`] is one line on the control socket, and a [`Response`] is its answer. [`Status`],
//! [`Explanation`] and the pages are the bodies of the HTTP API, and [`Problem`] is its error.
//!
//! ```
//! use vik_api::{PROTOCOL, Request, Verb};
//!
//! let verb = Verb::Pause { issue: Some("7".into()) };
//! let line = serde_json::to_string(&Request { v: PROTOCOL, verb })?;
//! assert_eq!(line, r#"{"v":1,"verb":"pause","issue":"7"}"#);
//!
//! // A request of an older client, which knows fewer fields.
//! let request: Request = serde_json::from_str(r#"{"v":1,"verb":"stop"}"#)?;
//! assert_eq!(request.verb, Verb::Stop { keep_sessions: false });
//! # Ok::<(), serde_json::Error>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod control;
mod error;
mod explain;
mod notify;
mod pages;
mod problem;
mod report;
mod runs;
mod schedule;
mod sessions;
mod sign_ins;
mod spend;
mod status;
mod trace;

pub use control::{PROTOCOL, Request, Response, Verb};
pub use error::ErrorBody;
pub use explain::{
    DecisionView, Explained, Explanation, HoldView, RootCauseView, StageIntentView, StageState, StageView,
    TrustView,
};
pub use notify::{Notification, NotifiedItem, NotifierView};
pub use pages::{Decided, DecisionsPage, EventsPage, Health, IssuesPage, RunsPage, StderrTail};
pub use problem::{ApprovalDecision, PROBLEM_JSON, Problem, Retry, Steered, WhichIssue};
pub use report::{AgentFigures, EndFigures, Figures, Part, ReportView, StageFigures};
pub use runs::{AttemptView, OutputView, RunState, RunView};
pub use schedule::{LastRun, ScheduleResult, ScheduleView, ScheduledView, SkippedRun};
pub use sessions::{DiffView, Excerpt, Fact, FeedEvent, FileChange, FileDiff, ScriptView, SessionDetail};
pub use sign_ins::{SignIn, SignInView, SignInsPage, SignedIn};
pub use spend::{DayView, LifeView, LimitView, SpendView, cost_text};
pub use status::{
    ApiView, ApprovalView, Daemon, DaemonState, LastPull, LedgerView, ParkedView, PullCounts, RejectedEdit,
    SCHEMA, SessionView, StageDef, Status, WaitingView, WorkflowView,
};
pub use trace::{
    Author, BlameView, BlamedLines, BrokenRecord, IntentFile, IntentView, TraceCheck, TraceEntry,
    TracedAttempt, TracedFile,
};
