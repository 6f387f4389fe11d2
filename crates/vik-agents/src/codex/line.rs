//! One line of `codex exec --json`.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::{Text, TokenCounts};

/// Any line. Which fields are there depends on `kind`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Line<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
    /// Boxed, because it is large and a line is moved several times while it is decoded.
    pub(super) item: Option<Box<Item<'a>>>,
    pub(super) thread_id: Option<Text<'a>>,
    pub(super) message: Option<Text<'a>>,
    pub(super) error: Option<&'a RawValue>,
    /// The total of the thread, on `turn.completed`.
    pub(super) usage: Option<TokenCounts>,
}

/// A message, a reasoning or a tool call: in `item.*` lines, and with names in camel case in
/// notifications of the app-server.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Item<'a> {
    pub(super) id: Option<Text<'a>>,
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) text: Option<Text<'a>>,
    pub(super) message: Option<Text<'a>>,
    /// The parts of a reasoning in the app-server.
    pub(super) summary: Option<&'a RawValue>,
    pub(super) status: Option<Text<'a>>,
    #[serde(alias = "exitCode")]
    pub(super) exit_code: Option<i64>,
    pub(super) command: Option<&'a RawValue>,
    #[serde(alias = "aggregatedOutput")]
    pub(super) aggregated_output: Option<&'a RawValue>,
    pub(super) changes: Option<&'a RawValue>,
    pub(super) server: Option<Text<'a>>,
    pub(super) tool: Option<Text<'a>>,
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) query: Option<&'a RawValue>,
    pub(super) prompt: Option<&'a RawValue>,
    pub(super) result: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
}

/// `turn.failed.error`, if it is an object, and the `error` of a response of the server.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct TurnError<'a> {
    pub(super) message: Text<'a>,
}
