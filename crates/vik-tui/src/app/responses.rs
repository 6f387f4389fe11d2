//! Handles responses of the daemon and events of the feed.

use vik_api::{Action, EventsPage, Fact, FeedEvent, Status, Steered};
use vik_client::ClientError;
use vik_core::scheduler::Command as Steering;

use super::{App, Screen, Tab, error_with_hint};
use crate::action::{command_text, success_text};
use crate::msg::{Command, EventsRequest};
use crate::table::RowContext;

impl App {
    pub(super) fn on_feed_event(&mut self, event: Option<FeedEvent>, commands: &mut Vec<Command>) {
        match event.map(|event| event.fact) {
            Some(Fact::Session(session)) => {
                if let Some(Screen::Transcript(screen)) = self.screens.last_mut()
                    && screen.session_id == session.session_id
                {
                    screen.request_newer(commands);
                }
                self.feed_sessions.push(*session);
            }
            Some(Fact::SessionEnded { session_id, .. }) => {
                if let Some(Screen::Transcript(screen)) = self.screens.last_mut()
                    && screen.session_id == session_id
                {
                    screen.request_newer(commands);
                }
                self.on_change(commands);
            }
            _ => self.on_change(commands),
        }
    }

    pub(super) fn on_state(&mut self, result: Result<Box<Status>, ClientError>, commands: &mut Vec<Command>) {
        self.loads.on_state_loaded(self.now);
        match result {
            Ok(status) => {
                let mut status = *status;
                self.connection_error = None;
                self.last_response_at = Some(self.now);
                // The status includes all earlier events of the feed.
                self.feed_sessions.clear();
                let context = RowContext {
                    now: self.now,
                    paused: status.paused_issues.clone(),
                };
                self.sessions
                    .set(std::mem::take(&mut status.sessions), &self.filter, &context);
                self.parked
                    .set(std::mem::take(&mut status.parked), &self.filter, &context);
                self.waiting
                    .set(std::mem::take(&mut status.waiting), &self.filter, &context);
                self.approvals
                    .set(std::mem::take(&mut status.approvals), &self.filter, &context);
                self.workers
                    .set(std::mem::take(&mut status.workers), &self.filter, &context);
                if !self.tabs().contains(&self.tab) {
                    self.tab = Tab::Sessions;
                }
                self.status = Some(status);
                self.loads.explained_stale = true;
                if self.tab == Tab::Issues {
                    self.load_issues(commands);
                }
            }
            Err(error) => self.connection_error = Some(error_with_hint(&error)),
        }
    }

    pub(super) fn on_steered(
        &mut self,
        action: &Action,
        result: Result<Steered, ClientError>,
        commands: &mut Vec<Command>,
    ) {
        match result {
            Ok(steered) => match steered.nothing {
                Some(why) => self.notify(format!("nothing to {}: {why}", command_text(action))),
                None => self.notify(
                    self.sent_text(action)
                        .unwrap_or_else(|| success_text(action, steered.count)),
                ),
            },
            Err(error) => self.notify_error(format!(
                "cannot {}: {}",
                command_text(action),
                error_with_hint(&error)
            )),
        }
        self.on_change(commands);
    }

    /// Returns the text after a message was sent; `None` after another action.
    fn sent_text(&self, action: &Action) -> Option<String> {
        let Action::Command(Steering::SendMessage(message)) = action else {
            return None;
        };
        let issue = &message.issue;
        let mut sessions = self.sessions.rows().iter().filter(|row| row.issue_id == *issue);
        let Some(session) = sessions.next_back() else {
            return Some(format!("the message to {issue} waits for the next attempt"));
        };
        Some(match &session.not_steerable_because {
            Some(why) => {
                format!(
                    "the message to {issue} waits for the next attempt: the agent cannot be steered: {why}"
                )
            }
            None => format!(
                "message sent to the agent of {issue} ({}, stage {})",
                session.agent, session.stage
            ),
        })
    }

    pub(super) fn on_events(
        &mut self,
        request: &EventsRequest,
        result: Result<EventsPage, ClientError>,
        commands: &mut Vec<Command>,
    ) {
        let screen = self.screens.iter_mut().find_map(|screen| match screen {
            Screen::Transcript(screen) if screen.session_id == request.session_id => Some(screen),
            _ => None,
        });
        let Some(screen) = screen else {
            return;
        };
        match result {
            Ok(page) => screen.on_page(request, &page, commands),
            Err(error) => {
                // The next tick requests it again.
                screen.busy = false;
                screen.earlier_busy = false;
                screen.error = Some(error_with_hint(&error));
            }
        }
    }
}
