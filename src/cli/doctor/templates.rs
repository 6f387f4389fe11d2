//! Prompts and scripts: all that can be said of their text, and whether they render.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use vik_core::ids::{RunId, SessionId};
use vik_core::issue::Issue;
use vik_core::scheduler::Start;
use vik_core::workflow::{Diagnostic, Loaded, PromptSource, Stage, Workflow};

use super::check::{Check, FileFindings, Group};
use super::probe::{self, Scratch};
use crate::host::Host;
use crate::session::{issue_context, stage_context};
use crate::template::{self, AFTER_CREATE_NAMES, AFTER_RUN_NAMES, NAMES, TemplateError};

/// The longest prompt file that is looked at, in bytes.
const MAX_PROMPT_FILE_BYTES: u64 = 1024 * 1024;

/// Which template it is, and so what it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Prompt,
    AfterCreate,
    BeforeRemove,
    BeforeRun,
    Verify,
    AfterRun,
}

impl Kind {
    fn names(self) -> &'static [&'static str] {
        match self {
            // An issue's workspace is made and removed outside of any attempt.
            Self::AfterCreate | Self::BeforeRemove => AFTER_CREATE_NAMES,
            Self::Prompt | Self::BeforeRun | Self::Verify => NAMES,
            Self::AfterRun => AFTER_RUN_NAMES,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::AfterCreate => "after_create",
            Self::BeforeRemove => "before_remove",
            Self::BeforeRun => "before_run",
            Self::Verify => "verify",
            Self::AfterRun => "after_run",
        }
    }
}

/// One template of a workflow, with its text.
#[derive(Debug)]
pub(super) struct Source<'w> {
    kind: Kind,
    stage: Option<&'w Stage>,
    /// Where the workflow writes it, or its file's name.
    path: String,
    /// The prompt file.
    file: Option<PathBuf>,
    text: String,
    /// Whether nothing is wrong with its text.
    sound: bool,
}

/// All templates of a workflow, with what is wrong with their texts.
pub(super) struct Sources<'w> {
    pub(super) all: Vec<Source<'w>>,
    /// Findings that belong into the workflow file.
    pub(super) workflow: Vec<Diagnostic>,
    /// Findings within prompt files.
    pub(super) files: Vec<FileFindings>,
}

impl<'w> Sources<'w> {
    /// Reads the prompt files and checks every template.
    pub(super) fn read(workflow: &'w Workflow, loaded: &Loaded, workflow_dir: &Path) -> Self {
        let mut sources = Self {
            all: Vec::new(),
            workflow: Vec::new(),
            files: Vec::new(),
        };
        let issue = &workflow.issue;
        let hooks = [
            (Kind::AfterCreate, &issue.after_create),
            (Kind::BeforeRemove, &issue.before_remove),
        ];
        for (kind, text) in hooks {
            if let Some(text) = text {
                sources.inline(kind, None, format!("issue.hooks.{}", kind.word()), text, loaded);
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
                        workflow_dir.join(file),
                        loaded,
                    );
                }
            }
            for (kind, text, path) in [before, verify, after] {
                if let Some(text) = text {
                    sources.inline(kind, Some(stage), path, text, loaded);
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
                Some(line) => finding.at_line(loaded, u32::try_from(line).unwrap_or(u32::MAX), None),
                None => finding.at(loaded),
            }
        }));
        let sound = errors.is_empty();
        self.all.push(Source {
            kind,
            stage,
            path,
            file: None,
            text: text.to_owned(),
            sound,
        });
    }

    fn file(&mut self, stage: &'w Stage, path: String, file: PathBuf, loaded: &Loaded) {
        let text = match read_text(&file) {
            Ok(text) => text,
            Err(error) => {
                let missing = error.kind() == io::ErrorKind::NotFound;
                let (code, message, hint) = if missing {
                    (
                        "prompt_file_missing",
                        "there is no such file".to_owned(),
                        "the path starts at the folder of the workflow file",
                    )
                } else {
                    (
                        "prompt_file_unreadable",
                        error.to_string(),
                        "a prompt is a text file that this user may read",
                    )
                };
                let message = format!("the prompt file {} cannot be read: {message}", file.display());
                self.workflow
                    .push(Diagnostic::error(code, path, message).hint(hint).at(loaded));
                return;
            }
        };
        if text.trim().is_empty() {
            let message = format!("the prompt file {} is empty", file.display());
            let finding = Diagnostic::warning("prompt_empty", path.as_str(), message);
            self.workflow.push(
                finding
                    .hint("an agent without a prompt has nothing to do")
                    .at(loaded),
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
            sound,
        });
    }
}

