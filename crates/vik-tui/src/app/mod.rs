//! The state of the dashboard: [`App::update`] takes a message and returns commands. It reads no
//! clock and does no I/O.

/// Evaluates an expression with a reference to the table of the current tab.
macro_rules! with_table {
    (@ $field:expr, ($($reference:tt)+) $table:ident => $result:expr) => {{
        let $table = $($reference)+ $field;
        $result
    }};
    ($app:expr, $reference:tt $table:ident => $result:expr) => {
        match $app.tab {
            Tab::Sessions => with_table!(@ $app.sessions, $reference $table => $result),
            Tab::Parked => with_table!(@ $app.parked, $reference $table => $result),
            Tab::Waiting => with_table!(@ $app.waiting, $reference $table => $result),
            Tab::Issues => with_table!(@ $app.issues, $reference $table => $result),
            Tab::Approvals => with_table!(@ $app.approvals, $reference $table => $result),
            Tab::Workers => with_table!(@ $app.workers, $reference $table => $result),
        }
    };
}
pub(crate) use with_table;

mod diff;
mod issue;
mod keys;
mod layout;
mod load;
mod open;
mod responses;
mod scroll;
mod transcript;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use vik_api::{
    Action, ApprovalView, Explained, Explanation, ParkedView, QuestionView, SessionView, Status, WaitingView,
    WorkerView,
};
use vik_client::ClientError;
use vik_core::ids::IssueId;
use vik_core::message::NewMessage;

pub(crate) use diff::{DiffScreen, LineKind, change_name};
pub(crate) use issue::{IssueScreen, life, spent};
pub(crate) use layout::{ScreenLayout, list_rows, live_rows, notices, screen_size};
pub(crate) use scroll::Scroll;
pub(crate) use transcript::Transcript;

use crate::msg::{Command, Msg};
use crate::rows::is_finished;
use crate::table::{Row, RowContext, Table};
use crate::text;
pub(crate) use load::ISSUES_PER_PAGE;
use load::RequestState;

/// One of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Sessions,
    Parked,
    Waiting,
    Issues,
    Approvals,
    /// Shown only if there are workers.
    Workers,
}

impl Tab {
    pub(crate) const ALL: [Self; 6] = [
        Self::Sessions,
        Self::Parked,
        Self::Waiting,
        Self::Issues,
        Self::Approvals,
        Self::Workers,
    ];
}

/// A screen over the lists.
pub(crate) enum Screen {
    Transcript(Transcript),
    Diff(DiffScreen),
    Issue(IssueScreen),
}

/// The receiver of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The list, or the screen over it.
    Normal,
    /// The filter is being edited; this is its previous value.
    Filter(String),
    /// The help is shown, from this line on.
    Help(usize),
    /// An action waits for confirmation.
    Confirm(Action),
    /// The answer to an approval is being edited: whether it is approved, the approval, and the
    /// message so far.
    Answer(bool, Box<ApprovalView>, String),
    /// The answer to the question of an agent is being edited.
    Question(Box<QuestionView>, String),
    /// A message to the agent of an issue is being edited.
    Message(NewMessage),
}

/// A line about the last action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    pub(crate) until: Timestamp,
}

/// The state that the view draws.
pub(crate) struct App {
    pub(crate) now: Timestamp,
    /// The columns and rows of the terminal.
    pub(crate) size: (u16, u16),
    /// The time zone of displayed times.
    pub(crate) time_zone: TimeZone,
    /// The address of the daemon, for display.
    pub(crate) target: String,
    /// The last successful status, without its lists, which are in the tables.
    pub(crate) status: Option<Status>,
    pub(crate) last_response_at: Option<Timestamp>,
    /// The error of the last request for the state.
    pub(crate) connection_error: Option<String>,
    pub(crate) tab: Tab,
    pub(crate) sessions: Table<SessionView>,
    pub(crate) parked: Table<ParkedView>,
    pub(crate) waiting: Table<WaitingView>,
    pub(crate) issues: Table<Explanation>,
    pub(crate) approvals: Table<ApprovalView>,
    pub(crate) workers: Table<WorkerView>,
    /// The number of issues of the daemon; known after they were loaded.
    pub(crate) issues_total: Option<usize>,
    pub(crate) filter: String,
    pub(crate) mode: Mode,
    /// The screens over the lists; the last one is visible.
    pub(crate) screens: Vec<Screen>,
    /// The details of one issue: the selected one, or that of the screen.
    pub(crate) explained: Option<Explained>,
    pub(crate) notice: Option<Notice>,
    /// Sessions from the feed that are not in the table yet.
    feed_sessions: Vec<SessionView>,
    loads: RequestState,
}

