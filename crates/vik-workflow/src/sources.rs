//! The templates of a workflow, and the findings about their texts that need no execution.

use std::io;
use std::path::{Path, PathBuf};

use vik_core::workflow::{PromptSource, Stage, Workflow};
use vik_template::{
    self, AFTER_CREATE_NAMES, AFTER_RUN_NAMES, NAMES, OUTPUT_NAMES, SHOW_NAMES, TemplateError,
};
use vik_workflow_reader::{Diagnostic, Loaded};
use vik_workspace::resolve_path;

/// The findings in one file.
#[derive(Clone, Debug)]
pub struct FileFindings {
    pub file: PathBuf,
    pub text: String,
    /// The findings, in the order of the file.
    pub findings: Vec<Diagnostic>,
}

/// The kind of a template, which determines its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Show,
    Prompt,
    ResumePrompt,
    AfterCreate,
    BeforeRemove,
    BeforeRun,
    Verify,
    AfterRun,
    /// A command of an output.
    Output,
}

impl Kind {
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Show => SHOW_NAMES,
            // A workspace is created and removed outside of any attempt.
            Self::AfterCreate | Self::BeforeRemove => AFTER_CREATE_NAMES,
            Self::Prompt | Self::ResumePrompt | Self::BeforeRun | Self::Verify => NAMES,
            Self::AfterRun => AFTER_RUN_NAMES,
            Self::Output => OUTPUT_NAMES,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Show => "show",
            Self::Prompt => "prompt",
            Self::ResumePrompt => "resume_prompt",
            Self::AfterCreate => "after_create",
            Self::BeforeRemove => "before_remove",
            Self::BeforeRun => "before_run",
            Self::Verify => "verify",
            Self::AfterRun => "after_run",
            Self::Output => "output",
        }
    }
}

/// One template of a workflow, with its text.
#[derive(Debug)]
pub struct Source<'w> {
    pub kind: Kind,
    pub stage: Option<&'w Stage>,
    /// The key in the workflow, or the name of the file.
    pub path: String,
    pub file: Option<PathBuf>,
    pub text: String,
    /// Whether its text has no findings.
    pub is_valid: bool,
}

/// All templates of a workflow, with the findings about their texts.
pub struct Sources<'w> {
    pub all: Vec<Source<'w>>,
    /// The findings that belong to the workflow file.
    pub workflow: Vec<Diagnostic>,
    /// The findings in prompt files.
    pub files: Vec<FileFindings>,
}

impl<'w> Sources<'w> {
    /// Returns the text of a prompt that was read.
    pub fn prompt(&self, prompt: &PromptSource, workflow_dir: &Path) -> Option<String> {
        match prompt {
            PromptSource::Inline(text) => Some(text.clone()),
            PromptSource::File(name) => {
                let file = workflow_dir.join(name);
                let source = self.all.iter().find(|source| source.file.as_ref() == Some(&file));
                source.map(|source| source.text.clone())
            }
        }
    }

    /// Reads the prompt files and checks every template.
    pub fn read(workflow: &'w Workflow, loaded: &Loaded, workflow_dir: &Path) -> Self {
        let mut sources = Self {
            all: Vec::new(),
            workflow: Vec::new(),
            files: Vec::new(),
        };
        if let Some(show) = &workflow.show {
            let path = "issues.show.command".to_owned();
            sources.inline(Kind::Show, None, path, &show.command, loaded);
        }
        let issue = &workflow.issue;
        let hooks = [
            (Kind::AfterCreate, &issue.after_create),
            (Kind::BeforeRemove, &issue.before_remove),
        ];
        for (kind, text) in hooks {
            if let Some(text) = text {
                sources.inline(kind, None, format!("issue.hooks.{}", kind.name()), text, loaded);
            }
        }
        for stage in &issue.stages {
            let at = format!("issue.stages.{}", stage.name);
            let before = (
                Kind::BeforeRun,
                &stage.before_run,
                format!("{at}.hooks.before_run"),
            );
            let verify = (Kind::Verify, &stage.verify, format!("{at}.verify"));
            let after = (Kind::AfterRun, &stage.after_run, format!("{at}.hooks.after_run"));
            match &stage.prompt {
                PromptSource::Inline(text) => {
                    sources.inline(Kind::Prompt, Some(stage), format!("{at}.prompt"), text, loaded);
                }
                PromptSource::File(file) => {
                    sources.file(
                        stage,
                        format!("{at}.prompt_file"),
                        resolve_path(workflow_dir, file),
                        loaded,
                    );
                }
            }
            let resume = (
                Kind::ResumePrompt,
                &stage.resume_prompt,
                format!("{at}.resume_prompt"),
            );
            for (kind, text, path) in [resume, before, verify, after] {
                if let Some(text) = text {
                    sources.inline(kind, Some(stage), path, text, loaded);
                }
            }
            let rules = stage.outputs.iter().flat_map(|outputs| &outputs.rules);
            for (kind, rule) in rules {
                for (key, text) in [("run", Some(&rule.run)), ("check", rule.check.as_ref())] {
                    if let Some(text) = text {
                        let path = format!("{at}.outputs.{kind}.{key}");
                        sources.inline(Kind::Output, Some(stage), path, text, loaded);
                    }
                }
            }
        }
        sources
    }

