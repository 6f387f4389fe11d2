//! Tools, and the one path that every call takes: definition, validation, permission, run, bounded result.

mod command;
mod files;
mod root;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use root::{Root, RootError};

use crate::conversation::{Arguments, ToolCall, ToolResult};
use crate::interrupt::Interrupt;
use crate::journal::{CommandRun, Journal};

/// The largest output of a tool that goes into the conversation, in bytes.
pub(crate) const MAX_OUTPUT_BYTES: usize = 32 * 1024;

/// What a run may do without being asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Permission {
    /// Look, change nothing: no writes, no commands
    ReadOnly,
    /// Edit below the working directory, run commands
    #[default]
    WorkspaceWrite,
    /// As workspace-write, and read and write files anywhere
    Full,
}

impl Permission {
    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::Full => "full",
        }
    }

    fn allows(self, need: Need) -> bool {
        match need {
            Need::Read => true,
            Need::Write | Need::Execute => self != Self::ReadOnly,
        }
    }
}

/// What a tool needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It only looks.
    Read,
    /// It changes files.
    Write,
    /// It runs a program.
    Execute,
}

impl Need {
    fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write files",
            Self::Execute => "run commands",
        }
    }
}

/// What a model is told of a tool.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// What it needs.
    pub need: Need,
}

/// What a tool gives back, before it becomes a [`ToolResult`].
#[derive(Debug, Default)]
pub(crate) struct Output {
    text: String,
    is_error: bool,
    denied: bool,
    exit_code: Option<i32>,
}

