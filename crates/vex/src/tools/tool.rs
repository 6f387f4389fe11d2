//! The definition of a tool: one type in one file, listed in [`super::entries`].

use std::sync::OnceLock;

use jsonschema::Validator;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::command::{BackgroundCommands, Runner};
use super::fetch::HostPolicy;
use super::files::WriteLimits;
use super::memory::FileMemory;
use super::output::{Output, RunOutcome, ToolError, WriteOutcome};
use super::permission::Need;
use super::plan::Plan;
use super::root::Root;
use crate::events::Journal;
use crate::interrupt::Interrupt;

/// The definition of a tool for the model.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    pub name: &'static str,
    pub description: &'static str,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    pub need: Need,
    /// Other names of the tool that models use.
    pub aliases: &'static [&'static str],
    /// Other names of its arguments that models use: (other name, name).
    pub arguments: &'static [(&'static str, &'static str)],
}

/// What a tool may use while it runs.
#[derive(Clone, Copy)]
pub(crate) struct ToolContext<'a> {
    pub(crate) root: &'a Root,
    /// The content of files that the model has seen.
    pub(crate) files: &'a FileMemory,
    /// Limits for rewriting whole files.
    pub(crate) limits: WriteLimits,
    pub(crate) plan: &'a Plan,
    pub(crate) hosts: &'a dyn HostPolicy,
    pub(crate) interrupt: &'a Interrupt,
    /// Receives events and evidence.
    pub(crate) journal: &'a Journal,
    pub(crate) runner: &'a Runner,
    pub(crate) processes: &'a BackgroundCommands,
}

/// The need of a tool and the proof of its success, which belong together.
pub(crate) trait ToolKind {
    const NEED: Need;
    /// Whether it may run in parallel with others of its kind.
    const SIDE_BY_SIDE: bool;
    type Output: Into<Output>;
}

pub(crate) enum ReadOnly {}
impl ToolKind for ReadOnly {
    const NEED: Need = Need::Read;
    const SIDE_BY_SIDE: bool = true;
    type Output = String;
}

/// Takes notes for the run, and changes nothing outside of it.
pub(crate) enum Note {}
impl ToolKind for Note {
    const NEED: Need = Need::Read;
    const SIDE_BY_SIDE: bool = false;
    type Output = String;
}

/// Changes files, and returns which.
pub(crate) enum Write {}
impl ToolKind for Write {
    const NEED: Need = Need::Write;
    const SIDE_BY_SIDE: bool = false;
    type Output = WriteOutcome;
}

/// Runs a program, and returns how it ended.
pub(crate) enum Execute {}
impl ToolKind for Execute {
    const NEED: Need = Need::Execute;
    const SIDE_BY_SIDE: bool = false;
    type Output = RunOutcome;
}

/// Sends requests to a host on the network.
pub(crate) enum Fetch {}
impl ToolKind for Fetch {
    const NEED: Need = Need::Http;
    const SIDE_BY_SIDE: bool = true;
    type Output = String;
}

/// What the pattern of a rule is matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Paths as given, relative to the workspace if inside it.
    Paths(Vec<String>),
    /// A line for the shell.
    Command(String),
    Host(String),
    /// Unknown: no allow with a pattern matches, and every deny does.
    Unknown,
}

/// A tool. The type is its typed input.
pub(crate) trait Tool: DeserializeOwned {
    const NAME: &'static str;
    /// Other names of the tool that models use.
    const ALIASES: &'static [&'static str] = &[];
    /// What it does, in a line or two.
    const DESCRIPTION: &'static str;
    /// What it needs and returns.
    type Kind: ToolKind;
    const REQUIRED: &'static [&'static str];
    /// Other names of its arguments that models use: (other name, name).
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    /// Which arguments are paths or lists of paths.
    const PATHS: &'static [&'static str] = &[];

    /// Returns the JSON Schema of each argument.
    fn properties() -> Value;

    /// Corrects mistakes specific to this tool: called with the canonical names of the arguments,
    /// before validation.
    fn mend(_arguments: &mut Map<String, Value>) {}

    /// Returns the subject that the pattern of a rule is matched against, from validated arguments.
    fn subject(input: &Value) -> Subject {
        paths(input, Self::PATHS)
    }

    fn run(self, context: &ToolContext<'_>) -> Result<<Self::Kind as ToolKind>::Output, ToolError>;
}

/// Returns the paths in these arguments; a missing one is the workspace itself.
fn paths(input: &Value, names: &[&str]) -> Subject {
    let mut all = Vec::new();
    for name in names {
        match input.get(name) {
            None => all.push(".".to_owned()),
            Some(Value::String(path)) => all.push(path.clone()),
            Some(Value::Array(paths)) => {
                all.extend(paths.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            Some(_) => return Subject::Unknown,
        }
    }
    if all.is_empty() {
        Subject::Unknown
    } else {
        Subject::Paths(all)
    }
}

/// The entry of a tool in the registry.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) need: Need,
    pub(crate) side_by_side: bool,
    pub(crate) arguments: &'static [(&'static str, &'static str)],
    pub(crate) paths: &'static [&'static str],
    pub(crate) mend: fn(&mut Map<String, Value>),
    pub(crate) subject: fn(&Value) -> Subject,
    pub(crate) run: fn(&ToolContext<'_>, &Value) -> Result<Output, ToolError>,
    /// Compiled from the schema at the first call of the tool.
    pub(crate) validator: OnceLock<Option<Validator>>,
}

impl Entry {
    /// Returns whether this is its name, or another one that models use.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Returns the entry for the registry and the definition for the model.
    pub(crate) fn of<T: Tool>() -> (Self, ToolDefinition) {
        let entry = Self {
            name: T::NAME,
            aliases: T::ALIASES,
            need: T::Kind::NEED,
            side_by_side: T::Kind::SIDE_BY_SIDE,
            arguments: T::ARGUMENTS,
            paths: T::PATHS,
            mend: T::mend,
            subject: T::subject,
            run: |context, input| {
                let typed = T::deserialize(input).map_err(|error| {
                    ToolError::Failed(format!("the arguments of {} are wrong: {error}", T::NAME))
                })?;
                typed.run(context).map(Into::into)
            },
            validator: OnceLock::new(),
        };
        let definition = ToolDefinition {
            name: T::NAME,
            description: T::DESCRIPTION,
            need: T::Kind::NEED,
            aliases: T::ALIASES,
            arguments: T::ARGUMENTS,
            input_schema: json!({
                "type": "object",
                "properties": T::properties(),
                "required": T::REQUIRED,
                "additionalProperties": false
            }),
        };
        (entry, definition)
    }
}