    fn inline(&mut self, kind: Kind, stage: Option<&'w Stage>, path: String, text: &str, loaded: &Loaded) {
        let errors = check(kind, text);
        self.workflow.extend(errors.iter().map(|error| {
            let finding = finding(error, &path);
            match error.line() {
                Some(line) => {
                    finding.at_line(loaded.document(), u32::try_from(line).unwrap_or(u32::MAX), None)
                }
                None => finding.at(loaded.document()),
            }
        }));
        let sound = errors.is_empty();
        self.all.push(Source {
            kind,
            stage,
            path,
            file: None,
            text: text.to_owned(),
            is_valid: sound,
        });
    }

    fn file(&mut self, stage: &'w Stage, path: String, file: PathBuf, loaded: &Loaded) {
        let text = match super::read_text(&file) {
            Ok(text) => text,
            Err(error) => {
                let missing = error.kind() == io::ErrorKind::NotFound;
                let (code, message, hint) = if missing {
                    (
                        "prompt_file_missing",
                        "no such file".to_owned(),
                        "the path is relative to the folder of the workflow file",
                    )
                } else {
                    (
                        "prompt_file_unreadable",
                        error.to_string(),
                        "a prompt must be a readable text file",
                    )
                };
                let message = format!("cannot read the prompt file {}: {message}", file.display());
                self.workflow.push(
                    Diagnostic::error(code, path, message)
                        .hint(hint)
                        .at(loaded.document()),
                );
                return;
            }
        };
        if text.trim().is_empty() {
            let message = format!("the prompt file {} is empty", file.display());
            let finding = Diagnostic::warning("prompt_empty", path.as_str(), message);
            self.workflow.push(
                finding
                    .hint("write the agent's task into the file")
                    .at(loaded.document()),
            );
        }
        let errors = check(Kind::Prompt, &text);
        let sound = errors.is_empty();
        // A prompt that several stages use is reported once.
        if !sound && !self.files.iter().any(|known| known.file == file) {
            let findings = errors
                .iter()
                .map(|error| in_file(finding(error, &path), error, &text))
                .collect();
            self.files.push(FileFindings {
                file: file.clone(),
                text: text.clone(),
                findings,
            });
        }
        self.all.push(Source {
            kind: Kind::Prompt,
            stage: Some(stage),
            path,
            file: Some(file),
            text,
            is_valid: sound,
        });
    }
}

fn check(kind: Kind, text: &str) -> Vec<TemplateError> {
    match kind {
        Kind::Prompt | Kind::ResumePrompt => vik_template::check_prompt(text, kind.names()),
        _ => vik_template::check_script(text, kind.names()),
    }
}

fn finding(error: &TemplateError, path: &str) -> Diagnostic {
    let finding = Diagnostic::error(error.code(), path, error.message());
    match error.hint() {
        Some(hint) => finding.hint(hint),
        None => finding,
    }
}

fn in_file(mut finding: Diagnostic, error: &TemplateError, text: &str) -> Diagnostic {
    let line = error.line().unwrap_or(1).max(1);
    let content = text.lines().nth(line - 1).unwrap_or_default();
    let indent = content.chars().take_while(|c| c.is_whitespace()).count();
    let length = content.chars().count();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    finding.line = number(line);
    finding.column = number(indent.min(length) + 1);
    finding.end_column = number(length + 1).max(finding.column + 1);
    finding
}
