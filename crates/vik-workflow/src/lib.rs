//! Workflow files: reads `workflow.yml` with its prompts, and detects edits.
//!
//! [`WorkflowFile::valid`] reads a workflow that is to be run, with all its templates, and returns
//! a [`LoadedWorkflow`]; later changes of the files do not affect it. [`Watch`] reports such
//! changes: a [`Reload`] is a valid workflow with its differences, or the findings of an invalid
//! one, with which the last valid workflow stays in force. What a file means is decided by
//! [`vik_core::workflow`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use vik_core::workflow::{PromptSource, Workflow};
use vik_proc::untrusted;
use vik_workflow_reader::{Diagnostic, Loaded, Severity, load, render};

mod loaded;
mod skills;
mod sources;
mod watch;

pub use loaded::{LoadedWorkflow, Prompts, Rejected};
pub use skills::{SKILL_FILE, Skill, SkillError, SkillFile};
pub use sources::FileFindings;
pub use sources::{Kind, Source, Sources};
pub use watch::{Reload, Watch};

use vik_base::report::{ErrorCode, Exit, Failure, one_line};
use vik_workspace::resolve_path;

use loaded::Texts;

/// A workflow file that was read. Its workflow may be missing if it has errors.
#[derive(Debug)]
pub struct WorkflowFile {
    pub path: PathBuf,
    pub text: String,
    /// The result of parsing it.
    pub loaded: Loaded,
    /// The findings in its prompt files; empty until they are checked.
    pub prompts: Vec<FileFindings>,
}

