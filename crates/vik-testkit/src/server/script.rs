//! What the model says, turn by turn.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A script: the turns of a model in one conversation. In JSON an array of turns, or an object with `turns`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "ScriptForm")]
pub struct Script {
    /// The turns. After the last one the model only says `Done.`.
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
    /// What the model says.
    pub text: String,
    /// What it thinks before that; with a signature, or as a reasoning summary.
    #[serde(alias = "reasoning")]
    pub thinking: String,
    /// The tools it calls, in one answer.
    pub tools: Vec<Tool>,
    /// Short for one tool that runs a shell command.
    pub run: Option<String>,
    /// Tokens that are reported.
    pub usage: TokenCount,
    /// Reports none.
    pub no_usage: bool,
    /// How often this turn is given.
    pub times: Times,
    /// Milliseconds before the first byte of the answer.
    pub delay_ms: u64,
    /// Milliseconds between the pieces of the answer.
    pub chunk_ms: u64,
    /// How many characters a piece of text has.
    pub chunk_chars: Option<usize>,
    /// Sends the bytes of the stream in pieces of this size, wherever that cuts them.
    pub wire_bytes: Option<usize>,
    /// An HTTP status in place of an answer.
    pub status: Option<u16>,
    /// The error's message or whole body, for `status`.
    pub error: Value,
    /// The header Retry-After, in seconds.
    pub retry_after: Option<f64>,
    /// More headers of the answer.
    pub headers: BTreeMap<String, String>,
    /// Cuts the connection.
    pub drop: Option<StreamPoint>,
    /// Cuts the connection after so many bytes of the stream.
    pub drop_bytes: Option<usize>,
    /// Ends the stream in good order, though the answer is not whole.
    pub end: Option<StreamPoint>,
    /// Says nothing more, with the connection open.
    pub stall: Option<StreamPoint>,
    /// Pings while it stalls (Anthropic's `ping` events, else comments).
    pub ping: bool,
    /// An error event in the stream, in place of the end: a code or a whole error object.
    pub sse_error: Value,
    /// Something that is no answer.
    pub malformed: Option<Malformed>,
    /// The stop reason, in the words of the dialect, in place of the fitting one. `max_tokens` fits all.
    pub stop: Option<String>,
    /// What must be in the request, else it is answered with 400 and counted in `failures`.
    pub expect: Option<String>,
}

/// How often a turn is given.
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

/// Tokens of one answer. The input is all of it, cached parts included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenCount {
    /// All input tokens.
    pub input: u64,
    /// The part of the input read from the cache.
    pub cached: u64,
    /// The part of the input written to the cache.
    pub cache_write: u64,
    /// All output tokens.
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

/// Where in an answer something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamPoint {
    /// Before the first byte of the answer.
    Headers,
    /// After the first event.
    Start,
    /// In the middle of the text, or of the events where there is none.
    #[serde(alias = "text")]
    Mid,
    /// In the middle of a tool's arguments.
    Tool,
    /// When all is said but the end.
    BeforeDone,
}

/// Something that is no answer, with status 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Malformed {
    /// A web page.
    Html,
    /// Nothing.
    Empty,
    /// Events whose data is not JSON.
    Sse,
    /// A tool call whose arguments are not JSON.
    Args,
}

/// A tool call in neutral words; the server turns it into what the client offers.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tool {
    /// Runs a shell command.
    Run(String),
    /// Writes a whole file.
    Write {
        /// Its path.
        path: String,
        /// All that is in it.
        content: String,
    },
    /// Replaces a text in a file.
    Edit {
        /// Its path.
        path: String,
        /// What is there, whole lines.
        old: String,
        /// What shall be there.
        new: String,
    },
    /// Reads a file.
    Read(String),
    /// Calls a tool by its own name; in code mode `input` may be the JavaScript.
    Call {
        /// Its name.
        name: String,
        /// Its namespace, for Codex's MCP tools.
        #[serde(default)]
        namespace: Option<String>,
        /// Its arguments.
        #[serde(default)]
        input: Value,
    },
}

impl Script {
    /// A script from JSON text.
    pub fn parse(json: &str) -> Result<Self, String> {
        let script: Value = serde_json::from_str(json).map_err(|e| format!("the script is not JSON: {e}"))?;
        Self::from_value(script)
    }

    /// A script from a JSON value.
    pub fn from_value(script: Value) -> Result<Self, String> {
        // An untagged enum would only say that nothing fits.
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

    /// The turn for the request number `position`, counted from 0.
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
    /// A turn that only says something.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// All tool calls, the short form included.
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
