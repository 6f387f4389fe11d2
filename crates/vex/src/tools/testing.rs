//! A workspace with all tools, for tests: calls take the same path as a model's.

use std::io;
use std::path::PathBuf;

use serde_json::Value;

use super::{Permission, Policy, Root, ToolContext, Toolbox};
use crate::conversation::{ToolCall, ToolResult};
use crate::events::Journal;
use crate::interrupt::Interrupt;

pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) tools: Toolbox,
    pub(crate) journal: Journal,
    pub(crate) interrupt: Interrupt,
}

impl Bench {
    /// Creates an empty workspace in which files may be written and commands run.
    pub(crate) fn new() -> Self {
        Self::with(Permission::WorkspaceWrite)
    }

    /// Creates an empty workspace with this policy.
    pub(crate) fn with(policy: impl Into<Policy>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path(), false).unwrap();
        Self {
            dir,
            tools: Toolbox::new(root, policy),
            journal: Journal::new(true, Box::new(io::sink()), Box::new(io::sink())),
            interrupt: Interrupt::new(),
        }
    }

    /// Creates an empty workspace in which tools may change only this scope.
    pub(crate) fn scoped(globs: &[&str]) -> Self {
        let mut bench = Self::new();
        let scope = vik_scope::Scope::new(globs).unwrap();
        let root = Root::open(bench.dir.path(), false)
            .unwrap()
            .with_scope(Some(scope));
        bench.tools = Toolbox::new(root, Permission::WorkspaceWrite);
        bench
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Writes a file with its directories, without the tools.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn call(&self, tool: &str, input: Value) -> ToolResult {
        let call = ToolCall::new("c", tool, input);
        self.tools.call(&call, &self.journal, &self.interrupt)
    }

    /// Returns the output of a call that must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, tool: &str, input: Value) -> String {
        let result = self.call(tool, input);
        assert!(!result.is_error, "{}", result.output);
        result.output
    }

    /// Returns the output of a call that must fail.
    #[track_caller]
    pub(crate) fn fails(&self, tool: &str, input: Value) -> String {
        let result = self.call(tool, input);
        assert!(result.is_error, "{}", result.output);
        result.output
    }

    /// Calls a function with the context of a tool.
    pub(crate) fn with_context<T>(&self, run: impl FnOnce(&ToolContext<'_>) -> T) -> T {
        run(&self.tools.context(&self.journal, &self.interrupt))
    }

    /// Returns the files that count as changed.
    pub(crate) fn changed(&self) -> Vec<String> {
        let mut changed = Vec::new();
        self.journal
            .evidence(|evidence| changed.clone_from(&evidence.files_changed));
        changed
    }
}

/// Returns the result of a call, or of a command with this exit code.
pub(crate) fn result(call_id: &str, exit_code: Option<i32>, output: &str) -> ToolResult {
    ToolResult {
        call_id: call_id.to_owned(),
        is_error: exit_code.is_some_and(|code| code != 0),
        exit_code,
        output: output.to_owned(),
        denied: false,
    }
}
