//! `notify`: notifiers, their events and their channels.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use vik_core::duration::Span;
use vik_core::workflow::{Notifier, NotifyAddress, NotifyChannel, NotifyEvent, TimeOfDay};
use vik_yaml::{Diagnostic, Node, join};

use super::check::Check;
use super::decode::{Cx, Decode};
use super::section::section;
use super::values::{EnvName, Positive, Text, list};

section! {
    /// One notifier: its events and its channel.
    struct Notify;
    /// The events to report. `parked`: an issue was parked. `failed`: a run was given up after a
    /// failure. `over_budget`: a limit of an attempt, an issue or the day was reached.
    /// `waiting_for_person`: an issue was parked for a problem that a person must fix. `trouble`:
    /// an edit of the workflow was rejected, or the ledger failed. `daily_summary`: once a day.
    "on" on: defaults Events = Events::usual();
    /// `command`: run a shell command with the notification as JSON on its standard input.
    /// `webhook`: send the notification as JSON in an HTTP POST.
    "kind" kind: required NotifyKind;
    /// For `command`: a shell command that runs in the folder of the workflow file. It is not a
    /// template: it gets the notification on its standard input and in environment variables such
    /// as `VIK_EVENT` and `VIK_ISSUE_ID`.
    "command" command: optional Text;
    /// For `webhook`: the address. Exactly one of `url` and `url_env`.
    "url" url: optional Text;
    /// For `webhook`: the environment variable of the daemon that contains the address, if the
    /// address is secret.
    "url_env" url_env: optional EnvName;
    /// For `webhook`: the environment variable of the daemon that contains the secret for signing
    /// requests. Without it, requests are not signed.
    "secret_env" secret_env: optional EnvName;
    /// The timeout of one delivery attempt.
    "timeout" timeout: defaults Positive = Span::secs(10);
    /// Events within this time are sent as one notification.
    "debounce" debounce: defaults Span = Span::secs(30);
    /// The time of the daily summary, such as `08:00`.
    "daily_at" daily_at: defaults TimeOfDay = TimeOfDay::default();
    /// The time zone of `daily_at`, such as `Europe/Berlin`.
    "time_zone" time_zone: defaults Text = "UTC".to_owned();
    instead {
        "events" | "when" => "did you mean `on`?",
        "type" => "did you mean `kind`?",
        "run" | "cmd" => "did you mean `command`?",
        "webhook" => "write `kind: webhook` and `url`",
        "secret" | "token" => "name the environment variable that contains the secret in `secret_env`",
        "headers" => "a webhook sends only Vik's own headers; use `kind: command` to send others",
        "at" => "did you mean `daily_at`?",
        "timezone" | "tz" => "did you mean `time_zone`?",
    }
}

/// `notify.N.kind`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotifyKind {
    /// A shell command.
    Command,
    /// An HTTP POST.
    Webhook,
}

impl Decode for TimeOfDay {
    type Value = Self;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let scalar = cx.scalar(node, "a time of day")?;
        let time = Self::try_from(scalar.text.clone()).ok();
        let found = ("invalid time of day", scalar.text.as_str());
        time.or_else(|| cx.refuse_text("bad_time", node, found, "write it as `08:00`"))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^([01]?[0-9]|2[0-3]):[0-5][0-9]$" })
    }
}

pub(crate) struct Events;

impl Events {
    fn usual() -> Vec<NotifyEvent> {
        vec![
            NotifyEvent::Parked,
            NotifyEvent::Failed,
            NotifyEvent::OverBudget,
            NotifyEvent::WaitingForPerson,
            NotifyEvent::Trouble,
        ]
    }
}

impl Decode for Events {
    type Value = Vec<NotifyEvent>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Vec<NotifyEvent>> {
        let items = list(node, cx, "a list of events", "[parked, failed]")?;
        if items.is_empty() {
            return cx.refuse(cx.error("empty_value", node, "the notifier has no events"));
        }
        let mut events: Vec<_> = items
            .iter()
            .filter_map(|item| NotifyEvent::decode(item, cx))
            .collect();
        events.sort_unstable();
        events.dedup();
        Some(events)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let item = NotifyEvent::schema(generator);
        json_schema!({ "type": "array", "minItems": 1, "items": item })
    }
}

impl Check<'_> {
    /// Builds a notifier; `None` if it is invalid, which was reported.
    pub(super) fn notifier(&mut self, name: &str, notify: Notify) -> Option<Notifier> {
        let path = join("notify", name);
        let at = |key: &str| join(&path, key);
        let kind = notify.kind?;
        let foreign: &[&str] = match kind {
            NotifyKind::Command => &["url", "url_env", "secret_env"],
            NotifyKind::Webhook => &["command"],
        };
        let kind_name = match kind {
            NotifyKind::Command => "command",
            NotifyKind::Webhook => "webhook",
        };
        for key in foreign {
            let message = format!("`{key}` has no effect with `kind: {kind_name}`");
            self.unused(at(key), message, None);
        }
        if !notify.on.contains(&NotifyEvent::DailySummary) {
            for key in ["daily_at", "time_zone"] {
                let message = format!("`{key}` has no effect without `daily_summary` in `on`");
                self.unused(at(key), message, None);
            }
        }
        let missing = |key: &str, hint: &str| {
            let message = format!("`kind: {kind_name}` needs a `{key}`");
            Diagnostic::error("missing_key", at(key), message).hint(hint)
        };
        let channel = match kind {
            NotifyKind::Command => {
                if notify.command.is_none() && self.places.is_absent(&at("command")) {
                    self.report(missing(
                        "command",
                        "add the shell command that delivers the notification",
                    ));
                }
                NotifyChannel::Command(notify.command?)
            }
            NotifyKind::Webhook => {
                let (has_url, has_env) = (
                    !self.places.is_absent(&at("url")),
                    !self.places.is_absent(&at("url_env")),
                );
                if has_url && has_env {
                    let message = "the webhook has both `url` and `url_env`";
                    self.report_at_key(
                        Diagnostic::error("webhook_url", at("url_env"), message).hint("remove one of them"),
                    );
                    return None;
                }
                if !has_url && !has_env {
                    self.report(missing(
                        "url",
                        "add `url: https://…`, or `url_env: NAME` if the address is secret",
                    ));
                }
                let address = match (notify.url, notify.url_env) {
                    (Some(url), _) if !NotifyAddress::is_valid(&url) => {
                        // It may contain a secret, so the message does not quote it.
                        let message = "invalid webhook address";
                        let hint = "write `https://` or `http://`, followed by a host";
                        self.report(Diagnostic::error("webhook_url", at("url"), message).hint(hint));
                        return None;
                    }
                    (Some(url), _) => NotifyAddress::Url(url),
                    (None, name) => NotifyAddress::Env(name?),
                };
                NotifyChannel::Webhook {
                    address,
                    secret_env: notify.secret_env,
                }
            }
        };
        Some(Notifier {
            on: notify.on,
            channel,
            timeout: notify.timeout,
            debounce: notify.debounce,
            daily_at: notify.daily_at,
            time_zone: notify.time_zone,
        })
    }
}
