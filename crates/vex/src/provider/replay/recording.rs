//! A file of recorded conversations.
//!
//! A recording is a JSONL file. Each line is an object with a `kind`:
//!
//! - `recording` (first line): `version` 1, and a `note` for people.
//! - `conversation`: starts one. `name`; `when`: texts that the prompt must all contain.
//! - `turn`: one answer of the model, as [`RecordedTurn`].
//! - `error`: in place of a turn, the provider's error: `message`, `class`.
//!
//! Empty lines and lines that start with `//` are skipped.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::conversation::{ToolResult, Usage};

/// The maximum size of a recording, in bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum RecordingLine {
    Recording {
        version: u32,
        #[serde(default, rename = "note")]
        _note: Option<String>,
    },
    Conversation {
        name: String,
        #[serde(default)]
        when: Vec<String>,
    },
    Turn(RecordedTurn),
    Error {
        message: String,
        class: Option<String>,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedTurn {
    pub reasoning: Option<String>,
    pub text: Option<String>,
    /// The tool calls; none in the last turn.
    #[serde(default)]
    pub tool_calls: Vec<RecordedCall>,
    /// The tokens of this turn alone.
    #[serde(default)]
    pub usage: Usage,
    /// The cost in USD.
    pub cost_usd: Option<f64>,
    /// The duration of the answer, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
}

/// One recorded tool call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedCall {
    pub tool: String,
    pub input: Value,
    #[serde(default)]
    pub expect: Expect,
}

/// Conditions on a real result. By default: no error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    pub is_error: Option<bool>,
    pub exit_code: Option<i32>,
    /// Texts that the output must all contain.
    #[serde(default)]
    pub contains: Vec<String>,
}

impl Expect {
    pub(super) fn check(&self, result: &ToolResult) -> Result<(), String> {
        if let Some(code) = self.exit_code {
            if result.exit_code != Some(code) {
                let got = result
                    .exit_code
                    .map_or("none".to_owned(), |code| code.to_string());
                return Err(format!("expected exit code {code}, got {got}"));
            }
        } else if result.is_error != self.is_error.unwrap_or(false) {
            return Err(if result.is_error {
                "it failed"
            } else {
                "it did not fail"
            }
            .to_owned());
        }
        match self
            .contains
            .iter()
            .find(|text| !result.output.contains(text.as_str()))
        {
            Some(text) => Err(format!("its output does not contain {text:?}")),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum RecordedStep {
    Turn(RecordedTurn),
    Error { message: String, class: Option<String> },
}

#[derive(Debug)]
pub(super) struct RecordedConversation {
    pub(super) name: String,
    pub(super) when: Vec<String>,
    pub(super) steps: Vec<RecordedStep>,
}

/// A validated file of recorded conversations.
#[derive(Debug)]
pub struct Recording {
    pub(super) path: PathBuf,
    pub(super) conversations: Vec<RecordedConversation>,
}

/// Why a recording could not be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("cannot read the recording {path}")]
    Read { path: PathBuf, source: std::io::Error },
    /// A line is invalid.
    #[error("{path}:{line}: {reason}", path = path.display())]
    Line {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        reason: String,
    },
    /// The model's name cannot be the name of a file.
    #[error("{0:?} is not the name of a recording: use letters, digits, `.`, `_` and `-`")]
    Name(String),
    /// No recording is named.
    #[error(
        "no recording is named: set --replay FILE, or --model NAME with --base-url FOLDER (or VEX_REPLAY_DIR) \
         for FOLDER/NAME.jsonl"
    )]
    NotNamed,
}

impl Recording {
    /// Returns the file to use: `replay` itself; else `<base_url>/<model>.jsonl`, where `base_url`
    /// (a path or a `file://` URL, by default `VEX_REPLAY_DIR`) may also be the file.
    ///
    /// # Errors
    /// When none is named, or the model's name could leave the folder.
    pub fn locate(
        replay: Option<&Path>,
        base_url: Option<&str>,
        replay_dir: Option<&Path>,
        model: Option<&str>,
    ) -> Result<PathBuf, RecordingError> {
        if let Some(file) = replay {
            return Ok(file.to_owned());
        }
        let place = base_url
            .map(|url| Path::new(url.strip_prefix("file://").unwrap_or(url)))
            .or(replay_dir)
            .ok_or(RecordingError::NotNamed)?;
        if place.is_file() {
            return Ok(place.to_owned());
        }
        let model = model.ok_or(RecordingError::NotNamed)?;
        let plain = model
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if model.is_empty() || model.starts_with('.') || !plain {
            return Err(RecordingError::Name(model.to_owned()));
        }
        Ok(place.join(format!("{model}.jsonl")))
    }

    /// Reads and validates a whole recording.
    ///
    /// # Errors
    /// When it cannot be read, or at the first invalid line.
    pub fn load(path: &Path) -> Result<Self, RecordingError> {
        let read = |source| RecordingError::Read {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(read)?;
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(read)?;
        Self::parse(path, &text)
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, RecordingError> {
        let mut conversations: Vec<RecordedConversation> = Vec::new();
        let mut started = false;
        for (index, line) in text.lines().enumerate() {
            let fail = |reason: String| RecordingError::Line {
                path: path.to_owned(),
                line: index + 1,
                reason,
            };
            if line.trim().is_empty() || line.trim_start().starts_with("//") {
                continue;
            }
            let line: RecordingLine = serde_json::from_str(line).map_err(|error| fail(error.to_string()))?;
            let step = match line {
                RecordingLine::Recording { version: 1, .. } if !started => {
                    started = true;
                    continue;
                }
                RecordingLine::Recording { version, .. } if !started => {
                    return Err(fail(format!(
                        "unsupported version {version} of recordings: expected 1"
                    )));
                }
                RecordingLine::Recording { .. } => return Err(fail("a second `recording` line".to_owned())),
                _ if !started => {
                    return Err(fail(r#"the first line must be of kind "recording""#.to_owned()));
                }
                RecordingLine::Conversation { name, when } => {
                    conversations.push(RecordedConversation {
                        name,
                        when,
                        steps: Vec::new(),
                    });
                    continue;
                }
                RecordingLine::Turn(turn) => RecordedStep::Turn(turn),
                RecordingLine::Error { message, class } => RecordedStep::Error { message, class },
            };
            match conversations.last_mut() {
                Some(conversation) => conversation.steps.push(step),
                None => return Err(fail("a turn before the first conversation".to_owned())),
            }
        }
        Ok(Self {
            path: path.to_owned(),
            conversations,
        })
    }
}
