//! Wire types of the HTTP API and of every `--json`.
//!
//! Snake case, times RFC 3339 UTC, durations in `_ms`. A schema version only ever gains fields.
//!
//! An [`Action`] is what a person requests. [`Status`], [`Explanation`] and the pages are the bodies
//! of the HTTP API, and [`Problem`] is its error.
//!
//! ```
//! use vik_api::{Action, WhichIssue};
//! use vik_core::scheduler::Command;
//!
//! let action = Action::from(Command::Pause(Some("7".into())));
//! let body = WhichIssue { issue_id: action.issue().cloned() };
//! assert_eq!(serde_json::to_string(&body)?, r#"{"issue_id":"7"}"#);
//! # Ok::<(), serde_json::Error>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod actions;
mod daemon_log;
mod error;
mod explain;
mod installation;
mod live;
mod messages;
mod notify;
mod pages;
mod problem;
mod questions;
mod report;
mod retention;
mod runs;
mod schedule;
mod sessions;
mod sign_ins;
mod spend;
mod status;
mod takeover;
mod trace;
mod workers;

pub use actions::{Action, ApprovalDecision, HandBack, Retry, RunAgain, Steered, Stop, TakeOver, WhichIssue};
pub use daemon_log::{DaemonLogLine, DaemonLogPage, LogLevel};
pub use error::ErrorBody;
pub use explain::{
    DecisionView, Explained, Explanation, HoldView, IssueDetails, RootCauseView, StageIntentView, StageState,
    StageView,
};
pub use installation::{InstallationStep, InstallationStepName, StepResult, WorkerInstallation};
pub use messages::{Delivery, DeliveryTo, MessageView, MessagesPage, SendMessage, SentMessage};
pub use notify::{Notification, NotifiedItem, NotifierView};
pub use pages::{
    Decided, DecisionsPage, EventsPage, Health, IssuesPage, PullsPage, RunsPage, StderrTail, WorkflowPage,
};
pub use problem::{PROBLEM_JSON, Problem};
pub use questions::{AnswerQuestion, QuestionView};
pub use report::{AgentFigures, EndFigures, Figures, Part, ReportView, StageFigures};
pub use retention::{KeptView, RemovedView, RetentionView};
pub use runs::{AttemptView, OutputView, RunState, RunView, SkillView};
pub use schedule::{LastRun, ScheduleResult, ScheduleView, ScheduledView, SkippedRun};
pub use sessions::{
    CommitView, DiffView, Excerpt, Fact, FeedEvent, FileChange, FileDiff, ScriptView, SessionDetail,
};
pub use sign_ins::{Link, SignIn, SignInView, SignInsPage, SignedIn};
pub use spend::{DayView, LifeView, LimitView, SpendView};
pub use status::{
    ApiView, ApprovalView, ContextView, Daemon, DaemonState, HubView, LedgerView, ParkedView, PullCounts,
    PullView, RateLimitView, RejectedEdit, SCHEMA, SessionView, StageDef, Status, StoppingView,
    TakenOverView, WaitingView, WaitsForView, WorkflowView,
};
pub use takeover::{HandbackView, TakeoverView};
pub use trace::{
    Author, BlameView, BlamedLines, BrokenRecord, IntentFile, IntentView, TraceCheck, TraceEntry,
    TracedAttempt, TracedFile,
};
pub use workers::WorkerView;
