//! Messages of people to the agent of an attempt.
//!
//! Those that waited when the attempt started are in its prompt. Those that arrive while the agent
//! runs are sent to it, if its input is open. Each is in the journal, with its lines, before it is
//! in the file of the agent's input, and in that file once: a daemon may die at any point, and the
//! next one resumes there. A message that the agent has not taken stays with the scheduler, and is
//! in the next prompt. One in the prompt is taken when the model has answered.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use vik_agents::AgentRequest;
use vik_base::{failpoint, report};
use vik_core::attempt::AttemptResult;
use vik_core::event::{Event, LogLine, LoggedEvent};
use vik_core::ids::{AttemptId, MessageId};
use vik_core::message::Message;
use vik_session_log::SessionLog;
use vik_store::{Journal, NotedInput, NotedTurn, Step, StoreError};
use vik_workspace::fs as private;

use super::commands::AttemptCommands;
use super::follow::{FollowError, OutputReader};
use super::live::Steering;
use super::opened::AttemptContext;
use super::questions::answer_event;
use super::tool_calls::Input;
use super::turns::Turns;
use super::updates::UpdateSender;

/// How long an agent that waits for input may leave a message untaken. It reads one at once: after
/// this time, it is an agent that does not say which messages it takes.
const MAX_UNTAKEN: Duration = Duration::from_secs(30);

/// The states of a message in the session log.
const IN_PROMPT: &str = "prompt";
const SENT: &str = "sent";
const TAKEN: &str = "taken";
const REJECTED: &str = "rejected";

/// Returns the messages of people that waited when the attempt started, for its prompt; "" if there
/// are none.
pub(super) fn prompt_section(messages: &[Message]) -> String {
    let mut out = String::new();
    if messages.is_empty() {
        return out;
    }
    out.push_str("\n\n---\nVik: a person sent these messages\n");
    for Message { by, at, text, .. } in messages {
        let _ = write!(out, "\n{by}, {at:.0}:\n{}\n", text.trim_end());
    }
    out
}

fn finished() -> Steering {
    Steering::No {
        why: "it has finished its work".to_owned(),
    }
}

/// Returns a message as its agent gets it. Like the prompt, it is sent to a provider.
fn masked(message: Message) -> Message {
    Message {
        text: vik_mask::mask(&message.text).into_owned(),
        ..message
    }
}

/// The events of messages in the session log of an attempt.
#[derive(Debug, Default)]
pub(super) struct MessageEvents {
    logged: BTreeSet<(MessageId, String)>,
    /// The attempts whose questions have answers in the log.
    answered: BTreeSet<AttemptId>,
    /// The turns whose prompts are in the log.
    turns: BTreeSet<u32>,
}

impl MessageEvents {
    /// Reads the log of an attempt that an earlier daemon may have written.
    fn read(log: &Path) -> Self {
        let file = private::open(log).ok();
        // One line at a time: an agent decides how long its log is.
        let lines = file
            .into_iter()
            .flat_map(|file| BufReader::new(file).split(b'\n'));
        let lines = lines.map_while(Result::ok);
        let events = lines.filter_map(|line| serde_json::from_slice::<LogLine>(&line).ok());
        let mut found = Self::default();
        for line in events {
            match line.event {
                LoggedEvent::Known(Event::PersonMessage { id, state, .. }) => {
                    found.logged.insert((id, state.into_owned()));
                }
                LoggedEvent::Known(Event::Answer { asked_by, .. }) => {
                    found.answered.insert(asked_by);
                }
                LoggedEvent::Known(Event::Turn { number, .. }) => {
                    found.turns.insert(number);
                }
                _ => {}
            }
        }
        found
    }

    fn has(&self, id: MessageId, state: &str) -> bool {
        self.logged.contains(&(id, state.to_owned()))
    }

    /// Returns the event of a message in this state, unless the log contains it.
    fn next<'m>(&mut self, message: &'m Message, state: &'static str) -> Option<Event<'m>> {
        let has_text = matches!(state, IN_PROMPT | SENT);
        self.logged
            .insert((message.id, state.to_owned()))
            .then(|| Event::PersonMessage {
                id: message.id,
                by: message.by.as_str().into(),
                text: if has_text {
                    vik_mask::mask(&message.text)
                } else {
                    "".into()
                },
                sent_at: message.at,
                state: state.into(),
            })
    }

