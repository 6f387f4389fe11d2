//! The real agent CLIs (`npm ci --prefix tests/agents`) and MCP servers, if they are installed.

use std::io::Write;
use std::path::PathBuf;

use crate::bins::workspace;

/// An agent CLI whose version is pinned under `tests/agents`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealAgent {
    Codex,
    Claude,
}

impl RealAgent {
    /// Returns the name of the command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Claude => "claude",
        }
    }

    /// Returns the command that npm links: a Node program for Codex, the program itself for Claude
    /// Code.
    pub fn installed(self) -> Option<PathBuf> {
        let path = workspace()
            .join("tests/agents/node_modules/.bin")
            .join(self.name());
        path.exists().then_some(path)
    }

    /// Returns the native program, without a Node process that would receive the signals.
    pub fn native(self) -> Option<PathBuf> {
        if self == Self::Claude {
            return std::fs::canonicalize(self.installed()?).ok();
        }
        let packages = std::fs::read_dir(workspace().join("tests/agents/node_modules/@openai")).ok()?;
        let vendors = packages
            .flatten()
            .filter_map(|package| std::fs::read_dir(package.path().join("vendor")).ok());
        vendors
            .flatten()
            .flatten()
            .map(|vendor| vendor.path().join("bin/codex"))
            .find(|path| path.is_file())
    }

    /// Like [`RealAgent::installed`]; if it is missing, reports that the test is skipped.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed and `VIK_REQUIRE_REAL_AGENTS` is set, so that CI skips nothing
    /// silently.
    pub fn or_skip(self) -> Option<PathBuf> {
        let found = self.installed();
        if found.is_none() {
            let hint = "npm ci --prefix tests/agents";
            let required = std::env::var_os("VIK_REQUIRE_REAL_AGENTS").is_some();
            assert!(!required, "the test needs {}: {hint}", self.name());
            report_skipped(&format!("{} is not installed ({hint})", self.name()));
        }
        found
    }
}

/// An MCP server whose version is pinned under `tests/mcp-servers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealMcpServer {
    Everything,
    Filesystem,
    Memory,
    Git,
    Time,
}

impl RealMcpServer {
    /// Returns the command that npm or pip installs; if it is missing, reports that the test is
    /// skipped.
    pub fn or_skip(self) -> Option<PathBuf> {
        let folder = workspace().join("tests/mcp-servers");
        let (bin, name) = match self {
            Self::Everything => ("node_modules/.bin", "mcp-server-everything"),
            Self::Filesystem => ("node_modules/.bin", "mcp-server-filesystem"),
            Self::Memory => ("node_modules/.bin", "mcp-server-memory"),
            Self::Git => ("venv/bin", "mcp-server-git"),
            Self::Time => ("venv/bin", "mcp-server-time"),
        };
        let path = folder.join(bin).join(name);
        if !path.exists() {
            report_skipped(&format!("{name} is not installed (cargo xtask test installs it)"));
            return None;
        }
        Some(path)
    }
}

/// Prints that the running test is skipped, where `cargo xtask test` finds it.
pub fn report_skipped(reason: &str) {
    // Not `eprintln!`, which the test runner captures.
    let _ = writeln!(std::io::stderr(), "skipped: {}: {reason}", test_name());
}

/// Returns the name of the running test, without its modules: that of its thread.
pub fn test_name() -> String {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    name.rsplit("::").next().unwrap_or(name).to_owned()
}
