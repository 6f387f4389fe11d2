//! What is told from outside: answers, and the feed.

use vik_api::{EventsPage, Fact, FeedEvent, Status, Steered};

use super::{App, Screen, Tab, with_hint};
use crate::error::ClientError;
use crate::msg::{Action, Command, EventsAsk};
use crate::table::Look;

impl App {
    pub(super) fn on_fed(&mut self, event: Option<FeedEvent>, commands: &mut Vec<Command>) {
        match event.map(|event| event.fact) {
            Some(Fact::Session(session)) => {
                if let Some(Screen::Transcript(screen)) = self.screens.last_mut()
                    && screen.session_id == session.session_id
                {
                    screen.ask_more(commands);
                }
                self.fed.push(*session);
            }
            Some(Fact::SessionEnded { session_id, .. }) => {
                if let Some(Screen::Transcript(screen)) = self.screens.last_mut()
                    && screen.session_id == session_id
                {
                    screen.ask_more(commands);
                }
                self.wake(commands);
            }
            _ => self.wake(commands),
        }
    }

    pub(super) fn on_state(&mut self, result: Result<Box<Status>, ClientError>, commands: &mut Vec<Command>) {
        self.loads.state_came(self.now);
        match result {
            Ok(status) => {
                let mut status = *status;
                self.trouble = None;
                self.heard_at = Some(self.now);
                // What the feed told of before is in it.
                self.fed.clear();
                let look = Look {
                    now: self.now,
                    paused: &status.paused_issues,
                };
                self.sessions
                    .set(std::mem::take(&mut status.sessions), &self.filter, &look);
                self.parked
                    .set(std::mem::take(&mut status.parked), &self.filter, &look);
                self.waiting
                    .set(std::mem::take(&mut status.waiting), &self.filter, &look);
                self.approvals
                    .set(std::mem::take(&mut status.approvals), &self.filter, &look);
                self.status = Some(status);
                self.loads.explained_old = true;
                if self.tab == Tab::Issues {
                    self.load_issues(commands);
                }
            }
            Err(error) => self.trouble = Some(with_hint(&error)),
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
                Some(why) => self.say(format!("nothing to {}: {why}", action.what())),
                None => self.say(action.done(steered.count)),
            },
            Err(error) => self.complain(format!("cannot {}: {}", action.what(), with_hint(&error))),
        }
        self.wake(commands);
    }

    pub(super) fn on_events(
        &mut self,
        ask: &EventsAsk,
        result: Result<EventsPage, ClientError>,
        commands: &mut Vec<Command>,
    ) {
        let screen = self.screens.iter_mut().find_map(|screen| match screen {
            Screen::Transcript(screen) if screen.session_id == ask.session_id => Some(screen),
            _ => None,
        });
        let Some(screen) = screen else {
            return;
        };
        match result {
            Ok(page) => screen.take(ask, &page, commands),
            Err(error) => {
                // Asked again with the next second.
                screen.busy = false;
                screen.earlier_busy = false;
                screen.trouble = Some(with_hint(&error));
            }
        }
    }
}
