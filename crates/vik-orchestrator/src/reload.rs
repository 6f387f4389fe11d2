//! Edits of the workflow while the daemon runs.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use vik_api::{RejectedEdit, StageDef, WorkflowView};
use vik_base::report;
use vik_core::workflow::{Edit, Workflow};
use vik_workflow::{LoadedWorkflow, Rejected, Reload, Watch};

use crate::Progress;
use crate::effects::Effects;

/// The maximum number of diagnostics kept for `status`.
const SHOWN_DIAGNOSTICS: usize = 20;

/// The edits of the workflow.
#[derive(Debug)]
pub(crate) struct Edits {
    /// `None` if the files are not watched.
    watch: Option<Watch>,
    /// Receives the workflow after each edit.
    updates: watch::Sender<Arc<Workflow>>,
    /// The view for `status`.
    view: WorkflowView,
}

impl Edits {
    /// Creates the state for the workflow in `updates`.
    pub(crate) fn new(
        watch: Option<Watch>,
        updates: watch::Sender<Arc<Workflow>>,
        loaded_at: Timestamp,
    ) -> Self {
        let view = WorkflowView {
            loaded_at,
            rejected: None,
            needs_restart: Vec::new(),
            stages: stages(&updates.borrow()),
        };
        Self { watch, updates, view }
    }

    pub(crate) fn view(&self) -> &WorkflowView {
        &self.view
    }

    /// Waits for the next result of the watch; never returns if the files are not watched.
    pub(crate) async fn next(&mut self) -> Reload {
        match &mut self.watch {
            Some(watch) => watch.next().await,
            None => std::future::pending().await,
        }
    }

    /// Requests a check of the files. Returns whether a result follows.
    pub(crate) fn request_check(&self) -> bool {
        if let Some(watch) = &self.watch {
            watch.refresh();
        }
        self.watch.is_some()
    }

    /// Processes the result of a check. Returns the workflow if it was edited and is now in force.
    pub(crate) fn on_reload(&mut self, reload: Reload, effects: &mut dyn Effects) -> Option<Arc<Workflow>> {
        match reload {
            Reload::Unchanged => None,
            Reload::Good {
                loaded,
                edits,
                warnings,
            } => self.on_good_edit(*loaded, &edits, &warnings, effects),
            Reload::Bad(rejected) => {
                self.on_bad_edit(rejected, effects);
                None
            }
        }
    }

    fn on_good_edit(
        &mut self,
        loaded: LoadedWorkflow,
        edits: &[Edit],
        warnings: &str,
        effects: &mut dyn Effects,
    ) -> Option<Arc<Workflow>> {
        if let Err(failure) = effects.adopt_workflow(&loaded) {
            let findings = vec![report::one_line(&failure.body().message, 300)];
            let rejected = Rejected {
                at: loaded.loaded_at,
                findings,
                failure,
            };
            self.on_bad_edit(rejected, effects);
            return None;
        }
        for edit in edits {
            tracing::info!(%edit, "workflow reloaded");
        }
        if !warnings.is_empty() {
            tracing::warn!(warnings, "the edited workflow has warnings");
        }
        let workflow = loaded.workflow;
        // A change of a comment is not reported, but a fixed mistake is.
        if !edits.is_empty() || self.view.rejected.is_some() {
            effects.publish(&Progress::Reloaded {
                edits,
                workflow: &workflow,
            });
        }
        let restart = edits.iter().filter(|edit| edit.needs_restart);
        self.view = WorkflowView {
            loaded_at: loaded.loaded_at,
            rejected: None,
            needs_restart: restart.map(|edit| edit.path.clone()).collect(),
            stages: stages(&workflow),
        };
        self.updates.send_replace(Arc::clone(&workflow));
        Some(workflow)
    }

    fn on_bad_edit(&mut self, rejected: Rejected, effects: &mut dyn Effects) {
        let mut diagnostics = rejected.findings;
        let first = diagnostics.first().cloned().unwrap_or_default();
        tracing::error!(
            first,
            findings = diagnostics.len(),
            "the edited workflow is not valid; the previous one stays active"
        );
        effects.publish(&Progress::EditRejected { first: &first });
        let more = diagnostics.len().saturating_sub(SHOWN_DIAGNOSTICS);
        diagnostics.truncate(SHOWN_DIAGNOSTICS);
        self.view.rejected = Some(RejectedEdit {
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
            when_state: stage.when.all_states().collect::<Vec<_>>().join(", "),
            when_labels: stage.when.labels.clone(),
            agent: stage.agent.clone(),
        })
        .collect()
}
