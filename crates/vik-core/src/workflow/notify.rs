//! `notify`: notifiers, their events and their channels.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Span;

/// An event that a notifier can deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum NotifyEvent {
    /// An issue was parked.
    Parked,
    /// A run was given up after a failure.
    Failed,
    /// A limit of an attempt, an issue or the day was reached.
    OverBudget,
    /// An issue was parked for something that a person must put right.
    WaitingForPerson,
    /// An edit of the workflow was refused, or the ledger failed.
    Trouble,
    /// What was done in one day.
    DailySummary,
}

impl NotifyEvent {
    /// Returns the name used in the workflow and in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notifier {
    /// The events that it receives.
    pub on: Vec<NotifyEvent>,
    pub channel: NotifyChannel,
    /// The time limit of one try.
    pub timeout: Span,
    /// Events within this time are sent together.
    pub debounce: Span,
    /// The time of day of the daily summary.
    pub daily_at: TimeOfDay,
    /// The time zone of that time, a name of the IANA database.
    pub time_zone: String,
}

/// The channel of a notifier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotifyChannel {
    /// A shell command, which is no template.
    Command(String),
    /// By an HTTP POST.
    Webhook {
        address: NotifyAddress,
        /// The variable with the secret for signatures.
        secret_env: Option<String>,
    },
}

/// The address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotifyAddress {
    Url(String),
    /// `url_env`: the variable that contains it.
    Env(String),
}

impl NotifyAddress {
    /// Returns whether a text can be the address of a webhook: `http` or `https`, and a host.
    pub fn is_valid(url: &str) -> bool {
        let after_scheme = url
            .strip_prefix("https://")
            .or_else(|| url.strip_prefix("http://"));
        after_scheme.is_some_and(|after_scheme| {
            let host = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
            !host.is_empty() && !url.contains(|c: char| c.is_whitespace() || c.is_control())
        })
    }
}

/// A time of day, in minutes after midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TimeOfDay(u16);

impl TimeOfDay {
    /// Returns the hour and the minute.
    pub fn hour_minute(self) -> (i8, i8) {
        let part = |number: u16| i8::try_from(number).unwrap_or(0);
        (part(self.0 / 60), part(self.0 % 60))
    }

    fn parse(text: &str) -> Option<Self> {
        let (hour, minute) = text.split_once(':')?;
        let number = |text: &str, below: u16| {
            let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            let number: u16 = text.parse().ok()?;
            (is_number && number < below).then_some(number)
        };
        let minute = number(minute, 60).filter(|_| minute.len() == 2)?;
        Some(Self(number(hour, 24)? * 60 + minute))
    }
}

impl Default for TimeOfDay {
    /// The default of `daily_at`.
    fn default() -> Self {
        Self(8 * 60)
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl From<TimeOfDay> for String {
    fn from(time: TimeOfDay) -> Self {
        time.to_string()
    }
}

impl TryFrom<String> for TimeOfDay {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("no time of day")
    }
}
