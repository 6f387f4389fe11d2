//! Plays a recorded model: the answers are recorded, the tools are real.
//!
//! A recording is a JSONL file. Each line is an object with a `kind`:
//!
//! - `recording` (first line): `version` 1, and a `note` for people.
//! - `conversation`: starts one. `name`; `when`: texts that the prompt must all contain.
//! - `turn`: one answer of the model, as [`RecordedTurn`].
//! - `error`: in place of a turn, the provider's error: `message`, `class`.
//!
//! Empty lines and lines that start with `//` are skipped. The first conversation whose `when`
//! matches is played. Before each turn, the results of the previous calls are compared with
//! `expect`: if a recording no longer matches the real results, the run fails.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::conversation::{Arguments, Block, Message, StopReason, ToolCall, ToolResult, Turn, Usage};
use crate::interrupt::Interrupt;
use crate::provider::protocol::ToolCalls;
use crate::provider::{ModelInfo, Progress, Provider, ProviderError, Request};

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
        #[serde(default)]
        class: Option<String>,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedTurn {
    #[serde(default)]
    pub reasoning: Option<String>,
    #[serde(default)]
    pub text: Option<String>,
    /// The tool calls; none in the last turn.
    #[serde(default)]
    pub tool_calls: Vec<RecordedCall>,
    /// The tokens of this turn alone.
    #[serde(default)]
    pub usage: Usage,
    /// The cost in USD.
    #[serde(default)]
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
    #[serde(default)]
    pub is_error: Option<bool>,
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// Texts that the output must all contain.
    #[serde(default)]
    pub contains: Vec<String>,
}

