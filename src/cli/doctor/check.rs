//! A single check of `doctor`, and the result of all checks.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::Serialize;
use vik_base::report::{Exit, Failure};
use vik_workflow::FileFindings;
use vik_workflow_reader::{Diagnostic, Severity};

/// The name of the check of the workflow file as a whole.
pub(super) const WORKFLOW: &str = "workflow";
/// The name of the check of the pull command.
pub(super) const PULL: &str = "pull";

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No problem was found.
    Ok,
    /// Work is possible, but probably not as intended. `--strict` treats it as an error.
    Warning,
    /// `run` will not work as intended.
    Error,
}

/// The name of the check of all calls by `--probe`, and the prefix of the names of each.
pub(super) const PROBE: &str = "probe";

/// The heading under which a check is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    Workflow,
    Templates,
    Agents,
    Secrets,
    Issues,
    Notifiers,
    #[cfg(feature = "temporal")]
    Engine,
    Folders,
    System,
}

impl Group {
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Workflow => "Workflow",
            Self::Templates => "Prompts and hooks",
            Self::Agents => "Agents",
            Self::Secrets => "Secrets",
            Self::Issues => "Issues",
            Self::Notifiers => "Notifiers",
            #[cfg(feature = "temporal")]
            Self::Engine => "Machines",
            Self::Folders => "Folders and daemon",
            Self::System => "System",
        }
    }
}

/// A tool that an MCP server lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerTool {
    /// The name that the server gives it.
    pub name: String,
    /// Whether agents may call it.
    pub permitted: bool,
}

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The name of the check, such as `agent.codex`.
    pub check: String,
    pub status: Status,
    /// A stable code for scripts; absent if no problem was found.
    pub code: Option<Cow<'static, str>>,
    pub message: String,
    /// How to solve the problem.
    pub hint: Option<String>,
    /// The tools of an MCP server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ServerTool>,
    #[serde(skip)]
    pub(super) group: Group,
}

impl Check {
    fn new(
        (group, status): (Group, Status),
        check: impl Into<String>,
        code: Option<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            check: check.into(),
            status,
            code,
            message: message.into(),
            hint: None,
            tools: Vec::new(),
            group,
        }
    }

    pub(super) fn ok(group: Group, check: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new((group, Status::Ok), check, None, message)
    }

    pub(super) fn warning(
        group: Group,
        check: impl Into<String>,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self::new((group, Status::Warning), check, Some(code.into()), message)
    }

    pub(super) fn error(
        group: Group,
        check: impl Into<String>,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self::new((group, Status::Error), check, Some(code.into()), message)
    }

    /// Returns a failure of another part of Vik as an error.
    pub(super) fn failure(group: Group, check: impl Into<String>, failure: &Failure) -> Self {
        let body = failure.body();
        Self {
            hint: body.hint,
            ..Self::error(group, check, body.code, body.message)
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The results of all checks.
#[derive(Debug)]
pub struct Examination {
    pub workflow_path: PathBuf,
    /// Whether commands were skipped.
    pub offline: bool,
    /// Findings within the workflow file and the prompt files.
    pub files: Vec<FileFindings>,
    pub checks: Vec<Check>,
    /// States of the workflow that the tracker lacks, and can create.
    pub missing_states: Vec<String>,
}

impl Examination {
    /// Returns the findings of all files.
    pub fn findings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.files.iter().flat_map(|file| &file.findings)
    }

    /// Returns the exit code. With `strict`, a warning counts as an error.
    pub fn exit(&self, strict: bool) -> Exit {
        let bad = |status: Status| status == Status::Error || (strict && status == Status::Warning);
        let invalid = self
            .findings()
            .any(|finding| strict || finding.severity == Severity::Error)
            || self
                .checks
                .iter()
                .any(|check| check.check == WORKFLOW && bad(check.status));
        if invalid {
            return Exit::Workflow;
        }
        let pull_failed = |check: &Check| check.check == PULL && check.status == Status::Error;
        if self
            .checks
            .iter()
            .any(|check| bad(check.status) && !pull_failed(check))
        {
            Exit::Failed
        } else if self.checks.iter().any(pull_failed) {
            Exit::NotFound
        } else {
            Exit::Done
        }
    }

    /// Returns the number of errors and of warnings, in findings and checks.
    pub fn counts(&self) -> (usize, usize) {
        // The check of the file only summarises its findings.
        let checks = self
            .checks
            .iter()
            .filter(|check| check.check != WORKFLOW || self.files.is_empty());
        let (mut errors, mut warnings) = (0, 0);
        let statuses = checks
            .map(|check| check.status)
            .chain(self.findings().map(|finding| match finding.severity {
                Severity::Error => Status::Error,
                Severity::Warning => Status::Warning,
            }));
        for status in statuses {
            match status {
                Status::Ok => {}
                Status::Warning => warnings += 1,
                Status::Error => errors += 1,
            }
        }
        (errors, warnings)
    }
}