    fn write(
        &mut self,
        message: &Message,
        state: &'static str,
        reader: &mut OutputReader,
    ) -> Result<(), FollowError> {
        match self.next(message, state) {
            Some(event) => reader.append_event(Timestamp::now(), &event),
            None => Ok(()),
        }
    }

    /// Writes the prompt of another turn, unless the log contains it.
    fn write_turn(&mut self, turn: &NotedTurn, reader: &mut OutputReader) -> Result<(), FollowError> {
        if !self.turns.insert(turn.granted.turn) {
            return Ok(());
        }
        let event = Event::Turn {
            number: turn.granted.turn,
            of: turn.granted.max,
            why: turn.granted.why().into(),
            prompt: turn.prompt.as_str().into(),
        };
        reader.append_event(Timestamp::now(), &event)
    }
}

impl AttemptContext<'_> {
    /// Returns the events of messages that the session log contains. Only an attempt with messages
    /// or further turns has any.
    pub(super) fn message_events(&self) -> MessageEvents {
        let has_none = self.start().messages.is_empty() && self.journal().inputs().next().is_none();
        if has_none {
            return MessageEvents::default();
        }
        MessageEvents::read(&self.files.log())
    }

    /// Records the answers and messages in the prompt of an agent that runs, or has run.
    pub(super) fn log_prompt_messages(&self, events: &mut MessageEvents, reader: &mut OutputReader) {
        for answer in &self.start().answers {
            if events.answered.insert(answer.id)
                && let Err(error) = reader.append_event(Timestamp::now(), &answer_event(answer))
            {
                let error = report::chain(&error);
                tracing::warn!(error, "cannot record an answer in the session log");
            }
        }
        for message in &self.start().messages {
            if let Err(error) = events.write(message, IN_PROMPT, reader) {
                let error = report::chain(&error);
                tracing::warn!(error, "cannot record a message in the session log");
            }
        }
    }

    /// Reports that the agent has read its prompt, with the messages in it. Until its model answers,
    /// the attempt may still fail in a way that lets the next one start a new conversation.
    pub(super) fn report_prompt_taken(&self) {
        for message in &self.start().messages {
            self.attempt.updates.message_taken(message.id);
        }
    }

    /// Reports the messages that an attempt has taken whose end an earlier daemon recorded.
    pub(super) fn report_recorded_messages(&self, result: &AttemptResult) {
        if result.has_read_prompt() {
            self.report_prompt_taken();
        }
        let events = self.message_events();
        for message in self.journal().messages() {
            if events.has(message.id, TAKEN) {
                self.attempt.updates.message_taken(message.id);
            }
        }
    }

    /// Reports the messages that an agent took before its end.
    pub(super) fn report_taken_messages(
        &self,
        requests: &[AgentRequest],
        events: &mut MessageEvents,
        log: &mut SessionLog,
    ) -> Result<(), StoreError> {
        for request in requests {
            let AgentRequest::MessageTaken { id } = request else {
                continue;
            };
            let journal = self.journal();
            let Some(message) = journal.messages().find(|message| message.id == *id) else {
                continue;
            };
            if let Some(event) = events.next(message, TAKEN) {
                log.push(Timestamp::now(), &event)?;
            }
            self.attempt.updates.message_taken(*id);
        }
        Ok(())
    }

    /// Returns the relay of messages to an agent whose input is open.
    pub(super) fn messages(&self) -> Messages {
        let mut messages = Messages::of(
            self.shared_journal(),
            self.attempt.commands.clone(),
            self.attempt.updates.clone(),
        );
        let in_prompt = self.start().messages.iter().map(|message| message.id);
        messages.known.extend(in_prompt);
        messages.is_steerable = self.spec.not_steerable_because.is_none();
        messages.events = self.message_events();
        messages
    }

    /// Shows that the agent takes no more messages.
    pub(super) fn end_steering(&self) {
        if self.spec.not_steerable_because.is_none() {
            let steering = Some(finished());
            self.attempt.updates.set_facts(|facts| facts.steering = steering);
        }
    }

    /// Shows whether people can send messages to the agent.
    pub(super) fn show_steering(&self) {
        let steering = match &self.spec.not_steerable_because {
            Some(why) => Steering::No { why: why.clone() },
            None => Steering::NotYet,
        };
        self.attempt
            .updates
            .set_facts(|facts| facts.steering = Some(steering));
    }
}

