//! What a tool is: one type in one file, listed in [`super::entries`].

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
    /// What models call it, too.
    pub aliases: &'static [&'static str],
    /// What models call its arguments, too: (other name, name).
    pub arguments: &'static [(&'static str, &'static str)],
}

/// What a tool may use while it runs.
#[derive(Clone, Copy)]
pub(crate) struct ToolContext<'a> {
    /// The workspace.
    pub(crate) root: &'a Root,
    /// What the model saw of its files.
    pub(crate) files: &'a FileMemory,
    /// How long files may be that are written anew.
    pub(crate) limits: WriteLimits,
    /// The plan.
    pub(crate) plan: &'a Plan,
    /// Which hosts may be asked.
    pub(crate) hosts: &'a dyn HostPolicy,
    /// Ends what takes long.
    pub(crate) interrupt: &'a Interrupt,
    /// Where events and deeds are told.
    pub(crate) journal: &'a Journal,
    /// Runs commands.
    pub(crate) runner: &'a Runner,
    /// The commands in the background.
    pub(crate) processes: &'a BackgroundCommands,
}

/// The need of a tool and what it must show for its success: the two belong together.
pub(crate) trait ToolKind {
    const NEED: Need;
    /// Whether it may run beside others of its kind.
    const SIDE_BY_SIDE: bool;
    type Output: Into<Output>;
}

/// It only looks.
pub(crate) enum ReadOnly {}
impl ToolKind for ReadOnly {
    const NEED: Need = Need::Read;
    const SIDE_BY_SIDE: bool = true;
    type Output = String;
}

/// It notes something for the run, and touches nothing outside of it.
pub(crate) enum Note {}
impl ToolKind for Note {
    const NEED: Need = Need::Read;
    const SIDE_BY_SIDE: bool = false;
    type Output = String;
}

/// It changes files, and shows which.
pub(crate) enum Write {}
impl ToolKind for Write {
    const NEED: Need = Need::Write;
    const SIDE_BY_SIDE: bool = false;
    type Output = WriteOutcome;
}

/// It runs a program, and shows how that ended.
pub(crate) enum Execute {}
impl ToolKind for Execute {
    const NEED: Need = Need::Execute;
    const SIDE_BY_SIDE: bool = false;
    type Output = RunOutcome;
}

/// It asks a host on the network.
pub(crate) enum Fetch {}
impl ToolKind for Fetch {
    const NEED: Need = Need::Http;
    const SIDE_BY_SIDE: bool = true;
    type Output = String;
}

/// What the pattern of a rule is matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Paths as given, relative to the workspace where they are inside.
    Paths(Vec<String>),
    /// A line for the shell.
    Command(String),
    /// The name of a host.
    Host(String),
    /// It cannot be known: no allow with a pattern fits, and every deny does.
    Unknown,
}

/// A tool. The type is its typed input.
pub(crate) trait Tool: DeserializeOwned {
    /// Its name.
    const NAME: &'static str;
    /// What models call it, too.
    const ALIASES: &'static [&'static str] = &[];
    /// What it does, in a line or two.
    const DESCRIPTION: &'static str;
    /// What it needs and what it gives back.
    type Kind: ToolKind;
    /// The arguments that must be there.
    const REQUIRED: &'static [&'static str];
    /// What models call its arguments, too: (other name, name).
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    /// Which arguments are paths or lists of paths.
    const PATHS: &'static [&'static str] = &[];

    /// JSON Schema of each argument.
    fn properties() -> Value;

    /// Mends what only this tool can: called with the arguments under their own names, before validation.
    fn mend(_arguments: &mut Map<String, Value>) {}

    /// What the pattern of a rule is matched against, in validated arguments.
    fn subject(input: &Value) -> Subject {
        paths(input, Self::PATHS)
    }

    /// Does it.
    fn run(self, context: &ToolContext<'_>) -> Result<<Self::Kind as ToolKind>::Output, ToolError>;
}

/// The paths in these arguments; one that is left out is the workspace itself.
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

/// A tool as the registry keeps it.
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
    /// Made from the schema when the tool is first called.
    pub(crate) validator: OnceLock<Option<Validator>>,
}

impl Entry {
    /// Whether this is its name, or another one that models use.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// What the registry and what the model know of a tool.
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
