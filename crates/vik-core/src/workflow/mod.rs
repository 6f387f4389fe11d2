//! The workflow: the policy in `workflow.yml`.
//!
//! [`load`] turns a text into a [`Workflow`] in three steps: `yaml` parses a tree with positions,
//! `file` with `decode` and `values` reads typed sections (the same list of keys generates the JSON
//! Schema), and `lower` with `crosscheck` builds the model and checks across sections. Each step
//! reports all its findings and continues.

mod amounts;
mod approve;
mod args;
mod check;
mod crosscheck;
mod decode;
mod diagnostic;
mod diff;
mod file;
mod intent;
mod lower;
pub mod model;
mod notify;
mod outputs;
mod places;
mod render;
mod sandbox;
mod scalar;
mod schema;
mod secrets;
mod section;
mod syntax;
mod text;
pub mod triggers;
mod values;
mod yaml;

#[cfg(test)]
mod tests;

pub use approve::{ApprovePolicy, CallRule};
pub use diagnostic::{CODES, Diagnostic, MAX_DIAGNOSTICS, Severity, Spot};
pub use diff::{Edit, EditKind, applied, edits};
pub use intent::{OnViolation, ScopeConflicts, StageIntent, TrustPolicy, Untrusted};
pub use model::{
    AgentProfile, ArgValue, ArgsStyle, Home, Intake, IssuePolicy, LogFormat, Notifier, NotifyAddress,
    NotifyChannel, NotifyEvent, OnStateChange, OutputFormat, Permission, Pressure, Price, PromptSource,
    RemoveWorkspace, Retry, Runtime, SandboxBackend, SandboxChoice, SandboxFiles, SandboxKeys,
    SandboxNetwork, SandboxPolicy, SecretSource, Show, Stage, TimeOfDay, Workflow, WorkspaceRoot,
};
pub use render::{render, summary};
pub use schema::{json_schema, reference_markdown};
pub use triggers::{Hook, HookKind, Job, ScheduleEntry, Webhooks, cron};
pub use yaml::MAX_BYTES;

pub(crate) use intent::front_matter;

use decode::Section as _;
use diagnostic::{Place, Sink};
use places::Places;

/// The result of loading a workflow file.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The workflow; present exactly if there is no error.
    pub workflow: Option<Workflow>,
    /// All findings, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// The workflow as far as it could be read, if there are errors.
    draft: Option<Workflow>,
    text: String,
    places: Places,
}

/// Loads the text of a workflow file. It never fails: the diagnostics contain all errors at once.
///
/// # Examples
///
/// ```
/// use vik_core::workflow::load;
///
/// let loaded = load(
///     "
/// issues: { pull: { command: ./list-issues } }
/// agents: { coder: { runtime: command, command: [agent] } }
/// issue: { stages: { plan: { when: { state: todo }, agent: coder, prompt: Do it. } } }
/// ",
/// );
/// let workflow = loaded.workflow.expect("a workflow without errors");
/// assert_eq!(workflow.issue.stages[0].when_state, "todo");
///
/// let broken = load("agents: []");
/// assert!(broken.workflow.is_none());
/// assert!(broken.render("workflow.yml", false).contains("error"));
/// ```
pub fn load(text: &str) -> Loaded {
    let mut sink = Sink::default();
    let root = yaml::parse(text, &mut sink);
    let (workflow, places) = match root {
        None => (None, Places::default()),
        Some(root) => {
            let places = Places::of(&root);
            let file = file::File::read(Some(&root), &mut decode::Cx::new(&mut sink));
            (lower::lower(file, &places, &mut sink), places)
        }
    };
    let has_errors = sink.has_errors();
    if workflow.is_none() && !has_errors {
        // Unreachable, because missing parts were reported. If it is reached, it must not be
        // silent.
        sink.push(Diagnostic::error("missing_key", "", "the workflow is incomplete"));
    }
    let text = if text.len() > MAX_BYTES { "" } else { text };
    let diagnostics = sink.finish(text);
    let (workflow, draft) = if has_errors {
        (None, workflow)
    } else {
        (workflow, None)
    };
    Loaded {
        workflow,
        diagnostics,
        draft,
        text: text.to_owned(),
        places,
    }
}

impl Loaded {
    /// Returns whether the workflow can be used; with `strict`, warnings count as errors.
    pub fn is_ok(&self, strict: bool) -> bool {
        self.workflow.is_some()
            && !self
                .diagnostics
                .iter()
                .any(|finding| strict || finding.severity == Severity::Error)
    }

    /// Returns the line and column (from 1, in characters) of the value at a dotted path such as
    /// `issue.stages.plan.hooks.before_run`; list items count from 0. Returns the position of the
    /// key if it has no value.
    pub fn position(&self, path: &str) -> Option<(u32, u32)> {
        self.places.position(path)
    }

    /// Returns the position in the file of line `line` (from 1) of the text at `path`: its line,
    /// and the column of the text's first column. Known for literal blocks (`|`) and for plain text
    /// on one line; `None` for other texts.
    pub fn block_line(&self, path: &str, line: u32) -> Option<(u32, u32)> {
        self.places.block_line(path, line)
    }

    /// Adds findings of the caller, sorted by position. An error removes the workflow.
    pub fn add(&mut self, findings: impl IntoIterator<Item = Diagnostic>) {
        self.diagnostics.extend(findings);
        self.diagnostics
            .sort_by_key(|finding| (finding.line, finding.column, finding.severity));
        if self
            .diagnostics
            .iter()
            .any(|finding| finding.severity == Severity::Error)
        {
            self.draft = self.workflow.take().or(self.draft.take());
        }
    }

    /// Returns the workflow as far as it could be read, even if it has errors: only for finding
    /// more errors, never for running it.
    pub fn draft(&self) -> Option<&Workflow> {
        self.workflow.as_ref().or(self.draft.as_ref())
    }

    /// Renders all findings; see [`render`].
    pub fn render(&self, file_name: &str, color: bool) -> String {
        render(&self.diagnostics, file_name, &self.text, color)
    }

    /// Returns the loaded text; empty if it was too large.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn nearest(&self, path: &str) -> Option<Place> {
        Some(self.places.nearest(path)?.clamped(&self.text))
    }
}
