//! The trait of a tool: one type in one file, listed in [`super::entries`].

use std::borrow::Cow;
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::command::{BackgroundCommands, Runner};
use super::definition::{Need, ToolDefinition};
use super::fetch::HostPolicy;
use super::files::WriteLimits;
use super::memory::FileMemory;
use super::output::{Output, RunOutcome, ToolError, WriteOutcome};
use super::root::Root;
use super::subject::Subject;
use crate::events::Journal;
use crate::interrupt::Interrupt;
use crate::json_schema::JsonSchema;
use crate::plan::Plan;
use crate::skills::Skills;

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
    pub(crate) skills: &'a Skills,
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

/// A tool. The type is its typed input.
pub(crate) trait Tool: DeserializeOwned {
    const NAME: &'static str;
    /// Other names of the tool that models use.
    const ALIASES: &'static [&'static str] = &[];
    /// What it does, in a line or two.
    const DESCRIPTION: &'static str;
    /// What it needs and returns.
    type Kind: ToolKind;
    const REQUIRED: &'static [&'static str] = &[];
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
        Subject::of_paths(input, Self::PATHS)
    }

    fn run(self, context: &ToolContext<'_>) -> Result<<Self::Kind as ToolKind>::Output, ToolError>;
}

/// The code of a tool. That of a built-in one captures nothing, so its box is not allocated.
type RunTool = dyn Fn(&ToolContext<'_>, &Value) -> Result<Output, ToolError> + Send + Sync;

/// The entry of a tool in the registry: one of [`super::entries`], or one known only at run time.
pub(crate) struct Entry {
    /// The name in rules, events, approvals and hooks.
    pub(crate) name: Cow<'static, str>,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) need: Need,
    pub(crate) side_by_side: bool,
    pub(crate) arguments: &'static [(&'static str, &'static str)],
    pub(crate) paths: &'static [&'static str],
    pub(crate) mend: fn(&mut Map<String, Value>),
    pub(crate) subject: fn(&Value) -> Subject,
    pub(crate) run: Box<RunTool>,
    /// Compiled from the schema at the first call of the tool.
    pub(crate) schema: OnceLock<Option<JsonSchema>>,
}

impl Entry {
    /// Returns whether this is its name, or another one that models use.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Returns the entry for the registry and the definition for the model.
    pub(crate) fn of<T: Tool>() -> (Self, ToolDefinition) {
        let entry = Self {
            name: Cow::Borrowed(T::NAME),
            aliases: T::ALIASES,
            need: T::Kind::NEED,
            side_by_side: T::Kind::SIDE_BY_SIDE,
            arguments: T::ARGUMENTS,
            paths: T::PATHS,
            mend: T::mend,
            subject: T::subject,
            run: Box::new(|context, input| {
                let typed = T::deserialize(input).map_err(|error| {
                    ToolError::Failed(format!("the arguments of {} are wrong: {error}", T::NAME))
                })?;
                typed.run(context).map(Into::into)
            }),
            schema: OnceLock::new(),
        };
        let definition = ToolDefinition {
            name: Cow::Borrowed(T::NAME),
            description: Cow::Borrowed(T::DESCRIPTION),
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
