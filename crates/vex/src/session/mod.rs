//! The log of a conversation, line by line, so that another process can resume it.
//!
//! `$VEX_HOME/sessions/<id>.jsonl`, one JSON object per line, append-only:
//! `{"seq":1,"at":"…","kind":"session",…}`. A line is written before its effect is used: an answer
//! before its calls run, a result as soon as its tool has ended. Reading the lines in order gives
//! the whole state of the conversation; nothing is stored elsewhere.

mod entry;
mod error;
mod history;
mod log;
mod store;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::conversation::{Message, ToolResult, Turn};

pub use entry::{Entry, Head};
pub use error::SessionError;
pub use history::History;
pub use log::Log;
pub use store::{SessionInfo, Store};

/// The id of a conversation; also the name of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SessionId(uuid::Uuid);

impl SessionId {
    /// Creates a random id.
    pub fn fresh() -> Self {
        Self(uuid::Uuid::now_v7())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl FromStr for SessionId {
    type Err = SessionError;

    /// Parses an id. Only the usual notation of a UUID is accepted: the text may be untrusted and
    /// becomes the name of a file.
    fn from_str(text: &str) -> Result<Self, SessionError> {
        let bad = || SessionError::BadId(text.chars().take(80).collect());
        let id = uuid::Uuid::try_parse(text).map_err(|_| bad())?;
        let id = Self(id);
        if id.to_string().eq_ignore_ascii_case(text) {
            Ok(id)
        } else {
            Err(bad())
        }
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The point at which a conversation is forked: `ID`, or `ID@TURN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    pub id: SessionId,
    /// The last answer that is copied, with the results of its calls; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
}

impl FromStr for ForkPoint {
    type Err = SessionError;

    fn from_str(text: &str) -> Result<Self, SessionError> {
        match text.split_once('@') {
            None => Ok(Self {
                id: text.parse()?,
                turn: None,
            }),
            Some((id, turn)) => Ok(Self {
                id: id.parse()?,
                turn: Some(turn.parse().map_err(|_| SessionError::BadTurn(turn.to_owned()))?),
            }),
        }
    }
}

impl fmt::Display for ForkPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.turn {
            Some(turn) => write!(f, "{}@{turn}", self.id),
            None => self.id.fmt(f),
        }
    }
}

/// How a session starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    #[default]
    New,
    Resume(SessionId),
    /// A fork of an existing one.
    Fork(ForkPoint),
}

/// The prompt for a resumed conversation without a prompt of its own.
const RESUME_PROMPT: &str =
    "Go on where you were. What was cut off may have happened or not: look before you repeat it.";

/// The result of a call that was open when its process ended.
pub const INTERRUPTED: &str = "[interrupted: it is not known whether this ran]";

/// An open conversation: its log, and the state that follows from the log.
#[derive(Debug)]
pub struct Session {
    head: Head,
    origin: Origin,
    log: Log,
    history: History,
}

impl Session {
    /// Starts or resumes a conversation. `store` is `None` if nothing is to be stored; `head` is
    /// the first line of a new one.
    ///
    /// # Errors
    /// When it cannot be stored or resumed.
    pub fn open(store: Option<&Store>, origin: Origin, head: Head) -> Result<Self, SessionError> {
        let mut history = History::default();
        let (log, head) = match (origin, store) {
            (Origin::New, None) => (Log::none(), head),
            (Origin::New, Some(store)) => (store.create(&head)?, head),
            (Origin::Resume(_) | Origin::Fork(_), None) => return Err(SessionError::NoHome),
            (Origin::Resume(id), Some(store)) => {
                let now = head;
                let (log, mut head) = store.resume(id, &now.cwd, |entry| history.apply(entry))?;
                // Another version may have other tools, and the system prompt must describe them.
                if head.version != now.version {
                    head.system = now.system;
                }
                head.version = now.version;
                head.model = now.model;
                head.provider = now.provider;
                (log, head)
            }
            (Origin::Fork(from), Some(store)) => store.fork(from, head, |entry| history.apply(entry))?,
        };
        if origin != Origin::New && history.prompts().is_empty() {
            return Err(SessionError::Empty(head.id));
        }
        let mut session = Self {
            head,
            origin,
            log,
            history,
        };
        if let Origin::Resume(_) = origin {
            session.record(Entry::Resumed {
                version: session.head.version.clone(),
                model: session.head.model.clone(),
                provider: session.head.provider.clone(),
            })?;
        }
        Ok(session)
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Returns the state for requests.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the final answer of an earlier process that died before it recorded the end of the
    /// run.
    pub fn cut_off_answer(&self) -> Option<&Turn> {
        match self.origin {
            Origin::Resume(_) => self.history.unended_answer(),
            Origin::New | Origin::Fork(_) => None,
        }
    }

    /// Records an entry, then applies it.
    ///
    /// # Errors
    /// When it cannot be written: then it is not applied.
    pub fn record(&mut self, entry: Entry) -> Result<(), SessionError> {
        self.log.append(&entry)?;
        self.history.apply(entry);
        Ok(())
    }

    /// Adds a prompt, and the environment if it changed. A call that an earlier process left open
    /// first gets its result: it is never run again without a new call. Without a prompt, an
    /// unfinished conversation continues.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn ask(&mut self, prompt: Option<String>, environment: Option<String>) -> Result<(), SessionError> {
        let is_cut_off = self.cut_off_answer().is_some();
        for call_id in self.history.open_calls() {
            let message = Message::Tool(ToolResult {
                call_id,
                is_error: true,
                output: INTERRUPTED.to_owned(),
                ..ToolResult::default()
            });
            self.record(Entry::Message { message })?;
        }
        let waits = matches!(self.history.messages().last(), Some(Message::User { .. }));
        match prompt {
            Some(text) => self.record(Entry::Prompt { text })?,
            None if waits || is_cut_off => return Ok(()),
            None => {
                let message = Message::user(RESUME_PROMPT);
                self.record(Entry::Message { message })?;
            }
        }
        match environment {
            Some(text) if self.history.environment() != text => self.record(Entry::Environment { text }),
            _ => Ok(()),
        }
    }
}
