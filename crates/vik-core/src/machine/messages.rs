//! The messages of people that wait for an agent of the issue.

use super::{IssueMachine, Phase, Run};
use crate::attempt::Start;
use crate::ids::{AttemptId, MessageId};
use crate::message::{Message, WaitingMessage};

impl IssueMachine {
    /// Returns the messages of people that no agent has taken, oldest first.
    pub fn messages(&self) -> &[WaitingMessage] {
        &self.messages
    }

    /// Returns the attempt that gets the next message: the one that started last of those that run
    /// and are not being stopped.
    pub fn message_recipient(&self) -> Option<&Start> {
        let listens = |run: &Run| match &run.phase {
            Phase::Active {
                start,
                stopping: None,
                ..
            } => Some(start.attempt_id),
            _ => None,
        };
        let last = self.runs.iter().filter_map(listens).max()?;
        self.active(last).map(|(start, ..)| start)
    }

    /// Adds a message, and returns the attempt to deliver it to.
    pub fn add_message(&mut self, message: Message) -> Option<AttemptId> {
        let attempt = self.message_recipient().map(|start| start.attempt_id);
        self.messages.push(WaitingMessage { message, attempt });
        attempt
    }

    /// Drops messages that an agent has taken or that were withdrawn. Returns the number of those
    /// that waited.
    pub fn remove_messages(&mut self, ids: &[MessageId]) -> usize {
        let before = self.messages.len();
        self.messages.retain(|waiting| !ids.contains(&waiting.message.id));
        before - self.messages.len()
    }

    /// Returns the messages of active attempts that are not in their prompts: the attempts may not
    /// have received them.
    pub fn undelivered_messages(&self) -> impl Iterator<Item = (AttemptId, &Message)> {
        self.messages.iter().filter_map(|waiting| {
            let (start, ..) = self.active(waiting.attempt?)?;
            (!self.is_in_prompt(waiting)).then_some((start.attempt_id, &waiting.message))
        })
    }

    /// Returns whether the prompt of an active attempt contains the message.
    pub fn is_in_prompt(&self, waiting: &WaitingMessage) -> bool {
        let start = waiting.attempt.and_then(|attempt_id| self.active(attempt_id));
        let mut messages = start.iter().flat_map(|(start, ..)| &start.messages);
        messages.any(|message| message.id == waiting.message.id)
    }

    /// Gives the messages that wait for an attempt to the one that starts, and returns them.
    pub(super) fn messages_for_start(&mut self, attempt_id: AttemptId) -> Vec<Message> {
        let waiting = self
            .messages
            .iter_mut()
            .filter(|waiting| waiting.attempt.is_none());
        waiting
            .map(|waiting| {
                waiting.attempt = Some(attempt_id);
                waiting.message.clone()
            })
            .collect()
    }

    /// Lets the messages wait for the next attempt that the agent of this one has not taken.
    pub(super) fn return_messages(&mut self, attempt_id: AttemptId) {
        for waiting in &mut self.messages {
            if waiting.attempt == Some(attempt_id) {
                waiting.attempt = None;
            }
        }
    }
}