/// The relay of messages to a running agent.
#[derive(Debug)]
pub(super) struct Messages {
    is_steerable: bool,
    commands: AttemptCommands,
    journal: Arc<Mutex<Journal>>,
    updates: UpdateSender,
    events: MessageEvents,
    /// The messages in the prompt, and those that were sent.
    known: BTreeSet<MessageId>,
    /// The messages that were sent and that the agent has not taken yet.
    untaken: Vec<Message>,
    /// The further turns whose prompts were sent and that have not begun yet.
    unbegun_turns: Vec<MessageId>,
    /// The end of the turn, if the agent waits for input: whether the turn succeeded.
    turn_ended: Option<bool>,
    /// Since when it waits for input with an untaken message.
    idle_since: Option<Instant>,
    max_untaken: Duration,
    /// What the facts show.
    steering: Option<Steering>,
}

impl Messages {
    /// Creates the relay to an agent that takes messages.
    pub(super) fn of(journal: Arc<Mutex<Journal>>, commands: AttemptCommands, updates: UpdateSender) -> Self {
        let (untaken, unbegun_turns): (Vec<Message>, Vec<MessageId>) = {
            let journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            let turns = journal.inputs().filter_map(|input| match input {
                NotedInput::Turn(turn) => Some(turn.id),
                NotedInput::Message(..) => None,
            });
            (journal.messages().cloned().collect(), turns.collect())
        };
        Self {
            is_steerable: true,
            commands,
            journal,
            updates,
            events: MessageEvents::default(),
            known: untaken.iter().map(|message| message.id).collect(),
            untaken,
            unbegun_turns,
            turn_ended: None,
            idle_since: None,
            max_untaken: MAX_UNTAKEN,
            steering: None,
        }
    }

    /// Sends the lines of the messages and turns in the journal, except those that were sent before.
    pub(super) fn resume(&mut self, input: &mut Input, reader: &mut OutputReader) -> Result<(), FollowError> {
        let journal = Arc::clone(&self.journal);
        let journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        for noted in journal.inputs() {
            match noted {
                NotedInput::Message(message, lines) => self.write(message, lines, input, reader)?,
                NotedInput::Turn(turn) => self.write_turn(turn, input, reader)?,
            }
        }
        Ok(())
    }

    /// Sends the messages of the inbox that the agent can take, and ends the input of an agent that
    /// waits for nothing and gets no further turn.
    pub(super) fn poll(
        &mut self,
        input: &mut Input,
        reader: &mut OutputReader,
        turns: Option<&mut Turns<'_>>,
    ) -> Result<(), FollowError> {
        let is_held = turns.as_ref().is_some_and(|turns| turns.is_waiting());
        while let Some(next) = self.next(input, reader).filter(|_| !is_held) {
            let Some(message) = self.commands.take_message().map(masked) else {
                break;
            };
            // Between the two calls the first one may have been withdrawn.
            let lines = match message.id == next.0 {
                true => Some(next.1),
                false => reader.message_lines(&message),
            };
            if let Some(lines) = lines.filter(|_| self.known.insert(message.id)) {
                self.send(message, &lines, input, reader)?;
            }
        }
        if let Some(succeeded) = self.turn_ended.filter(|_| !input.is_ended())
            && self.unbegun_turns.is_empty()
            && (self.untaken.is_empty() || self.is_ignored())
        {
            let has_message = self.commands.first_message().is_some();
            let stays_open =
                self.untaken.is_empty() && turns.is_some_and(|turns| turns.on_idle(succeeded, has_message));
            if !stays_open {
                input.end().map_err(FollowError::Answer)?;
            }
        }
        self.show(input, reader);
        Ok(())
    }

    /// Returns whether an agent that waits for input ignores its messages, which then wait for the
    /// next attempt. Without an end of its input it would wait until `stall_timeout`.
    fn is_ignored(&mut self) -> bool {
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        since.elapsed() >= self.max_untaken
    }

    /// Handles the end of a turn, after which the agent waits for input.
    pub(super) fn on_turn_ended(&mut self, succeeded: bool) {
        self.turn_ended = Some(succeeded);
    }