impl Output {
    fn ok(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// Why a tool did not do what it was asked; the text goes to the model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// The arguments or the state of the files do not fit.
    #[error("{0}")]
    Failed(String),
    /// The permission says no.
    #[error("denied: {0}")]
    Denied(String),
}

impl From<RootError> for ToolError {
    fn from(error: RootError) -> Self {
        match error {
            RootError::Outside { .. } | RootError::Git { .. } => Self::Denied(error.to_string()),
            RootError::Io { ref source, .. } => Self::Failed(format!("{error}: {source}")),
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// The tools of one run.
pub struct Toolbox {
    definitions: Vec<ToolDefinition>,
    root: Root,
    permission: Permission,
}

impl Toolbox {
    /// All tools, in this workspace, with this permission.
    pub fn new(root: Root, permission: Permission) -> Self {
        Self {
            definitions: definitions(),
            root,
            permission,
        }
    }

    /// What the model is told.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// The workspace.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Runs one call, whatever it is: the one path. Everything that goes wrong is a result that the model sees.
    pub fn call(&self, call: &ToolCall, journal: &Journal, interrupt: &Interrupt) -> ToolResult {
        journal.tool_call(call);
        let output = self.run(call, journal, interrupt).unwrap_or_else(|error| Output {
            denied: matches!(error, ToolError::Denied(_)),
            text: error.to_string(),
            is_error: true,
            exit_code: None,
        });
        let result = ToolResult {
            call_id: call.call_id.clone(),
            is_error: output.is_error,
            exit_code: output.exit_code,
            output: bounded(output.text),
            denied: output.denied,
        };
        journal.tool_result(&result);
        result
    }

    fn run(&self, call: &ToolCall, journal: &Journal, interrupt: &Interrupt) -> Result<Output, ToolError> {
        let definition = self
            .definitions
            .iter()
            .find(|d| d.name == call.tool)
            .ok_or_else(|| {
                let names: Vec<_> = self.definitions.iter().map(|d| d.name).collect();
                ToolError::Failed(format!(
                    "there is no tool {:?}; there are {}",
                    call.tool,
                    names.join(", ")
                ))
            })?;
        let input = match &call.input {
            Arguments::Json(input) => input,
            Arguments::Broken { reason, .. } => {
                return Err(ToolError::Failed(format!(
                    "the arguments of {} are no JSON, so it was not run: {reason}",
                    definition.name
                )));
            }
        };
        let request = Call::validate(definition, input)?;
        if !self.permission.allows(definition.need) {
            return Err(ToolError::Denied(format!(
                "the permission is {}, {} may not {}",
                self.permission.as_str(),
                definition.name,
                definition.need.verb()
            )));
        }
        let wrote = |path: String| {
            journal.evidence(|evidence| {
                if !evidence.files_changed.contains(&path) {
                    evidence.files_changed.push(path);
                }
            });
        };
        match request {
            Call::ReadFile(input) => files::read(&self.root, &input),
            Call::ListDir(input) => files::list(&self.root, &input),
            Call::WriteFile(input) => {
                files::write(&self.root, &input).inspect(|_| wrote(self.root.shown(&input.path)))
            }
            Call::EditFile(input) => {
                files::edit(&self.root, &input).inspect(|_| wrote(self.root.shown(&input.path)))
            }
            Call::RunCommand(input) => {
                let output = command::run(&self.root, &input, interrupt)?;
                let run = CommandRun {
                    command: input.command,
                    exit_code: output.exit_code,
                };
                journal.evidence(|evidence| evidence.commands.push(run));
                Ok(output)
            }
        }
    }
}

/// A validated call.
enum Call {
    ReadFile(files::ReadFile),
    WriteFile(files::WriteFile),
    EditFile(files::EditFile),
    ListDir(files::ListDir),
    RunCommand(command::RunCommand),
}

impl Call {
    fn validate(definition: &ToolDefinition, input: &Value) -> Result<Self, ToolError> {
        fn typed<T: DeserializeOwned>(definition: &ToolDefinition, input: &Value) -> Result<T, ToolError> {
            T::deserialize(input).map_err(|error| {
                ToolError::Failed(format!("the arguments of {} are wrong: {error}", definition.name))
            })
        }
        match definition.name {
            "read_file" => typed(definition, input).map(Self::ReadFile),
            "write_file" => typed(definition, input).map(Self::WriteFile),
            "edit_file" => typed(definition, input).map(Self::EditFile),
            "list_dir" => typed(definition, input).map(Self::ListDir),
            "run_command" => typed(definition, input).map(Self::RunCommand),
            other => Err(ToolError::Denied(format!(
                "nothing is known of what {other} may do"
            ))),
        }
    }
}

fn definitions() -> Vec<ToolDefinition> {
    let tool = |name, description, need, properties: Value, required: &[&str]| ToolDefinition {
        name,
        description,
        need,
        input_schema: json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false
        }),
    };
    let path = json!({"type": "string", "description": "relative to the working directory"});
    vec![
        tool(
            "read_file",
            "Read a text file, by pages of lines.",
            Need::Read,
            json!({"path": path, "offset": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
                   "limit": {"type": "integer", "minimum": 1, "description": "number of lines"}}),
            &["path"],
        ),
        tool(
            "list_dir",
            "List a directory; directories end with a slash.",
            Need::Read,
            json!({"path": path}),
            &[],
        ),
        tool(
            "write_file",
            "Write a whole file; missing directories are made.",
            Need::Write,
            json!({"path": path, "content": {"type": "string"}}),
            &["path", "content"],
        ),
        tool(
            "edit_file",
            "Replace an exact text, which must stand in the file exactly once (or set replace_all).",
            Need::Write,
            json!({"path": path, "old": {"type": "string"}, "new": {"type": "string"},
                   "replace_all": {"type": "boolean"}}),
            &["path", "old", "new"],
        ),
        tool(
            "run_command",
            "Run a shell command without stdin; the start and the end of its output come back. Processes that it \
             leaves behind are stopped.",
            Need::Execute,
            json!({"command": {"type": "string"}, "cwd": path,
                   "timeout_ms": {"type": "integer", "minimum": 1, "maximum": command::MAX_TIMEOUT_MS}}),
            &["command"],
        ),
    ]
}

fn bounded(text: String) -> String {
    if text.len() <= MAX_OUTPUT_BYTES {
        return text;
    }
    let half = MAX_OUTPUT_BYTES / 2;
    let mut head = half;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - half;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!(
        "{}\n[… {} bytes left out …]\n{}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_has_its_validation() {
        for definition in definitions() {
            let error = Call::validate(&definition, &json!({"no_such": 1})).err().unwrap();
            assert!(matches!(error, ToolError::Failed(_)), "{}", definition.name);
            assert!(error.to_string().contains("no_such"), "{error}");
        }
    }

    #[test]
    fn a_bounded_text_keeps_both_ends() {
        let text = format!("start{}end", "ä".repeat(MAX_OUTPUT_BYTES));
        let short = bounded(text);
        assert!(short.starts_with("start") && short.ends_with("end"));
        assert!(short.len() < MAX_OUTPUT_BYTES + 100);
    }
}
