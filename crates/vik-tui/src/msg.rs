//! The messages and commands of the dashboard.

use crossterm::event::KeyEvent;
use vik_api::{DiffView, EventsPage, Explained, FeedEvent, IssuesPage, Status, Steered};
use vik_core::ids::IssueId;

use crate::error::ClientError;

/// A message to the dashboard.
#[derive(Debug)]
pub(crate) enum Msg {
    Key(KeyEvent),
    /// Text was pasted: it is not a sequence of keys.
    Paste(String),
    /// The terminal has this number of columns and rows.
    Resize(u16, u16),
    Tick,
    FeedOpen,
    /// The feed broke off.
    FeedLost,
    /// An event of the feed; `None` for one that this version does not know.
    Feed(Option<FeedEvent>),
    State(Result<Box<Status>, ClientError>),
    /// A page of `GET issues`.
    Issues(Result<IssuesPage, ClientError>),
    Issue(IssueId, Result<Box<Explained>, ClientError>),
    /// `GET sessions/{id}/events`: the request and its result.
    Events(EventsRequest, Result<EventsPage, ClientError>),
    Diff(String, Result<DiffView, ClientError>),
    /// The result of an action.
    Steered(Action, Result<Steered, ClientError>),
}

/// A command of the dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    State,
    /// Load a page of issues, after this one.
    Issues(Option<IssueId>),
    /// Load all details of an issue.
    Issue(IssueId),
    Events(EventsRequest),
    /// Load the diff of a session.
    Diff(String),
    /// Send an action to the daemon.
    Steer(Action),
    /// Draw the whole screen, because another program wrote to it.
    Redraw,
    Quit,
}

/// A page of a session log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventsRequest {
    pub(crate) session_id: String,
    /// Only events with a greater `seq`.
    pub(crate) after: u64,
    pub(crate) limit: usize,
}

/// An action of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Check the workflow and the issues now.
    Refresh,
    /// Start no more work, for one issue or at all.
    Pause(Option<IssueId>),
    /// Resume after a pause.
    Resume(Option<IssueId>),
    /// Stop the work on an issue, and park it.
    Cancel(IssueId),
    /// Free the parked stages of an issue.
    Retry(IssueId),
    /// Approve a request: the issue, the request, and a message.
    Approve(IssueId, String, Option<String>),
    /// Deny a request: the issue, the request, and a message.
    Deny(IssueId, String, Option<String>),
}

impl Action {
    /// Returns the text while the action is running.
    pub(crate) fn progress_text(&self) -> String {
        match self {
            Self::Refresh => "requesting a refresh".to_owned(),
            Self::Pause(None) => "pausing all issues".to_owned(),
            Self::Pause(Some(issue)) => format!("pausing {issue}"),
            Self::Resume(None) => "resuming all issues".to_owned(),
            Self::Resume(Some(issue)) => format!("resuming {issue}"),
            Self::Cancel(issue) => format!("cancelling {issue}"),
            Self::Retry(issue) => format!("retrying {issue}"),
            Self::Approve(issue, ..) => format!("approving {issue}"),
            Self::Deny(issue, ..) => format!("denying {issue}"),
        }
    }

    /// Returns the text after the action succeeded.
    pub(crate) fn success_text(&self, count: usize) -> String {
        let attempts = crate::text::count(count, "attempt");
        let runs = crate::text::count(count, "run");
        match self {
            Self::Refresh => {
                "refresh requested: the daemon reloads the workflow and pulls the issues".to_owned()
            }
            Self::Pause(None) => "paused: no new attempts start, running attempts continue".to_owned(),
            Self::Pause(Some(issue)) => format!("paused {issue}: running attempts continue"),
            Self::Resume(None) => "resumed all issues".to_owned(),
            Self::Resume(Some(issue)) => format!("resumed {issue}"),
            Self::Cancel(issue) => format!("cancelled and parked {issue}: {attempts} stopped"),
            Self::Retry(issue) => format!("retrying {issue}: {runs} freed"),
            Self::Approve(issue, ..) => format!("approved {issue}"),
            Self::Deny(issue, ..) => format!("denied {issue}"),
        }
    }

    /// Returns the name of the action, for `cannot …`.
    pub(crate) fn command_text(&self) -> String {
        match self {
            Self::Refresh => "refresh".to_owned(),
            Self::Pause(None) => "pause".to_owned(),
            Self::Pause(Some(issue)) => format!("pause {issue}"),
            Self::Resume(None) => "resume".to_owned(),
            Self::Resume(Some(issue)) => format!("resume {issue}"),
            Self::Cancel(issue) => format!("cancel {issue}"),
            Self::Retry(issue) => format!("retry {issue}"),
            Self::Approve(issue, ..) => format!("approve {issue}"),
            Self::Deny(issue, ..) => format!("deny {issue}"),
        }
    }
}