impl App {
    pub(crate) fn new(now: Timestamp, size: (u16, u16), time_zone: TimeZone, target: &str) -> Self {
        Self {
            now,
            size,
            time_zone,
            target: target.to_owned(),
            status: None,
            last_response_at: None,
            connection_error: None,
            tab: Tab::Sessions,
            sessions: Table::new(),
            parked: Table::new(),
            waiting: Table::new(),
            issues: Table::new(),
            approvals: Table::new(),
            workers: Table::new(),
            issues_total: None,
            filter: String::new(),
            mode: Mode::Normal,
            screens: Vec::new(),
            explained: None,
            notice: None,
            feed_sessions: Vec::new(),
            loads: RequestState::default(),
        }
    }

    /// Handles a message and returns the commands to carry out.
    pub(crate) fn update(&mut self, now: Timestamp, msg: Msg) -> Vec<Command> {
        self.now = now;
        let mut commands = Vec::new();
        match msg {
            Msg::Key(key) => {
                self.apply_feed();
                self.on_key(key, &mut commands);
            }
            Msg::Paste(text) => self.on_paste(&text),
            Msg::Resize(columns, rows) => self.size = (columns, rows),
            Msg::Tick => self.on_tick(&mut commands),
            Msg::FeedOpen => {
                self.loads.feed_open = true;
                self.on_change(&mut commands);
            }
            Msg::FeedLost => self.loads.feed_open = false,
            Msg::Feed(event) => self.on_feed_event(event, &mut commands),
            Msg::State(result) => self.on_state(result, &mut commands),
            Msg::Issues(result) => self.on_issues(result, &mut commands),
            Msg::Issue(id, result) => self.on_issue(&id, result),
            Msg::Events(request, result) => self.on_events(&request, result, &mut commands),
            Msg::Diff(id, result) => self.on_diff(&id, result),
            Msg::Steered(action, result) => self.on_steered(&action, result, &mut commands),
        }
        self.load_explained(&mut commands);
        self.lay_out();
        commands
    }

    /// Puts the sessions from the feed into the table: once for many events.
    pub(crate) fn apply_feed(&mut self) {
        if self.feed_sessions.is_empty() {
            return;
        }
        let sessions = std::mem::take(&mut self.feed_sessions);
        let context = self.row_context();
        self.sessions.upsert(sessions, &self.filter, &context);
    }

    /// Returns whether a person has taken the issue over.
    pub(crate) fn is_taken_over(&self, issue: &IssueId) -> bool {
        let held = self.status.iter().flat_map(|status| &status.taken_over);
        held.map(|held| &held.issue_id).any(|held| held == issue)
    }

    pub(crate) fn paused_issues(&self) -> &[IssueId] {
        self.status.as_ref().map_or(&[], |status| &status.paused_issues)
    }

    pub(crate) fn row_context(&self) -> RowContext {
        RowContext {
            now: self.now,
            paused: self.paused_issues().to_vec(),
        }
    }

    /// Filters and sorts all tables again.
    fn arrange_tables(&mut self) {
        let context = self.row_context();
        self.sessions.arrange(&self.filter, &context);
        self.parked.arrange(&self.filter, &context);
        self.waiting.arrange(&self.filter, &context);
        self.issues.arrange(&self.filter, &context);
        self.approvals.arrange(&self.filter, &context);
        self.workers.arrange(&self.filter, &context);
    }