/// The stages' prompt files are people's: anything may stand there.
fn read_text(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if metadata.len() > MAX_PROMPT_FILE_BYTES {
        return Err(io::Error::other(format!(
            "it is larger than {MAX_PROMPT_FILE_BYTES} bytes"
        )));
    }
    fs::read_to_string(path)
}

fn check(kind: Kind, text: &str) -> Vec<TemplateError> {
    match kind {
        Kind::Prompt => template::check_prompt(text, kind.names()),
        _ => template::check_script(text, kind.names()),
    }
}

fn code(error: &TemplateError) -> &'static str {
    match error {
        TemplateError::Syntax { .. } => "template_syntax",
        TemplateError::Undefined { .. } => "template_undefined",
        TemplateError::Refused { .. } => "template_refused",
        TemplateError::Failed { .. } => "template_failed",
        TemplateError::Nul { .. } => "template_nul",
        TemplateError::TooLong { .. } => "template_too_long",
    }
}

fn finding(error: &TemplateError, path: &str) -> Diagnostic {
    let finding = Diagnostic::error(code(error), path, error.message());
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

/// Where an issue to try templates with comes from.
#[derive(Clone, Debug)]
pub(super) enum Sample {
    /// The tracker gave it.
    Pulled(Issue),
    /// It is made up, with every field that an issue is documented to have.
    MadeUp(Issue),
}

impl Sample {
    /// An issue in this state.
    pub(super) fn of(state: &str, pulled: &[Issue]) -> Option<Self> {
        match pulled.iter().find(|issue| &*issue.state == state) {
            Some(issue) => Some(Self::Pulled(issue.clone())),
            None => made_up(state).map(Self::MadeUp),
        }
    }

    fn issue(&self) -> &Issue {
        match self {
            Self::Pulled(issue) | Self::MadeUp(issue) => issue,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Pulled(issue) => format!("issue {}", crate::report::one_line(issue.id.as_str(), 40)),
            Self::MadeUp(_) => "a made-up issue".to_owned(),
        }
    }
}

fn made_up(state: &str) -> Option<Issue> {
    let item = json!({
        "id": "1",
        "title": "A sample issue",
        "state": state,
        "description": "What is to be done.",
        "priority": 1,
        "created_at": "2026-01-01T00:00:00Z",
        "blocked_by": [],
        "labels": [],
        "url": "https://example.invalid/issues/1",
    });
    Issue::parse(&item.to_string()).ok()
}

/// A template that was rendered, or not.
pub(super) struct Rendered {
    pub(super) check: Check,
    /// The finished script, where it is one.
    script: Option<String>,
}

impl Rendered {
    /// The check, after a look at the script by the shell, which reads it and runs nothing of it.
    pub(super) async fn check(
        self,
        host: &Host,
        scratch: Option<&Scratch>,
        cancel: &CancellationToken,
    ) -> Check {
        let (Some(script), Some(scratch)) = (self.script, scratch) else {
            return self.check;
        };
        match probe::shell_syntax(host, scratch, &script, cancel).await {
            None => self.check,
            Some(said) => {
                let message = format!("the shell cannot read the rendered script: {said}");
                Check::error(Group::Templates, self.check.check, "shell_syntax", message)
                    .hint("lines are those of the rendered script; `vik run --dry-run` shows it")
            }
        }
    }
}

/// Renders every sound template, as `run` would, against an issue in the state that its stage takes.
pub(super) fn render(
    host: &Host,
    workflow: &Workflow,
    sources: &Sources<'_>,
    pulled: &[Issue],
) -> Vec<Rendered> {
    let sound = sources.all.iter().filter(|source| source.sound);
    sound
        .filter_map(|source| render_one(host, workflow, source, pulled))
        .collect()
}

fn render_one(host: &Host, workflow: &Workflow, source: &Source<'_>, pulled: &[Issue]) -> Option<Rendered> {
    // A workspace belongs to no stage: any issue that some stage takes will do.
    let stages = &workflow.issue.stages;
    let taken = || {
        stages
            .iter()
            .find(|stage| pulled.iter().any(|issue| *issue.state == *stage.when_state))
    };
    let stage = source.stage.or_else(taken).or_else(|| stages.first())?;
    let sample = Sample::of(&stage.when_state, pulled)?;
    let context = context(host, source.kind, stage, sample.issue());
    let word = source.kind.word();
    let check = match source.stage {
        Some(stage) => format!("{word}.{}", stage.name),
        None => word.to_owned(),
    };
    let mut finished = None;
    let rendered = match source.kind {
        Kind::Prompt => template::prompt(&source.text, &context).map(|prompt| {
            let length: usize = prompt.join(std::iter::empty::<&str>()).chars().count();
            match prompt.commands().count() {
                0 => format!("{length} characters"),
                1 => format!("{length} characters and the output of a command"),
                n => format!("{length} characters and the output of {n} commands"),
            }
        }),
        _ => template::script(&source.text, &context).map(|script| {
            let lines = script.trim().lines().count();
            finished = Some(script);
            if lines == 1 {
                "1 line".to_owned()
            } else {
                format!("{lines} lines")
            }
        }),
    };
    let name = sample.name();
    let check = match rendered {
        Ok(what) => Check::ok(Group::Templates, check, format!("renders with {name} ({what})")),
        Err(error) => {
            let message = format!("{} cannot be rendered with {name}: {error}", place(source));
            let failed = match sample {
                Sample::Pulled(_) => Check::error(Group::Templates, check, code(&error), message),
                // A real issue may have fields that nobody can guess.
                Sample::MadeUp(_) => Check::warning(Group::Templates, check, code(&error), message),
            };
            let may_be = "fields that some issues lack are tested with `{% if issue.name is defined %}`";
            match (error.hint(), &error) {
                (Some(hint), TemplateError::Undefined { name, .. }) if name.starts_with("issue.") => {
                    failed.hint(format!("{hint}; {may_be}"))
                }
                (Some(hint), _) => failed.hint(hint),
                (None, TemplateError::Undefined { .. }) => failed.hint(may_be),
                (None, _) => failed,
            }
        }
    };
    Some(Rendered {
        check,
        script: finished,
    })
}

fn place(source: &Source<'_>) -> String {
    source
        .file
        .as_ref()
        .map_or_else(|| source.path.clone(), |file| file.display().to_string())
}

fn context(host: &Host, kind: Kind, stage: &Stage, issue: &Issue) -> Value {
    let workdir = host.layout.issue_dir(&issue.id);
    if matches!(kind, Kind::AfterCreate | Kind::BeforeRemove) {
        return issue_context(host, issue, &workdir).into();
    }
    let nil = uuid::Uuid::nil();
    let start = Start {
        issue: issue.clone(),
        stage: stage.clone(),
        run: RunId(nil),
        session: SessionId(nil),
        attempt: 1,
        previous: None,
    };
    let mut context = stage_context(host, &start, &workdir);
    if kind == Kind::AfterRun {
        let log = host.layout.issue_sessions_dir(&issue.id).join("sample.jsonl");
        let log = log.to_string_lossy();
        let session = json!({
            "id": nil, "outcome": "succeeded", "failure_class": "", "reason": "", "exit_code": 0, "last_message": "",
            "usage": {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}, "cost": null,
            "cost_usd": null, "log": log, "log_path": log, "result": null,
        });
        context.insert("session".to_owned(), session);
    }
    context.into()
}