impl WorkflowFile {
    /// Reads the file and collects all its diagnostics.
    ///
    /// # Errors
    /// When the file cannot be read (exit 3).
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let path = absolute(path);
        let text = read_text(&path).map_err(|error| {
            let failure = Failure::new(
                Exit::Workflow,
                ErrorCode::WorkflowUnreadable,
                format!("cannot read {}", path.display()),
            )
            .with_source(&error);
            if error.kind() == io::ErrorKind::NotFound {
                failure.hint("create one with `vik init`, or name it with --workflow FILE")
            } else {
                failure
            }
        })?;
        let loaded = load(&text);
        Ok(Self {
            path,
            text,
            loaded,
            prompts: Vec::new(),
        })
    }

    /// Reads every template of the workflow and adds the findings about it.
    pub fn check_templates<'w>(&mut self, workflow: &'w Workflow) -> Sources<'w> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let mut sources = Sources::read(workflow, &self.loaded, folder);
        self.loaded.add(std::mem::take(&mut sources.workflow));
        self.prompts = std::mem::take(&mut sources.files);
        let zones = time_zones(workflow, &self.loaded);
        self.loaded.add(zones);
        let skills = skills::check(workflow, &self.loaded, folder);
        self.loaded.add(skills);
        sources
    }

    /// Reads a workflow that is to be run, including its templates and prompt files, so that known
    /// errors are found before the start. Warnings go to the given sink, as text for people.
    ///
    /// # Errors
    /// With all its diagnostics when it is not valid (exit 3).
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_workflow::WorkflowFile;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("workflow.yml");
    /// let text = "
    /// issues: { pull: { command: ./list-issues } }
    /// agents: { coder: { runtime: command, command: [agent] } }
    /// issue: { stages: { plan: { when: { state: todo }, agent: coder, prompt: Do it. } } }
    /// ";
    /// std::fs::write(&path, text)?;
    /// let loaded = WorkflowFile::valid(&path, |warnings| eprint!("{warnings}")).unwrap();
    /// assert_eq!(loaded.workflow.issue.stages[0].name.as_str(), "plan");
    ///
    /// std::fs::write(&path, text.replace("agent: coder", "agent: codre"))?;
    /// let failure = WorkflowFile::valid(&path, |_| {}).unwrap_err();
    /// assert_eq!(failure.code(), "workflow_invalid");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn valid(path: &Path, warn: impl FnOnce(&str)) -> Result<LoadedWorkflow, Failure> {
        let (result, _) = Self::load(path, vik_base::report::colored(&io::stderr()), warn);
        result.map_err(|rejected| rejected.failure)
    }

    /// Reads like [`WorkflowFile::valid`], and also returns the texts that were read, in case of an
    /// error too.
    fn load(path: &Path, color: bool, warn: impl FnOnce(&str)) -> (Result<LoadedWorkflow, Rejected>, Texts) {
        let loaded_at = Timestamp::now();
        let mut file = match Self::read(path) {
            Ok(file) => file,
            Err(failure) => {
                let rejected = Rejected {
                    at: loaded_at,
                    findings: vec![one_line(&failure.body().message, 300)],
                    failure,
                };
                return (Err(rejected), Texts::from([(absolute(path), None)]));
            }
        };
        let mut texts = Texts::from([(file.path.clone(), Some(file.text.clone()))]);
        let mut prompts = BTreeMap::new();
        if let Some(draft) = file.loaded.draft().cloned() {
            let folder = file.path.parent().unwrap_or(Path::new("/")).to_owned();
            let named = draft.issue.stages.iter().filter_map(|stage| match &stage.prompt {
                PromptSource::File(name) => Some(name),
                PromptSource::Inline(_) => None,
            });
            let read = file.check_templates(&draft).all;
            for name in named {
                let path = resolve_path(&folder, name);
                let source = read.iter().find(|source| source.file.as_ref() == Some(&path));
                let text = source.map(|source| source.text.clone());
                prompts.extend(text.clone().map(|text| (name.clone(), text)));
                texts.insert(path, text);
            }
        }
        let text = file.diagnostics(color);
        let findings = file.errors();
        let result = match file.loaded.workflow {
            Some(workflow) if file.prompts.is_empty() => {
                if !text.is_empty() {
                    warn(&text);
                }
                Ok(LoadedWorkflow {
                    path: file.path,
                    workflow: Arc::new(workflow),
                    prompts: Arc::new(Prompts(prompts)),
                    loaded_at,
                    texts: texts.clone(),
                })
            }
            _ => {
                let in_prompts: usize = file.prompts.iter().map(|prompt| prompt.findings.len()).sum();
                let count = file.loaded.diagnostics.len() + in_prompts;
                let heading = format!("{} is not valid ({count} findings)", file.path.display());
                let failure = Failure::new(Exit::Workflow, ErrorCode::WorkflowInvalid, heading)
                    .rendered(text)
                    .hint(match file.path.extension() {
                        Some(name) if name == "md" => {
                            "docs/usage/coming-from-symphony.md shows how to convert a `WORKFLOW.md` of Symphony"
                        }
                        _ => "run `vik doctor` for details, or `vik doctor --offline` to run no commands",
                    });
                Err(Rejected {
                    at: loaded_at,
                    findings,
                    failure,
                })
            }
        };
        (result, texts)
    }

    /// Lists its errors, one line each: `workflow.yml:3:5: error: …`.
    fn errors(&self) -> Vec<String> {
        let own = self
            .loaded
            .diagnostics
            .iter()
            .map(|finding| (self.path.as_path(), finding));
        let prompts = self.prompts.iter().flat_map(|prompt| {
            let findings = prompt.findings.iter();
            findings.map(|finding| (prompt.file.as_path(), finding))
        });
        own.chain(prompts)
            .filter(|(_, finding)| finding.severity == Severity::Error)
            .map(|(file, finding)| {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                let (line, column) = (finding.line, finding.column);
                one_line(
                    &format!("{name}:{line}:{column}: error: {}", finding.message),
                    300,
                )
            })
            .collect()
    }

    /// Renders all diagnostics as text for people, those in prompt files last.
    pub fn diagnostics(&self, color: bool) -> String {
        let own = render(
            &self.loaded.diagnostics,
            &self.path.to_string_lossy(),
            &self.text,
            color,
        );
        self.prompts.iter().fold(own, |text, prompt| {
            text + &render(
                &prompt.findings,
                &prompt.file.to_string_lossy(),
                &prompt.text,
                color,
            )
        })
    }
}

/// Returns the time zone with this name. UTC is always known; other zones need the system's time
/// zone database.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    TimeZone::get(name).ok()
}

/// Returns a diagnostic for each time zone that this system does not know.
fn time_zones(workflow: &Workflow, loaded: &Loaded) -> Vec<Diagnostic> {
    let unknown = workflow
        .notify
        .iter()
        .filter(|(_, notifier)| time_zone(&notifier.time_zone).is_none());
    unknown
        .map(|(name, notifier)| {
            let message = format!("unknown time zone `{}`", one_line(&notifier.time_zone, 60));
            Diagnostic::error("unknown_time_zone", format!("notify.{name}.time_zone"), message)
                .hint("use a name such as `Europe/Berlin`; the system needs a time zone database")
                .at(loaded.document())
        })
        .collect()
}

/// The maximum size of a text file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Reads a text file that a person wrote. Only plain files are read, because a pipe or a device
/// could be endless.
///
/// # Errors
/// When it is not a plain file, too large, not UTF-8, or unreadable.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes =
        untrusted::read(&path.canonicalize()?, MAX_FILE_BYTES).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => io::Error::other(format!("larger than {MAX_FILE_BYTES} bytes")),
            _ => error,
        })?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

/// Returns the absolute path of a workflow file that may be missing.
pub fn absolute(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (absolute.parent().map(std::fs::canonicalize), absolute.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => absolute,
    }
}
