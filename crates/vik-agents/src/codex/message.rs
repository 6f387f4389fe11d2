//! The messages of `codex app-server` that are understood. Each one is an object: an array is
//! rejected.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use vik_core::outcome::FailureClass;

use super::line::Item;
use crate::classify;
use crate::wire::{self, Text, TokenCounts};

/// Any line: a request has `method` and `id`, a notification only `method`, a response only `id`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Message<'a> {
    pub(super) id: Option<&'a RawValue>,
    pub(super) method: Option<Text<'a>>,
    pub(super) params: Option<&'a RawValue>,
    pub(super) result: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
}

/// The result of `thread/start` and `thread/resume`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct ThreadResult<'a> {
    pub(super) thread: Thread<'a>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Thread<'a> {
    pub(super) id: Text<'a>,
}

/// The thread of a notification.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct ThreadRef<'a> {
    pub(super) thread_id: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct Resolved<'a> {
    pub(super) request_id: &'a RawValue,
}

/// `warning` and similar notifications.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Warning<'a> {
    pub(super) message: Option<Text<'a>>,
    pub(super) summary: Option<Text<'a>>,
}

/// The item to which an approval request belongs; that of an MCP tool names none.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct ItemRef<'a> {
    pub(super) item_id: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct CommandApproval<'a> {
    pub(super) thread_id: Text<'a>,
    pub(super) turn_id: Text<'a>,
    pub(super) command: Option<Text<'a>>,
    pub(super) reason: Option<&'a RawValue>,
    pub(super) additional_permissions: Option<&'a RawValue>,
    pub(super) network_approval_context: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct FileChangeApproval<'a> {
    pub(super) thread_id: Text<'a>,
    pub(super) turn_id: Text<'a>,
    pub(super) item_id: Text<'a>,
    pub(super) reason: Option<&'a RawValue>,
    pub(super) grant_root: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct Elicitation<'a> {
    pub(super) thread_id: Text<'a>,
    pub(super) turn_id: Option<Text<'a>>,
    pub(super) server_name: Text<'a>,
    #[serde(rename = "_meta")]
    pub(super) meta: Option<ElicitationMeta<'a>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct ElicitationMeta<'a> {
    pub(super) codex_approval_kind: Option<Text<'a>>,
    pub(super) tool_name: Option<Text<'a>>,
    pub(super) tool_params: Option<&'a RawValue>,
}

/// A user message: the prompt, or a message of a person.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct UserNotification<'a> {
    pub(super) item: UserItem<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct UserItem<'a> {
    pub(super) client_id: Option<Text<'a>>,
}

/// A part of an item that is arriving.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Delta<'a> {
    pub(super) delta: Text<'a>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct ItemNotification<'a> {
    pub(super) item: Item<'a>,
}

/// A file of a patch, serialised as in `codex exec`, without its diff.
#[derive(Deserialize, Serialize)]
pub(super) struct FileChange<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow, serialize_with = "plain_kind")]
    kind: ChangeKind<'a>,
}

#[derive(Deserialize)]
struct ChangeKind<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    move_path: Option<Cow<'a, str>>,
}

fn plain_kind<S: serde::Serializer>(kind: &ChangeKind<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&kind.kind)
}

impl FileChange<'_> {
    /// Returns the path and, for a move, the new path.
    pub(super) fn paths(&self) -> impl Iterator<Item = String> {
        let moved = self.kind.move_path.as_deref();
        std::iter::once(&*self.path).chain(moved).map(str::to_owned)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct UsageNotification<'a> {
    pub(super) thread_id: Text<'a>,
    pub(super) token_usage: TokenUsage,
}

#[derive(Deserialize)]
pub(super) struct TokenUsage {
    /// The total of the thread.
    pub(super) total: TokenCounts,
    /// The usage of the newest request alone.
    pub(super) last: Option<TokenCounts>,
    #[serde(rename = "modelContextWindow")]
    pub(super) model_context_window: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RateLimitsNotification {
    pub(super) rate_limits: RateLimits,
}

#[derive(Deserialize)]
pub(super) struct RateLimits {
    primary: Option<Limits>,
    secondary: Option<Limits>,
}

impl RateLimits {
    /// Returns the rate limit window with the highest usage.
    pub(super) fn fullest(&self) -> Option<Option<Limits>> {
        let windows = [self.primary, self.secondary].into_iter().flatten();
        Some(windows.max_by(|a, b| a.used_percent.total_cmp(&b.used_percent)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Limits {
    pub(super) used_percent: f64,
    pub(super) resets_at: Option<i64>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct ErrorNotification<'a> {
    pub(super) error: CodexError<'a>,
}

/// An error with the class that Codex assigns.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct CodexError<'a> {
    pub(super) message: Text<'a>,
    codex_error_info: Option<&'a RawValue>,
}

impl CodexError<'_> {
    /// Returns the failure class, if Codex reports one.
    pub(super) fn class(&self) -> Option<FailureClass> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            http_status_code: Option<u16>,
        }
        let info = wire::present(self.codex_error_info)?;
        if let Some(name) = wire::text(Some(info)) {
            return match &*name {
                "usageLimitExceeded" => Some(FailureClass::RateLimit),
                "contextWindowExceeded" => Some(FailureClass::Context),
                "serverOverloaded" => Some(FailureClass::Overloaded),
                "unauthorized" => Some(FailureClass::Auth),
                _ => None,
            };
        }
        let info: std::collections::BTreeMap<Cow<'_, str>, Status> = wire::read(Some(info))?;
        let status = info.values().find_map(|status| status.http_status_code);
        classify::class_of_error(Some(status?), self.message.as_str())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct TurnNotification<'a> {
    pub(super) thread_id: Text<'a>,
    pub(super) turn: TurnState<'a>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct TurnState<'a> {
    pub(super) id: Option<Text<'a>>,
    pub(super) status: Text<'a>,
    pub(super) error: Option<CodexError<'a>>,
}

/// Returns whether a notification is a part of an item that follows as a whole.
pub(super) fn is_partial(method: &str) -> bool {
    method.ends_with("/delta") || method.ends_with("Delta")
}

/// Returns whether a line is such a notification. `codex exec` prints none.
pub(super) fn is_partial_line(line: &str) -> bool {
    let may_be = line.contains("/delta\"") || line.contains("Delta\"");
    let message = may_be.then(|| wire::object::<Message<'_>>(line)).flatten();
    message.is_some_and(|message| {
        let method = message.method.as_ref().map_or("", Text::as_str);
        message.id.is_none() && is_partial(method)
    })
}
