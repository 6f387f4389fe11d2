//! `GET /api/v1/log`: the log of the daemon.

use std::str::FromStr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of the daemon's log, latest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DaemonLogPage {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The lines. A page can be empty although older lines match: it searches a bounded part.
    pub lines: Vec<DaemonLogLine>,
    /// The value of `before` for older lines; `null` if there are none.
    pub next: Option<String>,
}

/// The severity of a log line, most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl FromStr for LogLevel {
    type Err = ();

    /// Reads the form of the log files, such as `WARN`.
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "ERROR" => Ok(Self::Error),
            "WARN" => Ok(Self::Warn),
            "INFO" => Ok(Self::Info),
            "DEBUG" => Ok(Self::Debug),
            "TRACE" => Ok(Self::Trace),
            _ => Err(()),
        }
    }
}

/// A line of the daemon's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonLogLine {
    /// When it was written.
    #[schemars(with = "String")]
    pub at: Timestamp,
    pub level: LogLevel,
    /// The message with its other fields; it can have several lines.
    pub message: String,
    /// The issue that the line is about.
    pub issue: Option<String>,
    pub stage: Option<String>,
    /// The number of the attempt in its run.
    pub attempt: Option<u32>,
    /// The session of the attempt.
    pub session: Option<String>,
}

impl DaemonLogLine {
    /// Creates a line without a message.
    pub fn new(at: Timestamp, level: LogLevel) -> Self {
        Self {
            at,
            level,
            message: String::new(),
            issue: None,
            stage: None,
            attempt: None,
            session: None,
        }
    }

    /// Sets one of the fields that name an attempt; others are ignored.
    pub fn set(&mut self, key: &str, value: &str) {
        match key {
            "issue" => self.issue = Some(value.to_owned()),
            "stage" => self.stage = Some(value.to_owned()),
            "attempt" => self.attempt = value.parse().ok(),
            "session" => self.session = Some(value.to_owned()),
            _ => {}
        }
    }
}