impl Expect {
    fn check(&self, result: &ToolResult) -> Result<(), String> {
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
enum RecordedStep {
    Turn(RecordedTurn),
    Error { message: String, class: Option<String> },
}

#[derive(Debug)]
struct RecordedConversation {
    name: String,
    when: Vec<String>,
    steps: Vec<RecordedStep>,
}

/// A validated file of recorded conversations.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    conversations: Vec<RecordedConversation>,
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

    fn parse(path: &Path, text: &str) -> Result<Self, RecordingError> {
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

/// Plays one conversation of a recording.
pub struct Replay {
    recording: Recording,
    playing: Option<std::vec::IntoIter<RecordedStep>>,
    name: String,
    calls: Vec<(ToolCall, Expect)>,
    turn: usize,
    model: ModelInfo,
}

impl Replay {
    /// Creates a provider that answers from this recording.
    pub fn new(recording: Recording, model: &str) -> Self {
        Self {
            recording,
            playing: None,
            name: String::new(),
            calls: Vec::new(),
            turn: 0,
            model: ModelInfo {
                tool_calls: ToolCalls::default(),
                model: model.to_owned(),
                context_window: None,
                priced: true,
            },
        }
    }

    fn choose(&mut self, prompt: &str) -> Result<std::vec::IntoIter<RecordedStep>, ProviderError> {
        let fits = |c: &&mut RecordedConversation| c.when.iter().all(|text| prompt.contains(text.as_str()));
        match self.recording.conversations.iter_mut().find(fits) {
            Some(conversation) => {
                self.name = std::mem::take(&mut conversation.name);
                Ok(std::mem::take(&mut conversation.steps).into_iter())
            }
            None => Err(ProviderError::Config(format!(
                "no conversation of {} matches this prompt; it has: {}",
                self.recording.path.display(),
                self.recording
                    .conversations
                    .iter()
                    .map(|c| format!("{} (when the prompt contains {})", c.name, quoted(&c.when)))
                    .collect::<Vec<_>>()
                    .join(", ")
            ))),
        }
    }

    /// Compares the results since the last turn with the expected ones.
    fn check(&mut self, messages: &[Message]) -> Result<(), ProviderError> {
        for (call, expect) in self.calls.drain(..) {
            let result = messages.iter().rev().find_map(|message| match message {
                Message::Tool(result) if result.call_id == call.call_id => Some(result),
                _ => None,
            });
            let reason = match result {
                Some(result) => expect
                    .check(result)
                    .map_err(|reason| (reason, result.output.as_str())),
                None => Err(("it has no result".to_owned(), "")),
            };
            if let Err((reason, output)) = reason {
                let output_tail = tail(output, 400);
                return Err(ProviderError::Diverged(format!(
                    "turn {} of {:?} called {} {}: {reason}{}{output_tail}",
                    self.turn,
                    self.name,
                    call.tool,
                    call.input.json().unwrap_or_default(),
                    if output_tail.is_empty() {
                        ""
                    } else {
                        "; its output: "
                    },
                )));
            }
        }
        Ok(())
    }
}

impl Provider for Replay {
    fn turn(
        &mut self,
        request: Request<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
        interrupt: &Interrupt,
    ) -> Result<Turn, ProviderError> {
        if self.playing.is_none() {
            let prompt = request.messages.iter().find_map(|message| match message {
                Message::User { text } => Some(text.as_str()),
                _ => None,
            });
            let mut steps = self.choose(prompt.unwrap_or_default())?;
            // Answers to another process are skipped; that process checked their results.
            if self.turn > 0 {
                steps.nth(self.turn - 1);
            }
            self.playing = Some(steps);
        }
        self.check(request.messages)?;
        self.turn += 1;
        let turn = match self.playing.as_mut().and_then(Iterator::next) {
            Some(RecordedStep::Turn(turn)) => turn,
            Some(RecordedStep::Error { message, class }) => {
                return Err(ProviderError::Reported {
                    message,
                    class,
                    http_status: None,
                    retry_after_ms: None,
                });
            }
            None => {
                return Err(ProviderError::Diverged(format!(
                    "{:?} has only {} turns, and the last one called tools",
                    self.name,
                    self.turn - 1
                )));
            }
        };
        if turn.delay_ms > 0 && !interrupt.sleep(Duration::from_millis(turn.delay_ms)) {
            return Err(ProviderError::Interrupted);
        }
        let number = self.turn;
        self.calls = turn
            .tool_calls
            .into_iter()
            .enumerate()
            .map(|(index, call)| {
                let call_id = format!("call_{number}_{}", index + 1);
                (
                    ToolCall {
                        call_id,
                        tool: call.tool,
                        input: Arguments::Json(call.input),
                        repaired: false,
                    },
                    call.expect,
                )
            })
            .collect();
        let mut blocks = Vec::new();
        if let Some(text) = turn.reasoning {
            progress(Progress::Thinking(&text));
            blocks.push(Block::Thinking {
                text,
                signature: None,
            });
        }
        if let Some(text) = turn.text {
            progress(Progress::Text(&text));
            blocks.push(Block::Text { text });
        }
        let stop = if self.calls.is_empty() {
            StopReason::End
        } else {
            StopReason::ToolUse
        };
        blocks.extend(self.calls.iter().map(|(call, _)| Block::ToolCall(call.clone())));
        Ok(Turn {
            blocks,
            stop,
            usage: turn.usage,
            counted: true,
            cost_usd: turn.cost_usd,
        })
    }

    fn resume(&mut self, answers: u32) {
        self.turn = answers as usize;
    }

    fn model(&self) -> &ModelInfo {
        &self.model
    }
}

fn quoted(texts: &[String]) -> String {
    match texts {
        [] => "anything".to_owned(),
        _ => texts
            .iter()
            .map(|text| format!("{text:?}"))
            .collect::<Vec<_>>()
            .join(" and "),
    }
}

/// Returns the end of a text, at most `max` bytes.
fn tail(text: &str, max: usize) -> &str {
    let text = text.trim_end();
    let mut start = text.len().saturating_sub(max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Recording, RecordingError> {
        Recording::parse(Path::new("r.jsonl"), text)
    }

    #[test]
    fn recording_errors_name_file_and_line() {
        let shown: Vec<String> = [
            "{\"kind\":\"turn\"}",
            "{\"kind\":\"recording\",\"version\":2}",
            "// fine\n{\"kind\":\"recording\",\"version\":1}\n\n{\"kind\":\"turn\",\"text\":\"x\"}",
            "{\"kind\":\"recording\",\"version\":1}\n{\"kind\":\"conversation\",\"name\":\"a\",\"wen\":[]}",
        ]
        .iter()
        .map(|text| parse(text).unwrap_err().to_string())
        .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        r.jsonl:1: the first line must be of kind "recording"
        r.jsonl:1: unsupported version 2 of recordings: expected 1
        r.jsonl:4: a turn before the first conversation
        r.jsonl:2: unknown field `wen`, expected `name` or `when`
        "#);
    }

    #[test]
    fn recording_model_name_never_leaves_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().to_str().unwrap();
        let locate = |model| Recording::locate(None, Some(place), None, Some(model));
        assert_eq!(locate("sample-1.0").unwrap(), dir.path().join("sample-1.0.jsonl"));
        for name in ["", ".", "..", "../x", "a/b", ".hidden", "a\0b"] {
            assert!(matches!(locate(name), Err(RecordingError::Name(_))), "{name:?}");
        }
        let url = format!("file://{place}");
        let found = Recording::locate(None, Some(&url), Some(Path::new("/else")), Some("m")).unwrap();
        assert_eq!(found, dir.path().join("m.jsonl"));
        assert!(matches!(
            Recording::locate(None, None, None, Some("m")),
            Err(RecordingError::NotNamed)
        ));
    }

    #[test]
    fn expectations_are_checked_against_results() {
        let result = |is_error, exit_code| ToolResult {
            call_id: String::new(),
            is_error,
            exit_code,
            output: "ok 1".to_owned(),
            denied: false,
        };
        let expect = |text: &str| serde_json::from_str::<Expect>(text).unwrap();
        expect("{}").check(&result(false, None)).unwrap();
        expect("{}").check(&result(true, Some(1))).unwrap_err();
        expect(r#"{"exit_code":1}"#)
            .check(&result(true, Some(1)))
            .unwrap();
        expect(r#"{"exit_code":1}"#)
            .check(&result(false, Some(0)))
            .unwrap_err();
        expect(r#"{"is_error":true}"#).check(&result(true, None)).unwrap();
        expect(r#"{"is_error":true}"#)
            .check(&result(false, None))
            .unwrap_err();
        expect(r#"{"contains":["ok"]}"#)
            .check(&result(false, None))
            .unwrap();
        expect(r#"{"contains":["no"]}"#)
            .check(&result(false, None))
            .unwrap_err();
    }
}
