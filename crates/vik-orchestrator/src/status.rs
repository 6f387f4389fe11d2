//! The status of the daemon, for `vik status`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use vik_api::{ApiView, Daemon, HubView, LedgerView, NotifierView, ParkedView, PullView, SCHEMA, Status};
use vik_base::report;
use vik_core::ids::IssueId;
use vik_core::machine::Phase;
use vik_core::scheduler::Scheduler;
use vik_core::time::Now;
use vik_core::workflow::Workflow;

use crate::api_view;
use crate::attempts::Attempts;
use crate::lifecycle::Lifecycle;
use crate::pull_loop::PullLoop;
use crate::reload::Edits;
use crate::retention::Retention;
use crate::workers;

/// The maximum number of waiting stages in a status.
const SHOWN_WAITING: usize = 200;

/// The state of the notifiers, for `status`; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct NotifierHealth(Arc<Mutex<Vec<NotifierView>>>);

impl NotifierHealth {
    /// Returns the state of all notifiers.
    pub fn views(&self) -> Vec<NotifierView> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the state of all notifiers.
    pub fn set(&self, views: Vec<NotifierView>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = views;
    }
}

/// What a status shows that does not change while the daemon runs, or belongs to others.
#[derive(Clone, Debug)]
pub struct StatusSources {
    /// The path of the workflow file.
    pub workflow_path: PathBuf,
    /// The home of the workflow.
    pub home: PathBuf,
    /// The path of the ledger.
    pub ledger: PathBuf,
    /// The address of the HTTP API.
    pub api: Option<ApiView>,
    /// The state of the notifiers.
    pub notify: NotifierHealth,
    /// The address of the webhooks.
    pub webhooks: Option<ApiView>,
    /// Which hub leads; `None` on one machine.
    pub hub: Option<HubView>,
}

/// The parts of the loop that a status shows.
pub(crate) struct StatusParts<'a> {
    pub(crate) scheduler: &'a Scheduler,
    pub(crate) workflow: &'a Workflow,
    pub(crate) edits: &'a Edits,
    pub(crate) lifecycle: &'a Lifecycle,
    pub(crate) attempts: &'a Attempts,
    pub(crate) pulls: &'a PullLoop,
    pub(crate) retention: &'a Retention,
    pub(crate) now: Now,
}

impl StatusSources {
    /// Returns the status of the daemon.
    pub(crate) fn status(&self, parts: &StatusParts<'_>) -> Status {
        let StatusParts {
            scheduler,
            workflow,
            lifecycle,
            now,
            ..
        } = *parts;
        let title = |issue: &IssueId| {
            let machine = scheduler.machine(issue);
            machine.map_or_else(String::new, |machine| machine.issue().title.to_string())
        };
        let approvals = scheduler.pending_approvals();
        let approvals = approvals
            .iter()
            .map(|awaited| api_view::approval(awaited, title(awaited.issue)));
        let questions = scheduler.open_questions();
        let questions = questions
            .iter()
            .map(|open| api_view::question(open, title(open.issue)));
        let (waiting, count) = scheduler.waiting(now, SHOWN_WAITING);
        let waiting: Vec<_> = waiting
            .iter()
            .map(|waiting| api_view::waiting(waiting, title(&waiting.issue)))
            .collect();
        Status {
            schema: SCHEMA,
            daemon: Daemon {
                state: lifecycle.state(),
                pid: i32::try_from(std::process::id()).ok(),
                started_at: Some(lifecycle.started_at),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                workflow_path: self.workflow_path.clone(),
                home: Some(self.home.clone()),
            },
            last_pull: parts.pulls.last().map(|last| PullView {
                next_at: parts.pulls.next_after_failure().map(|due| now.wall_at(due)),
                ..last.clone()
            }),
            pulls: parts.pulls.counts(),
            sessions: parts.attempts.views(workflow),
            approvals: approvals.collect(),
            questions: questions.collect(),
            parked: parked(scheduler, title),
            waiting_more: count - waiting.len(),
            waiting,
            paused: scheduler.is_paused(),
            paused_issues: scheduler.paused_issues(),
            taken_over: scheduler
                .taken_over_issues()
                .filter_map(|(id, machine)| api_view::taken_over(id, machine))
                .collect(),
            workflow: Some(parts.edits.view().clone()),
            day: Some(api_view::day(scheduler, workflow, now)),
            ledger: Some(LedgerView {
                path: self.ledger.clone(),
                error: lifecycle.broken().map(|broken| report::chain(&broken.failure)),
            }),
            api: self.api.clone(),
            notify: self.notify.views(),
            webhooks: self.webhooks.clone(),
            retention: Some(parts.retention.view(workflow)),
            hub: self.hub.clone(),
            workers: workers::views(scheduler.workers(), parts.attempts),
        }
    }
}

/// Returns the parked runs, oldest first.
fn parked(scheduler: &Scheduler, title: impl Fn(&IssueId) -> String) -> Vec<ParkedView> {
    let mut parked: Vec<_> = scheduler
        .runs()
        .filter_map(|(issue, run)| match &run.phase {
            Phase::Parked {
                since,
                reason,
                detail,
                ..
            } => Some(ParkedView {
                run_id: run.id.to_string(),
                issue_id: issue.clone(),
                issue_title: title(issue),
                stage: run.stage.clone(),
                since: *since,
                reason: reason.as_str().to_owned(),
                detail: report::one_line(detail, 300),
                freed_by: reason.freed_by().to_owned(),
            }),
            _ => None,
        })
        .collect();
    parked.sort_by(|a, b| (a.since, &a.issue_id).cmp(&(b.since, &b.issue_id)));
    parked
}
