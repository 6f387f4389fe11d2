//! JSON Lines: the shape of the first recognised line decides the dialect.

use serde::Deserialize;
use serde_json::value::RawValue;
use vik_core::workflow::AgentProfile;

use super::copilot::Copilot;
use super::gemini::Gemini;
use super::generic::Generic;
use super::opencode::OpenCode;
use crate::claude_code::ClaudeCode;
use crate::codex::Codex;
use crate::state::Session;
use crate::vex::Vex;
use crate::wire::{self, Text};
use crate::{Adapter, AgentLive, Conclusion, Exit, Sink};

/// The fields that distinguish the dialects.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Shape<'a> {
    #[serde(rename = "type")]
    kind: Option<Text<'a>>,
    subtype: Option<&'a RawValue>,
    data: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    item: Option<&'a RawValue>,
    thread_id: Option<&'a RawValue>,
    session_id: Option<&'a RawValue>,
    #[serde(rename = "sessionID")]
    opencode_session: Option<&'a RawValue>,
    #[serde(rename = "sessionId")]
    copilot_session: Option<&'a RawValue>,
    #[serde(rename = "exitCode")]
    copilot_exit: Option<&'a RawValue>,
    stats: Option<&'a RawValue>,
    tool_id: Option<&'a RawValue>,
    seq: Option<&'a RawValue>,
    v: Option<&'a RawValue>,
}

/// The adapter of one session of a command that prints JSON Lines.
pub(super) struct Jsonl {
    profile: AgentProfile,
    /// The detected dialect; the generic one before that.
    dialect: Box<dyn Adapter>,
    is_detected: bool,
}

impl Jsonl {
    pub(super) fn new(profile: &AgentProfile) -> Self {
        Self {
            profile: profile.clone(),
            dialect: Box::new(Generic::default()),
            is_detected: false,
        }
    }

    fn detect_dialect(&self, line: &str) -> Option<Box<dyn Adapter>> {
        let shape: Shape<'_> = wire::object(line)?;
        let kind = shape.kind.as_ref()?.as_str();
        let object = |raw: Option<&RawValue>| raw.is_some_and(|raw| raw.get().starts_with('{'));
        if shape.opencode_session.is_some() {
            return Some(Box::new(OpenCode::default()));
        }
        if (kind.contains('.') && object(shape.data))
            || (shape.copilot_session.is_some() && shape.copilot_exit.is_some())
        {
            return Some(Box::new(Copilot::default()));
        }
        match kind {
            "thread.started" if shape.thread_id.is_some() => Some(Box::new(Codex::new(&self.profile, None))),
            "turn.started" => Some(Box::new(Codex::new(&self.profile, None))),
            "item.started" | "item.completed" if object(shape.item) => {
                Some(Box::new(Codex::new(&self.profile, None)))
            }
            "system" | "result" if shape.subtype.is_some() => {
                Some(Box::new(ClaudeCode::new(&self.profile, None)))
            }
            "assistant" | "user" if object(shape.message) => {
                Some(Box::new(ClaudeCode::new(&self.profile, None)))
            }
            "session_start" if shape.v.is_some() && shape.seq.is_some() => Some(Box::new(Vex::default())),
            "init" if shape.session_id.is_some() => Some(Box::new(Gemini::default())),
            "tool_use" | "tool_result" if shape.tool_id.is_some() => Some(Box::new(Gemini::default())),
            "result" if shape.stats.is_some() => Some(Box::new(Gemini::default())),
            _ => None,
        }
    }
}

impl Adapter for Jsonl {
    fn session(&self) -> &Session {
        self.dialect.session()
    }

    fn read_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        if !self.is_detected
            && let Some(dialect) = self.detect_dialect(line)
        {
            self.dialect = dialect;
            self.is_detected = true;
        }
        self.dialect.read_line(line, sink);
    }

    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion {
        self.dialect.conclude(exit, stderr_tail)
    }

    fn live(&self) -> AgentLive {
        AgentLive::default()
    }
}
