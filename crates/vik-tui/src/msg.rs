//! What the dashboard is told, and what it asks for.

use crossterm::event::KeyEvent;
use vik_api::{DiffView, EventsPage, Explained, FeedEvent, IssuesPage, Status, Steered};
use vik_core::ids::IssueId;

use crate::error::ClientError;

/// What happened.
#[derive(Debug)]
pub(crate) enum Msg {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted: it is no row of keys.
    Paste(String),
    /// The terminal has so many columns and rows.
    Resize(u16, u16),
    /// A second passed.
    Tick,
    /// The feed is open.
    FeedOpen,
    /// The feed broke off.
    FeedLost,
    /// The feed told something; `None`: something that this version does not know.
    Feed(Option<FeedEvent>),
    /// `GET state`.
    State(Result<Box<Status>, ClientError>),
    /// A page of `GET issues`.
    Issues(Result<IssuesPage, ClientError>),
    /// `GET issues/{id}`.
    Issue(IssueId, Result<Box<Explained>, ClientError>),
    /// `GET sessions/{id}/events`: what was asked for, and what came.
    Events(EventsRequest, Result<EventsPage, ClientError>),
    /// `GET sessions/{id}/diff`.
    Diff(String, Result<DiffView, ClientError>),
    /// What came of an action.
    Steered(Action, Result<Steered, ClientError>),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Load the state.
    State,
    /// Load a page of issues, behind this one.
    Issues(Option<IssueId>),
    /// Load all about an issue.
    Issue(IssueId),
    /// Load events of a session.
    Events(EventsRequest),
    /// Load the diff of a session.
    Diff(String),
    /// Tell the daemon to do something.
    Steer(Action),
    /// Draw the whole screen: something else wrote on it.
    Redraw,
    /// Leave.
    Quit,
}

/// A page of a session log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventsRequest {
    pub(crate) session_id: String,
    /// Events with a greater `seq`.
    pub(crate) after: u64,
    pub(crate) limit: usize,
}

/// What the daemon is told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Look at the workflow and the issues now.
    Refresh,
    /// Start nothing more, for an issue or at all.
    Pause(Option<IssueId>),
    /// Take that back.
    Continue(Option<IssueId>),
    /// Stop what runs for the issue, and park it.
    Cancel(IssueId),
    /// Free what is parked for the issue.
    Unpark(IssueId),
    /// Let go on what waits: the issue, the request, and what is said with it.
    Approve(IssueId, String, Option<String>),
    /// Deny it.
    Deny(IssueId, String, Option<String>),
}

impl Action {
    /// While it is under way.
    pub(crate) fn progress_text(&self) -> String {
        match self {
            Self::Refresh => "asking for a look at the issues".to_owned(),
            Self::Pause(None) => "pausing everything".to_owned(),
            Self::Pause(Some(issue)) => format!("pausing {issue}"),
            Self::Continue(None) => "going on with everything".to_owned(),
            Self::Continue(Some(issue)) => format!("going on with {issue}"),
            Self::Cancel(issue) => format!("cancelling {issue}"),
            Self::Unpark(issue) => format!("unparking {issue}"),
            Self::Approve(issue, ..) => format!("approving {issue}"),
            Self::Deny(issue, ..) => format!("denying {issue}"),
        }
    }

    /// When it is done.
    pub(crate) fn success_text(&self, count: usize) -> String {
        let attempts = crate::text::count(count, "attempt");
        let runs = crate::text::count(count, "run");
        match self {
            Self::Refresh => "the daemon looks at the workflow and the issues now".to_owned(),
            Self::Pause(None) => "paused: nothing more is started; what runs goes on".to_owned(),
            Self::Pause(Some(issue)) => format!("paused {issue}: what runs for it goes on"),
            Self::Continue(None) => "no longer paused".to_owned(),
            Self::Continue(Some(issue)) => format!("{issue} is no longer paused"),
            Self::Cancel(issue) => format!("cancelled {issue}: {attempts} stopped, and parked"),
            Self::Unpark(issue) => format!("unparked {issue}: {runs} freed"),
            Self::Approve(issue, ..) => format!("approved {issue}"),
            Self::Deny(issue, ..) => format!("denied {issue}"),
        }
    }

    /// What was tried, for `cannot …`.
    pub(crate) fn command_text(&self) -> String {
        match self {
            Self::Refresh => "refresh".to_owned(),
            Self::Pause(None) => "pause".to_owned(),
            Self::Pause(Some(issue)) => format!("pause {issue}"),
            Self::Continue(None) => "continue".to_owned(),
            Self::Continue(Some(issue)) => format!("continue {issue}"),
            Self::Cancel(issue) => format!("cancel {issue}"),
            Self::Unpark(issue) => format!("unpark {issue}"),
            Self::Approve(issue, ..) => format!("approve {issue}"),
            Self::Deny(issue, ..) => format!("deny {issue}"),
        }
    }
}
