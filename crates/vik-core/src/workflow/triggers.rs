//! Triggers of pulls beside polling: webhooks and the schedule.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::duration::Span;

/// `webhooks`: calls of trackers when something changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhooks {
    /// `listen`: the address for the calls; `None` for none.
    pub listen: Option<SocketAddr>,
    /// `min_gap`: the minimum time between two pulls that calls trigger.
    pub min_gap: Span,
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// The kind of authentication.
    pub kind: HookKind,
    /// The daemon's variable with the secret.
    pub secret_env: String,
    /// `header`, for [`HookKind::Hmac`]: the header of the signature.
    pub header: Option<String>,
    /// `id_header`, for [`HookKind::Hmac`]: the header of the delivery's id.
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

/// `schedule.S`: an entry that is due at certain times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleEntry {
    pub cron: String,
    /// `time_zone`: a name of the tz database.
    pub time_zone: String,
    /// `command`: the job; `None` for only a pull.
    pub job: Option<Job>,
    /// `catch_up`: whether one run makes up for missed ones.
    pub catch_up: bool,
}

/// A command of the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub command: String,
    /// The time limit of the command.
    pub timeout: Span,
}
