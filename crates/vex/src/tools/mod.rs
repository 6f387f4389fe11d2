//! Tools. Each is a type in a file of its own (`tool::Tool`); every call takes the same path
//! (`path`).

mod attachments;
mod command;
mod definition;
mod fetch;
mod files;
mod git;
mod glob;
mod hooks;
mod input;
mod load_skill;
mod mcp;
mod memory;
mod output;
mod parallel;
pub mod patch;
mod path;
mod permission;
mod policy;
mod root;
mod rules;
#[cfg(test)]
mod scope_tests;
mod search;
mod subject;
#[cfg(test)]
pub(crate) mod testing;
mod tool;
mod update_plan;
mod walk;

use std::borrow::Cow;
use std::time::Duration;

use tool_call_repair::tool_name;

use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::redact::redact;
use crate::skills::Skills;
use memory::FileMemory;

pub use definition::{Need, ToolDefinition};
pub use files::WriteLimits;
pub use hooks::{Hook, HookEvent};
pub use mcp::{ByteSize, McpServerConfig, ServerListing, ServerStart, ServerTool, ServerTools};
pub use permission::Permission;
pub use policy::Policy;
pub use root::{Root, RootError};
pub use rules::{Rule, RuleError, Rules, ToolName};

pub(crate) use attachments::{Attachment, Attachments, has_word};
pub(crate) use command::RunCommand;
pub(crate) use files::{EditFile, NOT_READ, WriteFile};
pub(crate) use load_skill::LoadSkill;
pub(crate) use output::{RunOutcome, ToolError, WriteOutcome};
pub(crate) use subject::Subject;
pub(crate) use tool::{Entry, Tool, ToolContext};
pub(crate) use update_plan::UpdatePlan;

/// The maximum output of a tool in the conversation, in bytes.
pub(crate) const MAX_OUTPUT_BYTES: usize = 32 * 1024;

/// The variable with the path of the file for outputs: actions outside of the workspace.
pub const OUTPUTS: &str = "VIK_OUTPUTS";

/// The variable with the path of the file for a question to a person.
pub const QUESTIONS: &str = "VIK_QUESTIONS";

/// The variable with the folder for caches in the sandbox of Vik; commands may write there.
pub const CACHE: &str = "VIK_CACHE";

/// The variable with the path of the folder of pipes through which clients reach MCP servers outside
/// of the sandbox.
pub const SERVERS: &str = "VIK_SERVERS";

/// Returns every tool, in the order in which the model sees them. `load_skill` is only of use with
/// skills.
fn entries() -> Vec<(Entry, ToolDefinition)> {
    vec![
        Entry::of::<files::ReadFile>(),
        Entry::of::<files::ListDir>(),
        Entry::of::<glob::GlobFiles>(),
        Entry::of::<search::SearchFiles>(),
        Entry::of::<WriteFile>(),
        Entry::of::<EditFile>(),
        Entry::of::<patch::ApplyPatch>(),
        Entry::of::<RunCommand>(),
        Entry::of::<command::CommandOutput>(),
        Entry::of::<git::GitStatus>(),
        Entry::of::<git::GitDiff>(),
        Entry::of::<git::GitLog>(),
        Entry::of::<git::GitShow>(),
        Entry::of::<git::GitCommit>(),
        Entry::of::<UpdatePlan>(),
        Entry::of::<fetch::WebFetch>(),
        Entry::of::<LoadSkill>(),
    ]
}

/// Returns the canonical name of a tool with this name or alias.
fn canonical(written: &str) -> Option<Cow<'static, str>> {
    let name = tool_name(written);
    let known = |(entry, _): (Entry, ToolDefinition)| entry.is_called(&name).then_some(entry.name);
    entries().into_iter().find_map(known)
}

