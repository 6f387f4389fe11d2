//! What wakes Vik beside its own polling: webhooks and the schedule.

mod decode;
pub(super) mod file;
mod lower;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use croner::Cron;
use croner::errors::CronError;
use serde::{Deserialize, Serialize};

use crate::duration::Span;

/// `webhooks`: trackers that tell when something changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhooks {
    /// `listen`: where they call; `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// `min_gap`: the least time between two pulls that they ask for.
    pub min_gap: Span,
    /// `hooks`, by name.
    pub hooks: BTreeMap<String, Hook>,
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            listen: None,
            min_gap: Span::secs(2),
            hooks: BTreeMap::new(),
        }
    }
}

/// `webhooks.hooks.H`: one sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// How it proves itself.
    pub kind: HookKind,
    /// The variable of the daemon that holds the secret.
    pub secret_env: String,
    /// `header`, for [`HookKind::Hmac`]: where the signature stands.
    pub header: Option<String>,
    /// `id_header`, for [`HookKind::Hmac`]: where the id of the delivery stands.
    pub id_header: Option<String>,
}

/// How a sender proves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookKind {
    /// `X-Hub-Signature-256`
    Github,
    /// `webhook-signature` with a signing token (`whsec_…`), else `X-Gitlab-Token`
    Gitlab,
    /// `Linear-Signature`, and a time in the body
    Linear,
    /// HMAC-SHA256 of the body, as hex, in a header of the workflow's choice
    Hmac,
}

/// `schedule.S`: something that is due at certain times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleEntry {
    /// `cron`: when.
    pub cron: String,
    /// `time_zone`: by which clock, as the tz database names it.
    pub time_zone: String,
    /// `command`: what runs; `None`: only a pull.
    pub job: Option<Job>,
    /// `catch_up`: whether one run makes up for those that were missed.
    pub catch_up: bool,
}

/// A command of the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// A shell command.
    pub command: String,
    /// How long it may take.
    pub timeout: Span,
}

/// A cron pattern: five fields, with an optional sixth in front (seconds) and seventh behind (years), or a name such as
/// `@daily`.
///
/// # Errors
/// When it is none.
pub fn cron(pattern: &str) -> Result<Cron, CronError> {
    pattern.parse()
}
