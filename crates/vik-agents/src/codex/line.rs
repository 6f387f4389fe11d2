//! One line of `codex exec --json`.

use serde::Deserialize;
use serde_json::value::RawValue;
use vik_core::outcome::Usage;

use crate::wire::{Count, Text};

/// Any line. Which fields are there depends on `kind`.
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) item: Option<Item<'a>>,
    #[serde(borrow)]
    pub(super) thread_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    pub(super) usage: Option<ThreadUsage>,
}

/// `item.*`: a message, a reasoning or a tool call.
#[derive(Deserialize)]
pub(super) struct Item<'a> {
    #[serde(default, borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Text<'a>>,
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

/// `turn.completed.usage`: the total of the thread.
#[derive(Clone, Copy, Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct ThreadUsage {
    input_tokens: Count,
    cached_input_tokens: Count,
    cache_write_input_tokens: Count,
    output_tokens: Count,
}

impl From<ThreadUsage> for Usage {
    fn from(usage: ThreadUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens.0,
            cached_input_tokens: usage.cached_input_tokens.0,
            cache_write_input_tokens: usage.cache_write_input_tokens.0,
            output_tokens: usage.output_tokens.0,
        }
    }
}

/// `turn.failed.error`, if it is an object.
#[derive(Deserialize)]
pub(super) struct TurnError<'a> {
    #[serde(borrow)]
    pub(super) message: Text<'a>,
}