    /// Returns the visible tabs, in order.
    pub(crate) fn tabs(&self) -> &'static [Tab] {
        match self.workers.total() {
            0 => &Tab::ALL[..Tab::ALL.len() - 1],
            _ => &Tab::ALL,
        }
    }

    /// Returns the seconds since the last successful response; `None` without a connection error.
    pub(crate) fn stale_seconds(&self) -> Option<u64> {
        self.connection_error.as_ref()?;
        self.last_response_at
            .map(|at| text::seconds_between(at, self.now))
    }

    /// Returns the session of the selected row or of the screen.
    pub(crate) fn current_session(&self) -> Option<&SessionView> {
        match self.screens.last() {
            Some(Screen::Transcript(transcript)) => self.session(&transcript.session_id),
            Some(_) => None,
            None if self.tab == Tab::Sessions => self.sessions.current(),
            None => None,
        }
    }

    pub(crate) fn session(&self, id: &str) -> Option<&SessionView> {
        self.sessions
            .rows()
            .iter()
            .find(|session| session.session_id == id)
    }

    /// Returns the issue of the screen or of the selected row.
    pub(crate) fn current_issue(&self) -> Option<&IssueId> {
        match self.screens.last() {
            Some(Screen::Transcript(screen)) => Some(&screen.issue_id),
            Some(Screen::Diff(screen)) => Some(&screen.issue_id),
            Some(Screen::Issue(screen)) => Some(&screen.issue_id),
            None => self.selected_issue(),
        }
    }

    fn selected_issue(&self) -> Option<&IssueId> {
        with_table!(self, (&) table => table.current().and_then(Row::issue))
    }

    /// Returns the approval that a key applies to: the selected one, or the only one of the current
    /// issue.
    pub(crate) fn current_approval(&self) -> Option<&ApprovalView> {
        if self.screens.is_empty() && self.tab == Tab::Approvals {
            return self.approvals.current();
        }
        let issue = self.current_issue()?;
        let mut approvals = self.approvals.rows().iter().filter(|row| row.issue_id == *issue);
        approvals.next().filter(|_| approvals.next().is_none())
    }

    /// Returns the open question of the current issue, if it is the only one.
    pub(crate) fn current_question(&self) -> Option<&QuestionView> {
        let issue = self.current_issue()?;
        let questions = &self.status.as_ref()?.questions;
        let mut questions = questions.iter().filter(|open| open.issue_id == *issue);
        questions.next().filter(|_| questions.next().is_none())
    }

    /// Returns the details of an issue, if they are loaded.
    pub(crate) fn explained_for(&self, issue: &IssueId) -> Option<&Explained> {
        self.explained.as_ref().filter(|known| known.issue_id == *issue)
    }

    /// Returns whether an issue is known to be finished.
    fn is_finished(&self, issue: &IssueId) -> bool {
        let known = self.explained_for(issue).and_then(|known| known.now.as_ref());
        let row = || self.issues.rows().iter().find(|row| row.issue_id == *issue);
        known.or_else(row).is_some_and(is_finished)
    }

    /// Returns the title of an issue, if it is known.
    pub(crate) fn title_of(&self, issue: &IssueId) -> Option<&str> {
        let session = self.sessions.rows().iter().find(|row| row.issue_id == *issue);
        let known = self.explained_for(issue);
        session
            .map(|row| row.issue_title.as_str())
            .or_else(|| known?.now.as_ref().map(|now| now.issue_title.as_str()))
            .or_else(|| known?.runs.last().map(|run| run.issue_title.as_str()))
            .or_else(|| {
                let row = self.issues.rows().iter().find(|row| row.issue_id == *issue);
                row.map(|row| row.issue_title.as_str())
            })
    }

    /// Returns the attempt to show for an issue: the running one, or else the latest.
    fn latest_session(&self, issue: &IssueId) -> Option<String> {
        let live = self
            .sessions
            .rows()
            .iter()
            .rev()
            .find(|row| row.issue_id == *issue);
        if let Some(live) = live {
            return Some(live.session_id.clone());
        }
        let attempts = self
            .explained_for(issue)?
            .runs
            .iter()
            .flat_map(|run| &run.attempts);
        attempts
            .max_by_key(|attempt| attempt.started_at)
            .map(|attempt| attempt.session_id.clone())
    }

    fn notify(&mut self, text: String) {
        self.set_notice(text, false, 8);
    }

    fn notify_error(&mut self, text: String) {
        self.set_notice(text, true, 30);
    }

    fn set_notice(&mut self, text: String, is_error: bool, seconds: i64) {
        let until = self
            .now
            .checked_add(jiff::SignedDuration::from_secs(seconds))
            .unwrap_or(self.now);
        self.notice = Some(Notice {
            text,
            is_error,
            until,
        });
    }

    /// Updates everything that depends on the size or on new data: lines are wrapped once, not at
    /// each draw.
    fn lay_out(&mut self) {
        let (columns, rows) = screen_size(self);
        match self.screens.last_mut() {
            Some(Screen::Transcript(screen)) => screen.lay_out(columns, rows),
            Some(Screen::Diff(screen)) => screen.lay_out(rows),
            Some(Screen::Issue(screen)) => {
                let known = self
                    .explained
                    .as_ref()
                    .filter(|known| known.issue_id == screen.issue_id);
                screen.lay_out(known, self.now, columns, rows);
            }
            None => {}
        }
    }
}

/// Returns an error with its causes and its hint.
fn error_with_hint(error: &ClientError) -> String {
    match error.hint() {
        None => error.with_causes(),
        Some(hint) => format!("{} ({hint})", error.with_causes()),
    }
}

#[cfg(test)]
mod tests;
