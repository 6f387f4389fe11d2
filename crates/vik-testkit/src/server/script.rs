//! The script of a model, turn by turn.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A script: the turns of a model in one conversation. In JSON an array of turns, or an object with
/// `turns`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "ScriptForm")]
pub struct Script {
    /// The turns. After the last one the model only answers `Done.`.
    pub turns: Vec<Turn>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ScriptForm {
    Turns(Vec<Turn>),
    Object(ScriptObject),
    One(Box<Turn>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptObject {
    turns: Vec<Turn>,
}

impl From<ScriptForm> for Script {
    fn from(form: ScriptForm) -> Self {
        match form {
            ScriptForm::Turns(turns) | ScriptForm::Object(ScriptObject { turns }) => Self { turns },
            ScriptForm::One(turn) => Self { turns: vec![*turn] },
        }
    }
}

/// The answer to one request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Turn {
    /// The text of the answer.
    pub text: String,
    /// The thinking before the text; with a signature, or as a reasoning summary.
    #[serde(alias = "reasoning")]
    pub thinking: String,
    /// The tool calls of the answer.
    pub tools: Vec<Tool>,
    /// Shorthand for one tool that runs a shell command.
    pub run: Option<String>,
    pub usage: TokenCount,
    pub no_usage: bool,
    /// How often this turn is played.
    pub times: Times,
    /// Milliseconds before the first byte of the answer.
    pub delay_ms: u64,
    /// Milliseconds between the pieces of the answer.
    pub chunk_ms: u64,
    /// The number of characters in a piece of text.
    pub chunk_chars: Option<usize>,
    /// The size of the writes of the stream in bytes, regardless of its events.
    pub wire_bytes: Option<usize>,
    /// An HTTP status in place of an answer.
    pub status: Option<u16>,
    /// The error's message or whole body, for `status`.
    pub error: Value,
    /// The header Retry-After, in seconds.
    pub retry_after: Option<f64>,
    /// More headers of the answer.
    pub headers: BTreeMap<String, String>,
    pub drop: Option<StreamPoint>,
    /// Closes the connection after this many bytes of the stream.
    pub drop_bytes: Option<usize>,
    /// Ends the stream properly before the answer is complete.
    pub end: Option<StreamPoint>,
    /// Sends nothing more and keeps the connection open.
    pub stall: Option<StreamPoint>,
    /// Pings while it stalls (Anthropic's `ping` events, else comments).
    pub ping: bool,
    /// An error event in the stream, in place of the end: a code or a whole error object.
    pub sse_error: Value,
    pub malformed: Option<Malformed>,
    /// The stop reason in the terms of the dialect, instead of the default. `max_tokens` works for
    /// all.
    pub stop: Option<String>,
    /// Text that the request must contain. Otherwise the response is 400, and it counts in
    /// `failures`.
    pub expect: Option<String>,
}

/// How often a turn is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "TimesForm")]
pub struct Times(pub u64);

#[derive(Deserialize)]
#[serde(untagged)]
enum TimesForm {
    Count(u64),
    Text(String),
}

impl TryFrom<TimesForm> for Times {
    type Error = String;

    fn try_from(form: TimesForm) -> Result<Self, String> {
        match form {
            TimesForm::Count(count) => Ok(Self(count)),
            TimesForm::Text(text) if text == "forever" => Ok(Self(u64::MAX)),
            TimesForm::Text(text) => Err(format!("`times` is a number or `forever`, not {text:?}")),
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self(1)
    }
}

/// The tokens of one answer. The input includes cached parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenCount {
    pub input: u64,
    /// The part of the input read from the cache.
    pub cached: u64,
    /// The part of the input written to the cache.
    pub cache_write: u64,
    pub output: u64,
    /// The part of the output that was reasoning.
    pub reasoning: u64,
}

impl Default for TokenCount {
    fn default() -> Self {
        Self {
            input: 1000,
            cached: 0,
            cache_write: 0,
            output: 20,
            reasoning: 0,
        }
    }
}

/// A point of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamPoint {
    /// Before the first byte of the answer.
    Headers,
    /// After the first event.
    Start,
    /// In the middle of the text, or of the events if there is none.
    #[serde(alias = "text")]
    Mid,
    /// In the middle of a tool's arguments.
    Tool,
    /// Before the final events.
    BeforeDone,
}

/// An invalid response with status 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Malformed {
    Html,
    Empty,
    /// Events whose data is not JSON.
    Sse,
    /// A tool call whose arguments are not JSON.
    Args,
}

/// A tool call independent of the client; the server maps it to a tool that the client offers.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tool {
    /// Runs a shell command.
    Run(String),
    /// Writes a whole file.
    Write {
        path: String,
        content: String,
    },
    /// Replaces a text in a file.
    Edit {
        path: String,
        /// The present text, in whole lines.
        old: String,
        new: String,
    },
    Read(String),
    /// Calls a tool by its own name; in code mode `input` may be the JavaScript.
    Call {
        name: String,
        /// Its namespace, for Codex's MCP tools.
        #[serde(default)]
        namespace: Option<String>,
        #[serde(default)]
        input: Value,
    },
}

impl Script {
    /// Parses a script from JSON text.
    pub fn parse(json: &str) -> Result<Self, String> {
        let script: Value = serde_json::from_str(json).map_err(|e| format!("the script is not JSON: {e}"))?;
        Self::from_value(script)
    }

    /// Parses a script from a JSON value.
    pub fn from_value(script: Value) -> Result<Self, String> {
        // An untagged enum would only report that no variant matches.
        let turns = match script {
            Value::Array(turns) => turns,
            Value::Object(mut object) if object.len() == 1 && object.contains_key("turns") => {
                match object.remove("turns") {
                    Some(Value::Array(turns)) => turns,
                    _ => return Err("`turns` is not a list".to_owned()),
                }
            }
            turn => vec![turn],
        };
        let turns = turns.into_iter().enumerate().map(|(at, turn)| {
            serde_json::from_value(turn).map_err(|e| format!("turn {} of the script: {e}", at + 1))
        });
        Ok(Self {
            turns: turns.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the turn for the request number `position`, counted from 0.
    pub(crate) fn turn(&self, position: u64) -> Option<&Turn> {
        let mut left = position;
        self.turns.iter().find(|turn| {
            let here = left < turn.times.0;
            left = left.saturating_sub(turn.times.0);
            here
        })
    }
}

impl Turn {
    /// Creates a turn with only a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Returns all tool calls, including the shorthand.
    pub(crate) fn calls(&self) -> Vec<Tool> {
        self.run
            .iter()
            .cloned()
            .map(Tool::Run)
            .chain(self.tools.iter().cloned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_finds_the_turn_of_a_position() {
        let script =
            Script::parse(r#"[{"status":500,"times":2},{"run":"true"},{"status":529,"times":"forever"}]"#)
                .unwrap();
        let statuses: Vec<_> = (0..6).map(|at| script.turn(at).unwrap().status).collect();
        assert_eq!(
            statuses,
            [Some(500), Some(500), None, Some(529), Some(529), Some(529)]
        );
        assert!(Script::parse("[]").unwrap().turn(0).is_none());
    }

    #[test]
    fn script_error_names_the_turn() {
        assert!(
            Script::parse(r#"{"turns":[{"text":"a"},{"txt":"b"}]}"#)
                .unwrap_err()
                .contains("turn 2")
        );
        assert!(
            Script::parse(r#"{"tools":[{"write":{"path":"a"}}]}"#)
                .unwrap_err()
                .contains("content")
        );
    }
}
