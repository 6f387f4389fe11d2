//! `command_output`: what a background command printed.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::tool::Note;
use crate::tools::{Tool, ToolContext, ToolError};

#[derive(Deserialize)]
pub(crate) struct CommandOutput {
    id: String,
    #[serde(default)]
    stop: bool,
}

impl Tool for CommandOutput {
    const NAME: &'static str = "command_output";
    const ALIASES: &'static [&'static str] = &["bash_output", "read_output"];
    const DESCRIPTION: &'static str = "What a background command printed since the last look; stop ends it.";
    type Kind = Note;
    const REQUIRED: &'static [&'static str] = &["id"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("bash_id", "id"),
        ("shell_id", "id"),
        ("command_id", "id"),
        ("kill", "stop"),
    ];

    fn properties() -> Value {
        json!({"id": {"type": "string"}, "stop": {"type": "boolean"}})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        context.processes.take_output(&self.id, self.stop)
    }
}
