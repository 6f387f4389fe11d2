//! The messages of `codex app-server` that are understood. Each one is an object: an array is
//! rejected.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use vik_core::outcome::{FailureClass, Usage};

use crate::classify;
use crate::wire::{self, Count, Text};

/// Any line: a request has `method` and `id`, a notification only `method`, a response only `id`.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) method: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// The `error` of a response.
#[derive(Deserialize)]
pub(super) struct ErrorText<'a> {
    #[serde(borrow)]
    pub(super) message: Text<'a>,
}

/// The result of `thread/start` and `thread/resume`.
#[derive(Deserialize)]
pub(super) struct ThreadResult<'a> {
    #[serde(borrow)]
    pub(super) thread: Thread<'a>,
}

#[derive(Deserialize)]
pub(super) struct Thread<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
}

/// The thread of a notification.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadRef<'a> {
    #[serde(borrow)]
    pub(super) thread_id: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resolved<'a> {
    #[serde(borrow)]
    pub(super) request_id: &'a RawValue,
}

/// `warning` and similar notifications.
#[derive(Deserialize)]
pub(super) struct Warning<'a> {
    #[serde(borrow)]
    pub(super) message: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) summary: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandApproval<'a> {
    #[serde(borrow)]
    pub(super) thread_id: Text<'a>,
    #[serde(borrow)]
    pub(super) turn_id: Text<'a>,
    #[serde(borrow)]
    pub(super) command: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) reason: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) additional_permissions: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) network_approval_context: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileChangeApproval<'a> {
    #[serde(borrow)]
    pub(super) thread_id: Text<'a>,
    #[serde(borrow)]
    pub(super) turn_id: Text<'a>,
    #[serde(borrow)]
    pub(super) item_id: Text<'a>,
    #[serde(borrow)]
    pub(super) reason: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) grant_root: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Elicitation<'a> {
    #[serde(borrow)]
    pub(super) thread_id: Text<'a>,
    #[serde(borrow)]
    pub(super) turn_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) server_name: Text<'a>,
    #[serde(rename = "_meta", borrow)]
    pub(super) meta: Option<ElicitationMeta<'a>>,
}

#[derive(Deserialize)]
pub(super) struct ElicitationMeta<'a> {
    #[serde(borrow)]
    pub(super) codex_approval_kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) tool_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) tool_params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct ItemNotification<'a> {
    #[serde(borrow)]
    pub(super) item: AppItem<'a>,
}

/// An item: a message, a reasoning or a tool call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AppItem<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) summary: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) status: Option<Text<'a>>,
    pub(super) exit_code: Option<i64>,
    #[serde(borrow)]
    pub(super) command: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) aggregated_output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) changes: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) server: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) tool: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) query: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
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
#[serde(rename_all = "camelCase")]
pub(super) struct UsageNotification<'a> {
    #[serde(borrow)]
    pub(super) thread_id: Text<'a>,
    pub(super) token_usage: TokenUsage,
}

#[derive(Deserialize)]
pub(super) struct TokenUsage {
    pub(super) total: Total,
}

/// The total of the thread.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Total {
    input_tokens: Count,
    cached_input_tokens: Count,
    cache_write_input_tokens: Count,
    output_tokens: Count,
}

impl From<Total> for Usage {
    fn from(total: Total) -> Self {
        Self {
            input_tokens: total.input_tokens.0,
            cached_input_tokens: total.cached_input_tokens.0,
            cache_write_input_tokens: total.cache_write_input_tokens.0,
            output_tokens: total.output_tokens.0,
        }
    }
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
pub(super) struct ErrorNotification<'a> {
    #[serde(borrow)]
    pub(super) error: CodexError<'a>,
}

/// An error with the class that Codex assigns.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CodexError<'a> {
    #[serde(borrow)]
    pub(super) message: Text<'a>,
    #[serde(borrow)]
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
#[serde(rename_all = "camelCase")]
pub(super) struct TurnNotification<'a> {
    #[serde(borrow)]
    pub(super) thread_id: Text<'a>,
    #[serde(borrow)]
    pub(super) turn: EndedTurn<'a>,
}

#[derive(Deserialize)]
pub(super) struct EndedTurn<'a> {
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow)]
    pub(super) error: Option<CodexError<'a>>,
}