    /// Records the prompt of another turn, and sends it. Returns false if the agent takes none.
    pub(super) fn send_turn(
        &mut self,
        mut turn: NotedTurn,
        input: &mut Input,
        reader: &mut OutputReader,
    ) -> Result<bool, FollowError> {
        let message = Message {
            id: turn.id,
            text: turn.prompt.clone(),
            by: String::new(),
            at: Timestamp::now(),
            interrupt: false,
        };
        let lines = reader.message_lines(&message).filter(|_| !input.is_ended());
        let Some(lines) = lines else {
            return Ok(false);
        };
        turn.lines = lines;
        let step = Step::Turn(Box::new(turn.clone()));
        self.journal().record(step).map_err(FollowError::Answer)?;
        failpoint::reach("turn_noted");
        self.unbegun_turns.push(turn.id);
        self.write_turn(&turn, input, reader)?;
        Ok(true)
    }

    fn write_turn(
        &mut self,
        turn: &NotedTurn,
        input: &mut Input,
        reader: &mut OutputReader,
    ) -> Result<(), FollowError> {
        for line in &turn.lines {
            input.write_once(line).map_err(FollowError::Answer)?;
        }
        reader.on_message_sent(turn.id, &turn.lines);
        failpoint::reach("turn_sent");
        self.events.write_turn(turn, reader)
    }

    /// Returns the first message of the inbox and its lines, if the agent can take one.
    fn next(&self, input: &Input, reader: &OutputReader) -> Option<(MessageId, Vec<String>)> {
        if !self.is_steerable || input.is_ended() {
            return None;
        }
        let message = masked(self.commands.first_message()?);
        let lines = reader.message_lines(&message)?;
        Some((message.id, lines))
    }

    fn send(
        &mut self,
        message: Message,
        lines: &[String],
        input: &mut Input,
        reader: &mut OutputReader,
    ) -> Result<(), FollowError> {
        let step = Step::Message {
            message: Box::new(message.clone()),
            lines: lines.to_vec(),
        };
        self.journal().record(step).map_err(FollowError::Answer)?;
        failpoint::reach("message_noted");
        self.write(&message, lines, input, reader)?;
        self.untaken.push(message);
        self.idle_since = None;
        Ok(())
    }

    fn write(
        &mut self,
        message: &Message,
        lines: &[String],
        input: &mut Input,
        reader: &mut OutputReader,
    ) -> Result<(), FollowError> {
        for line in lines {
            input.write_once(line).map_err(FollowError::Answer)?;
        }
        reader.on_message_sent(message.id, lines);
        failpoint::reach("message_sent");
        self.events.write(message, SENT, reader)
    }

    /// Handles a message that the agent has taken.
    pub(super) fn on_taken(&mut self, id: MessageId, reader: &mut OutputReader) -> Result<(), FollowError> {
        if let Some(at) = self.unbegun_turns.iter().position(|turn| *turn == id) {
            self.unbegun_turns.remove(at);
            self.turn_ended = None;
            return Ok(());
        }
        // Claude Code gives the prompt an id, too.
        if !self.untaken.iter().any(|message| message.id == id) {
            return Ok(());
        }
        // The message starts another turn, or is part of the running one.
        self.turn_ended = None;
        self.idle_since = None;
        self.leave(id, TAKEN, reader)?;
        failpoint::reach("message_taken");
        self.updates.message_taken(id);
        Ok(())
    }

    /// Handles the rejection of a message, which then waits for the next attempt.
    pub(super) fn on_rejected(
        &mut self,
        id: MessageId,
        why: &str,
        reader: &mut OutputReader,
    ) -> Result<(), FollowError> {
        tracing::warn!(why, "the agent rejected a message");
        if let Some(at) = self.unbegun_turns.iter().position(|turn| *turn == id) {
            self.unbegun_turns.remove(at);
            // No other one follows in this process.
            self.turn_ended = Some(false);
        }
        self.leave(id, REJECTED, reader)
    }

    fn leave(
        &mut self,
        id: MessageId,
        state: &'static str,
        reader: &mut OutputReader,
    ) -> Result<(), FollowError> {
        match self.untaken.iter().position(|message| message.id == id) {
            Some(at) => {
                let message = self.untaken.remove(at);
                self.events.write(&message, state, reader)
            }
            None => Ok(()),
        }
    }

    /// Shows whether people can send messages now.
    fn show(&mut self, input: &Input, reader: &OutputReader) {
        if !self.is_steerable {
            return;
        }
        let steering = if input.is_ended() {
            finished()
        } else if reader.takes_messages() {
            Steering::Ready
        } else {
            Steering::NotYet
        };
        if self.steering.as_ref() != Some(&steering) {
            self.steering = Some(steering.clone());
            self.updates.set_facts(|facts| facts.steering = Some(steering));
        }
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
