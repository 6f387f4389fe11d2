//! Tools. Each is a type in a file of its own ([`tool::Tool`]); every call takes the one path ([`path`]).

mod command;
mod files;
mod git;
mod glob;
mod input;
mod memory;
mod output;
mod parallel;
pub mod patch;
mod path;
mod permission;
pub mod plan;
mod root;
mod search;
#[cfg(test)]
mod testing;
mod tool;
mod walk;

use memory::FileMemory;
use plan::Plan;

pub use permission::{Need, Permission};
pub use root::{Root, RootError};
pub use tool::ToolDefinition;

pub(crate) use input::tool_name;
pub(crate) use output::{Change, Ran, ToolError, Wrote};
pub(crate) use tool::{Entry, Subject, Tool, ToolContext};

/// The largest output of a tool that goes into the conversation, in bytes.
pub(crate) const MAX_OUTPUT_BYTES: usize = 32 * 1024;

/// Every tool, in the order in which the model is told of them.
fn entries() -> Vec<(Entry, ToolDefinition)> {
    vec![
        Entry::of::<files::ReadFile>(),
        Entry::of::<files::ListDir>(),
        Entry::of::<glob::GlobFiles>(),
        Entry::of::<search::SearchFiles>(),
        Entry::of::<files::WriteFile>(),
        Entry::of::<files::EditFile>(),
        Entry::of::<patch::ApplyPatch>(),
        Entry::of::<command::RunCommand>(),
        Entry::of::<git::GitStatus>(),
        Entry::of::<git::GitDiff>(),
        Entry::of::<git::GitLog>(),
        Entry::of::<git::GitShow>(),
        Entry::of::<git::GitCommit>(),
        Entry::of::<plan::UpdatePlan>(),
    ]
}

/// The tools of one run.
pub struct Toolbox {
    entries: Vec<Entry>,
    definitions: Vec<ToolDefinition>,
    root: Root,
    permission: Permission,
    files: FileMemory,
    limits: files::WriteLimits,
    plan: Plan,
}

impl Toolbox {
    /// All tools, in this workspace, with this permission.
    pub fn new(root: Root, permission: Permission) -> Self {
        let (entries, definitions) = entries().into_iter().unzip();
        Self {
            entries,
            definitions,
            root,
            permission,
            files: FileMemory::default(),
            limits: files::WriteLimits::default(),
            plan: Plan::default(),
        }
    }

    /// The plan of the run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What the model is told.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// The workspace.
    pub fn root(&self) -> &Root {
        &self.root
    }
}