/// The tools of one run.
pub struct Toolbox {
    entries: Vec<Entry>,
    /// The definitions of the entries, in the same order.
    definitions: Vec<ToolDefinition>,
    /// How many of them the model gets; no rule allows the others.
    offered: usize,
    root: Root,
    files: FileMemory,
    plan: Plan,
    policy: Policy,
    servers: Option<mcp::McpServers>,
    runner: command::Runner,
    processes: command::BackgroundCommands,
}

impl Toolbox {
    /// Creates the tools of the policy, in this workspace, with its permission.
    pub fn new(root: Root, policy: impl Into<Policy>) -> Self {
        let policy = policy.into();
        let root = root.with_readable(policy.skills.iter().map(|skill| skill.path.clone()));
        let is_given = |(entry, _): &(Entry, ToolDefinition)| {
            policy.gives(&entry.name) && (entry.name != LoadSkill::NAME || !policy.skills.is_empty())
        };
        let (entries, definitions): (Vec<_>, Vec<_>) = entries().into_iter().filter(is_given).unzip();
        Self {
            offered: entries.len(),
            servers: None,
            entries,
            definitions,
            runner: command::Runner::new(&root, &policy),
            processes: command::BackgroundCommands::default(),
            root,
            policy,
            files: FileMemory::default(),
            plan: Plan::default(),
        }
    }

    pub fn skills(&self) -> &Skills {
        &self.policy.skills
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the confinement of the commands of this run: `landlock` and its version, or `none`
    /// and why.
    ///
    /// # Errors
    /// When a sandbox is required and unavailable.
    pub fn sandbox(&self) -> Result<String, String> {
        let confinement = self.runner.confinement();
        match confinement.fence() {
            Err(why) if self.policy.sandbox_required => Err(format!("there is no sandbox: {why}")),
            _ => Ok(confinement.description()),
        }
    }

    /// Runs a command of the user, such as `--verify`, like a command of the model, but without
    /// checking rules. Returns its exit code, unless it was stopped, and its output, bounded and
    /// redacted.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run_for_user(
        &self,
        line: &str,
        timeout: Duration,
        interrupt: &Interrupt,
    ) -> std::io::Result<(Option<i32>, String)> {
        let run = command::Run {
            line,
            cwd: self.root.path(),
            timeout,
            stdin: None,
            terminal: false,
            trusted: false,
        };
        let (kept, ended) = self.runner.run(run, interrupt)?;
        let ran = command::report(line.to_owned(), kept.into_text(false), &ended, timeout);
        Ok((ran.exit_code, redact(&ran.text).into_owned()))
    }

    /// Returns the definitions for the model.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions[..self.offered]
    }

    /// Adds a tool that is known only at run time. One that is not offered is known by its name, so
    /// that a call is denied with the reason.
    fn add(&mut self, entry: Entry, definition: ToolDefinition, offered: bool) {
        let at = if offered { self.offered } else { self.entries.len() };
        self.entries.insert(at, entry);
        self.definitions.insert(at, definition);
        self.offered += usize::from(offered);
    }

    pub fn permission(&self) -> Permission {
        self.policy.permission
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Ends all commands that run in the background, and waits for their ends.
    pub(crate) fn stop_background_commands(&self) {
        self.processes.stop_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_schema::JsonSchema;
    use serde_json::json;

    #[test]
    fn tool_schemas_are_valid() {
        for (_, tool) in entries() {
            let checked = JsonSchema::new(&tool.input_schema).unwrap();
            let built_in = JsonSchema::built_in(&tool.input_schema).unwrap();
            for value in [
                json!({"unknown": 1}),
                json!([]),
                json!({"path": 7, "command": true}),
            ] {
                assert_eq!(
                    checked.violations(&value),
                    built_in.violations(&value),
                    "{}",
                    tool.name
                );
            }
        }
    }

    #[test]
    fn tool_definitions_are_short() {
        let definitions: Vec<_> = entries()
            .into_iter()
            .map(|(_, tool)| json!({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}))
            .collect();
        let length = serde_json::to_string(&definitions).unwrap().len();
        assert!(length < 6 * 1024, "{length} bytes");
    }
}
