//! Schedules requests: the feed triggers them, a slow poll is the fallback, and no request runs
//! twice at a time.

use jiff::Timestamp;
use vik_api::{Explained, Explanation, IssuesPage};
use vik_client::ClientError;
use vik_core::ids::IssueId;

use super::{App, Screen, Tab, error_with_hint};
use crate::msg::Command;
use crate::text::seconds_between;

/// The interval of loading the state without a feed.
const POLL_SECONDS: u64 = 2;
/// The interval of loading the state with a feed: elapsed budgets, for example, have no event.
const SLOW_POLL_SECONDS: u64 = 10;
/// The number of issues in one page.
pub(crate) const ISSUES_PER_PAGE: usize = 500;
/// The maximum number of issues that are kept.
const MAX_ISSUES: usize = 20_000;
/// A longer list of issues is loaded less often.
const MANY_ISSUES: usize = 1_000;
/// The time before a failed or stale explanation is requested again.
const EXPLAIN_SECONDS: u64 = 5;

/// The requests that are running, and when each kind was last answered.
#[derive(Default)]
pub(crate) struct RequestState {
    pub(super) feed_open: bool,
    state_busy: bool,
    state_at: Option<Timestamp>,
    /// Whether something changed since the last request.
    state_stale: bool,
    /// The pages received so far.
    issues: Option<Vec<Explanation>>,
    issues_at: Option<Timestamp>,
    explain_busy: Option<IssueId>,
    /// The issue of the last request, and when the response arrived.
    explained_at: Option<(IssueId, Timestamp)>,
    pub(super) explained_stale: bool,
}

impl RequestState {
    pub(super) fn on_state_loaded(&mut self, now: Timestamp) {
        self.state_busy = false;
        self.state_at = Some(now);
    }
}

impl App {
    /// Loads the state after a change: now, or within a second if that was just done.
    pub(super) fn on_change(&mut self, commands: &mut Vec<Command>) {
        let just_now = self
            .loads
            .state_at
            .is_some_and(|at| seconds_between(at, self.now) < 1);
        if self.loads.state_busy || just_now {
            self.loads.state_stale = true;
        } else {
            self.load_state(commands);
        }
    }

    pub(super) fn load_state(&mut self, commands: &mut Vec<Command>) {
        if !self.loads.state_busy {
            self.loads.state_busy = true;
            self.loads.state_stale = false;
            commands.push(Command::State);
        }
    }

    pub(super) fn on_tick(&mut self, commands: &mut Vec<Command>) {
        let pause = match self.loads.feed_open {
            true if self.connection_error.is_none() => SLOW_POLL_SECONDS,
            _ => POLL_SECONDS,
        };
        let due = |at: Timestamp| seconds_between(at, self.now) >= pause;
        if self.loads.state_stale || self.loads.state_at.is_none_or(due) {
            self.load_state(commands);
        }
        if let Some(Screen::Transcript(screen)) = self.screens.last_mut() {
            screen.request_newer(commands);
        }
        if self
            .notice
            .as_ref()
            .is_some_and(|notice| notice.until <= self.now)
        {
            self.notice = None;
        }
    }

    /// Loads the list of issues, page by page.
    pub(super) fn load_issues(&mut self, commands: &mut Vec<Command>) {
        let pause = if self.issues.total() > MANY_ISSUES { 10 } else { 2 };
        let recent = self
            .loads
            .issues_at
            .is_some_and(|at| seconds_between(at, self.now) < pause);
        if self.loads.issues.is_none() && !recent {
            self.loads.issues = Some(Vec::new());
            commands.push(Command::Issues(None));
        }
    }

    pub(super) fn on_issues(&mut self, result: Result<IssuesPage, ClientError>, commands: &mut Vec<Command>) {
        let Some(mut issues) = self.loads.issues.take() else {
            return;
        };
        match result {
            Ok(page) => {
                self.issues_total = Some(page.total);
                let moved_on = !page.issues.is_empty();
                issues.extend(page.issues);
                if let Some(next) = page.next
                    && moved_on
                    && issues.len() < MAX_ISSUES
                {
                    self.loads.issues = Some(issues);
                    commands.push(Command::Issues(Some(next)));
                    return;
                }
                let context = self.row_context();
                self.issues.set(issues, &self.filter, &context);
            }
            Err(error) => self.notify_error(format!("cannot load the issues: {}", error_with_hint(&error))),
        }
        self.loads.issues_at = Some(self.now);
    }

    /// Keeps the details of the current issue up to date.
    pub(super) fn load_explained(&mut self, commands: &mut Vec<Command>) {
        if self.loads.explain_busy.is_some() || self.status.is_none() || self.connection_error.is_some() {
            return;
        }
        let Some(issue_id) = self.current_issue().cloned() else {
            return;
        };
        let fresh = match &self.loads.explained_at {
            Some((issue, at)) if *issue == issue_id => {
                let age = seconds_between(*at, self.now);
                let old = self.loads.explained_stale && age >= POLL_SECONDS;
                let failed = self.explained_for(&issue_id).is_none();
                !(old || failed && age >= EXPLAIN_SECONDS)
            }
            _ => false,
        };
        if !fresh {
            self.loads.explained_stale = false;
            self.loads.explain_busy = Some(issue_id.clone());
            commands.push(Command::Issue(issue_id));
        }
    }

    pub(super) fn on_issue(&mut self, id: &IssueId, result: Result<Box<Explained>, ClientError>) {
        self.loads.explain_busy = None;
        self.loads.explained_at = Some((id.clone(), self.now));
        match result {
            Ok(explained) => self.explained = Some(*explained),
            Err(error) => {
                if let Some(Screen::Issue(screen)) = self.screens.last_mut()
                    && screen.issue_id == *id
                {
                    screen.error = Some(error_with_hint(&error));
                }
            }
        }
    }

    pub(super) fn show_tab(&mut self, tab: Tab, commands: &mut Vec<Command>) {
        self.tab = tab;
        if tab == Tab::Issues {
            self.load_issues(commands);
        }
    }
}
