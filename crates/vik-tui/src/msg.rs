//! The messages and commands of the dashboard.

use crossterm::event::KeyEvent;
use vik_api::{Action, DiffView, EventsPage, Explained, FeedEvent, IssuesPage, Status, Steered};
use vik_client::ClientError;
use vik_core::ids::IssueId;

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
    Diff(IssueId, Result<DiffView, ClientError>),
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
    /// Load the diff of an issue.
    Diff(IssueId),
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
