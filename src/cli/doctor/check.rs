//! One thing that was looked at, and all of them together.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::Serialize;
use vik_core::workflow::{Diagnostic, Severity};

use crate::report::{Exit, Failure};
use crate::workflow_file::FileFindings;

/// The check of the workflow file as a whole.
pub(super) const WORKFLOW: &str = "workflow";
/// The check of the pull command.
pub(super) const PULL: &str = "pull";

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Work is possible, but likely not as meant; `--strict` takes it for an error.
    Warning,
    /// `run` will not do what it should.
    Error,
}

/// Under which heading a check is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    Workflow,
    Templates,
    Agents,
    Secrets,
    Issues,
    Notifiers,
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
            Self::Folders => "Folders and daemon",
            Self::System => "System",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was looked at, such as `agent.codex`.
    pub check: String,
    /// How it went.
    pub status: Status,
    /// Stable, for scripts; absent when all is well.
    pub code: Option<Cow<'static, str>>,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    #[serde(skip)]
    pub(super) group: Group,
}

impl Check {
    fn new(group: Group, check: impl Into<String>, status: Status, message: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            status,
            code: None,
            message: message.into(),
            hint: None,
            group,
        }
    }

    pub(super) fn ok(group: Group, check: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(group, check, Status::Ok, message)
    }

    pub(super) fn warning(
        group: Group,
        check: impl Into<String>,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code: Some(code.into()),
            ..Self::new(group, check, Status::Warning, message)
        }
    }

    pub(super) fn error(
        group: Group,
        check: impl Into<String>,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code: Some(code.into()),
            ..Self::new(group, check, Status::Error, message)
        }
    }

    /// What another part of Vik has to say, as an error.
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

/// All that was looked at.
#[derive(Debug)]
pub struct Examination {
    /// The workflow file.
    pub workflow_path: PathBuf,
    /// Whether no command was run.
    pub offline: bool,
    /// Findings within the workflow file and the prompt files.
    pub files: Vec<FileFindings>,
    /// The checks.
    pub checks: Vec<Check>,
}

impl Examination {
    /// All findings.
    pub fn findings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.files.iter().flat_map(|file| &file.findings)
    }

    /// The exit code; with `strict`, a warning counts as an error.
    pub fn exit(&self, strict: bool) -> Exit {
        let bad = |status: Status| status == Status::Error || (strict && status == Status::Warning);
        let invalid = self
            .findings()
            .any(|one| strict || one.severity == Severity::Error)
            || self
                .checks
                .iter()
                .any(|one| one.check == WORKFLOW && bad(one.status));
        if invalid {
            return Exit::Workflow;
        }
        let pull_failed = |one: &Check| one.check == PULL && one.status == Status::Error;
        if self.checks.iter().any(|one| bad(one.status) && !pull_failed(one)) {
            Exit::Failed
        } else if self.checks.iter().any(pull_failed) {
            Exit::NotFound
        } else {
            Exit::Done
        }
    }

    /// How many findings and checks are errors, and how many are warnings.
    pub fn counts(&self) -> (usize, usize) {
        // The check of the file only sums its findings up.
        let checks = self
            .checks
            .iter()
            .filter(|one| one.check != WORKFLOW || self.files.is_empty());
        let (mut errors, mut warnings) = (0, 0);
        let statuses = checks
            .map(|one| one.status)
            .chain(self.findings().map(|one| match one.severity {
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
