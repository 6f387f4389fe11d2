//! Opens screens for the selected row.

use vik_core::ids::IssueId;

use super::{App, DiffScreen, IssueScreen, Screen, Tab, Transcript};
use crate::msg::Command;

impl App {
    /// Opens the transcript of the current session, or the details of the issue if there is none.
    pub(super) fn open_selected(&mut self, commands: &mut Vec<Command>) {
        match self.screens.last() {
            Some(Screen::Transcript(_)) => {}
            Some(_) => self.open_transcript(commands),
            None if self.tab == Tab::Sessions => self.open_transcript(commands),
            None => self.open_issue(),
        }
    }

    pub(super) fn open_transcript(&mut self, commands: &mut Vec<Command>) {
        let Some((session_id, issue)) = self.target_session() else {
            return;
        };
        let (label, events) = match self.session(&session_id) {
            Some(live) => (format!("{}, {}", live.stage, live.agent), live.events),
            None => (String::new(), 0),
        };
        let time_zone = self.time_zone.clone();
        let screen = Transcript::new(&session_id, &issue, label, events, time_zone, commands);
        self.open(Screen::Transcript(screen));
    }

    pub(super) fn open_diff(&mut self, commands: &mut Vec<Command>) {
        // Requested again if it is open, because the workspace changes.
        let Some(issue) = self.target_issue() else {
            return;
        };
        commands.push(Command::Diff(issue.clone()));
        match self.screens.last_mut() {
            Some(Screen::Diff(screen)) => screen.loading = true,
            _ => self.open(Screen::Diff(DiffScreen::new(&issue))),
        }
    }

    pub(super) fn open_issue(&mut self) {
        if matches!(self.screens.last(), Some(Screen::Issue(_))) {
            return;
        }
        self.with_issue(|app, issue| app.open(Screen::Issue(IssueScreen::new(&issue))));
    }

    /// Opens a screen and closes any other of the same kind, so that the stack stays small.
    pub(super) fn open(&mut self, screen: Screen) {
        let kind = std::mem::discriminant(&screen);
        self.screens.retain(|open| std::mem::discriminant(open) != kind);
        self.screens.push(screen);
    }

    /// Returns the session of the row or screen with its issue; shows a notice if there is none.
    pub(super) fn target_session(&mut self) -> Option<(String, IssueId)> {
        let found = match self.screens.last() {
            Some(Screen::Transcript(screen)) => Some((screen.session_id.clone(), screen.issue_id.clone())),
            Some(Screen::Diff(DiffScreen { issue_id, .. }) | Screen::Issue(IssueScreen { issue_id, .. })) => {
                let issue = issue_id.clone();
                self.latest_session(&issue).map(|session| (session, issue))
            }
            None => match (self.current_session(), self.selected_issue()) {
                (Some(session), Some(issue)) => Some((session.session_id.clone(), issue.clone())),
                (None, Some(issue)) => self.latest_session(issue).map(|session| (session, issue.clone())),
                _ => None,
            },
        };
        if found.is_none() {
            match self.current_issue().cloned() {
                Some(issue) => self.notify_error(format!("no session found for {issue}")),
                None => self.notify_error("no issue is selected".to_owned()),
            }
        }
        found
    }

    /// Returns the issue of the row or screen; shows a notice if there is none.
    pub(super) fn target_issue(&mut self) -> Option<IssueId> {
        let issue = self.current_issue().cloned();
        if issue.is_none() {
            self.notify_error("no issue is selected".to_owned());
        }
        issue
    }

    pub(super) fn with_issue(&mut self, then: impl FnOnce(&mut Self, IssueId)) {
        if let Some(issue) = self.target_issue() {
            then(self, issue);
        }
    }
}
