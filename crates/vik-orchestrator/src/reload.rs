//! Edits of the workflow while the daemon runs.

use std::sync::Arc;

use vik_api::{RejectedEdit, StageDef, WorkflowView};
use vik_base::report;
use vik_core::scheduler::Input;
use vik_core::workflow::{Edit, Workflow};
use vik_session::{sandbox, secrets};
use vik_workflow::{LoadedWorkflow, Rejected, Reload, Watch};

use super::{Orchestrator, Progress};

/// The maximum number of diagnostics kept for `status`.
const SHOWN_DIAGNOSTICS: usize = 20;

/// The state of the workflow edits.
#[derive(Debug)]
pub(super) struct Edits {
    /// `None` if the files are not watched.
    pub(super) watch: Option<Watch>,
    /// The view for `status`.
    pub(super) view: WorkflowView,
}

impl Edits {
    pub(super) fn new(watch: Option<Watch>, loaded: &LoadedWorkflow) -> Self {
        let view = WorkflowView {
            loaded_at: loaded.loaded_at,
            rejected: None,
            needs_restart: Vec::new(),
            stages: stages(&loaded.workflow),
        };
        Self { watch, view }
    }

    /// Waits for the next result of the watch.
    pub(super) async fn next(&mut self) -> Reload {
        match &mut self.watch {
            Some(watch) => watch.next().await,
            None => std::future::pending().await,
        }
    }
}

impl Orchestrator {
    /// Checks the workflow file and pulls the issues.
    pub(super) fn refresh(&mut self) {
        match &self.edits.watch {
            // The pull follows the result of the check, so that it uses the edited workflow.
            Some(watch) => watch.refresh(),
            None => self.ask_for_fresh_pull(),
        }
    }

    pub(super) fn on_reload(&mut self, reload: Reload) {
        match reload {
            Reload::Unchanged => self.ask_for_fresh_pull(),
            Reload::Good {
                loaded,
                edits,
                warnings,
            } => self.on_good_edit(*loaded, &edits, &warnings),
            Reload::Bad(rejected) => {
                self.on_bad_edit(rejected);
                self.ask_for_fresh_pull();
            }
        }
    }

    fn on_good_edit(&mut self, loaded: LoadedWorkflow, edits: &[Edit], warnings: &str) {
        if let Err(failure) = sandbox::check(&loaded.workflow) {
            let findings = vec![report::one_line(&failure.body().message, 300)];
            self.on_bad_edit(Rejected {
                at: loaded.loaded_at,
                findings,
                failure,
            });
            return self.ask_for_fresh_pull();
        }
        for edit in edits {
            tracing::info!(%edit, "workflow reloaded");
        }
        if !warnings.is_empty() {
            tracing::warn!(warnings, "the edited workflow has warnings");
        }
        // A change of a comment is not reported, but a fixed mistake is.
        if !edits.is_empty() || self.edits.view.rejected.is_some() {
            let workflow = &loaded.workflow;
            self.observer.on_progress(&Progress::Reloaded { edits, workflow });
        }
        let restart = edits.iter().filter(|edit| edit.needs_restart);
        self.edits.view = WorkflowView {
            loaded_at: loaded.loaded_at,
            rejected: None,
            needs_restart: restart.map(|edit| edit.path.clone()).collect(),
            stages: stages(&loaded.workflow),
        };
        // The secrets must be known before the new workflow starts anything.
        secrets::protect_secrets(&self.host.environment, &loaded.workflow);
        self.prompts = loaded.prompts;
        self.workflow = loaded.workflow;
        self.workflow_updates.send_replace(Arc::clone(&self.workflow));
        self.pressure_due = std::time::Instant::now();
        self.handle(Input::Reloaded(self.workflow.clone()));
        self.ask_for_fresh_pull();
    }

    fn on_bad_edit(&mut self, rejected: Rejected) {
        let mut diagnostics = rejected.findings;
        let first = diagnostics.first().cloned().unwrap_or_default();
        tracing::error!(
            first,
            findings = diagnostics.len(),
            "the edited workflow is not valid; the previous one stays active"
        );
        self.observer
            .on_progress(&Progress::EditRejected { first: &first });
        let more = diagnostics.len().saturating_sub(SHOWN_DIAGNOSTICS);
        diagnostics.truncate(SHOWN_DIAGNOSTICS);
        self.edits.view.rejected = Some(RejectedEdit {
            at: rejected.at,
            diagnostics,
            more,
        });
    }
}

/// Returns the stages of a workflow, for the dashboard.
fn stages(workflow: &Workflow) -> Vec<StageDef> {
    let stages = workflow.issue.stages.iter();
    stages
        .map(|stage| StageDef {
            stage: stage.name.clone(),
            when_state: stage.when_state.clone(),
            agent: stage.agent.clone(),
        })
        .collect()
}
