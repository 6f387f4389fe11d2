//! Reads the text of a workflow file: its [`Workflow`], or all errors at once, each with its place.
//!
//! [`load`] works in three steps: [`vik_yaml`] parses a tree with positions, `file` with `decode`
//! and `values` reads typed sections (the same list of keys generates the JSON Schema), and `lower`
//! with `crosscheck` builds the model and checks across sections. Each step reports all its
//! findings and continues. The model itself belongs to [`vik_core::workflow`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod agent;
mod amounts;
mod approve;
mod args;
mod check;
mod codes;
mod crosscheck;
mod decode;
mod durable;
mod engine;
mod extensions;
mod file;
mod http;
mod intent;
mod lower;
mod mcp;
mod notify;
mod outputs;
mod render;
mod retention;
mod sandbox;
mod schema;
mod secrets;
mod section;
mod text;
mod tracker;
mod triggers;
mod values;
mod when;

#[cfg(test)]
mod tests;

use vik_core::workflow::Workflow;
use vik_yaml::{Document, Places, Sink};

pub use codes::CODES;
pub use render::{render, summary};
pub use schema::{json_schema, reference_markdown};
pub use vik_yaml::{Diagnostic, MAX_DIAGNOSTICS, Severity, Spot, skill};

use decode::Section as _;

/// The maximum size of a workflow file, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// The result of loading a workflow file.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The workflow; present exactly if there is no error.
    pub workflow: Option<Workflow>,
    /// All findings, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// The workflow as far as it could be read, if there are errors.
    draft: Option<Workflow>,
    document: Document,
}

/// Loads the text of a workflow file. It never fails: the diagnostics contain all errors at once.
///
/// # Examples
///
/// ```
/// use vik_workflow_reader::load;
///
/// let loaded = load(
///     "
/// issues: { pull: { command: ./list-issues } }
/// agents: { coder: { runtime: command, command: [agent] } }
/// issue: { stages: { plan: { when: { state: todo }, agent: coder, prompt: Do it. } } }
/// ",
/// );
/// let workflow = loaded.workflow.expect("a workflow without errors");
/// assert_eq!(workflow.issue.stages[0].when.first_state(), "todo");
///
/// let broken = load("agents: []");
/// assert!(broken.workflow.is_none());
/// assert!(broken.render("workflow.yml", false).contains("error"));
/// ```
pub fn load(text: &str) -> Loaded {
    let mut sink = Sink::default();
    let mut text = text;
    if text.len() > MAX_BYTES {
        let message = format!("the file is {} bytes long", text.len());
        sink.push(Diagnostic::error("too_large", "", message).hint(format!(
            "the maximum is {MAX_BYTES} bytes; move long prompts to separate files"
        )));
        text = "";
    }
    let (workflow, places) = match vik_yaml::parse(text, &mut sink) {
        None => {
            if !sink.has_errors() {
                sink.push(
                    Diagnostic::error("empty", "", "the workflow file is empty")
                        .hint("run `vik init` to create a workflow"),
                );
            }
            (None, Places::default())
        }
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
        document: Document::new(text, places),
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

    /// Returns the loaded text, empty if it was too large, with the positions of its values.
    pub fn document(&self) -> &Document {
        &self.document
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
        render(&self.diagnostics, file_name, self.document.text(), color)
    }
}
