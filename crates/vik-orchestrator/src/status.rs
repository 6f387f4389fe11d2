//! The status of the daemon, for `vik status`.

use std::sync::{Arc, Mutex, PoisonError};

use vik_api::{Daemon, LedgerView, NotifierView, ParkedView, SCHEMA, SessionView, Status};
use vik_core::ids::IssueId;
use vik_core::machine::Phase;

use super::Orchestrator;
use super::attempts::RunningAttempt;
use crate::api_view;

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

impl Orchestrator {
    pub fn status(&self) -> Status {
        let mut sessions: Vec<_> = self
            .attempts
            .iter()
            .map(|running| self.session(running))
            .collect();
        sessions.sort_by(|a, b| (a.since, &a.session_id).cmp(&(b.since, &b.session_id)));
        let now = self.now();
        let title = |issue: &IssueId| {
            let machine = self.scheduler.machine(issue);
            machine.map_or_else(String::new, |machine| machine.issue().title.to_string())
        };
        let mut parked: Vec<_> = self
            .scheduler
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
                    detail: vik_base::report::one_line(detail, 300),
                    freed_by: reason.freed_by().to_owned(),
                }),
                _ => None,
            })
            .collect();
        parked.sort_by(|a, b| (a.since, &a.issue_id).cmp(&(b.since, &b.issue_id)));
        let approvals = self.scheduler.pending_approvals().into_iter().map(|awaited| {
            let title = title(awaited.issue);
            api_view::approval(&awaited, title)
        });
        let approvals = approvals.collect();
        let (waiting, count) = self.scheduler.waiting(now, SHOWN_WAITING);
        let waiting: Vec<_> = waiting
            .iter()
            .map(|waiting| api_view::waiting(waiting, title(&waiting.issue)))
            .collect();
        Status {
            schema: SCHEMA,
            daemon: Daemon {
                state: self.state,
                pid: i32::try_from(std::process::id()).ok(),
                started_at: Some(self.started_at),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                workflow_path: self.host.workflow_path.clone(),
                home: Some(self.host.layout.home().to_owned()),
            },
            last_pull: self.last_pull.clone(),
            pulls: self.counts,
            sessions,
            approvals,
            parked,
            waiting_more: count - waiting.len(),
            waiting,
            paused: self.scheduler.is_paused(),
            paused_issues: self.scheduler.paused_issues(),
            workflow: Some(self.edits.view.clone()),
            day: Some(api_view::day(&self.scheduler, &self.workflow, now)),
            ledger: Some(LedgerView {
                path: self.host.layout.ledger_file(),
                error: self
                    .broken
                    .as_ref()
                    .map(|broken| vik_base::report::chain(&broken.error)),
            }),
            api: self.api.clone(),
            notify: self.notify.views(),
            webhooks: self.webhooks.clone(),
        }
    }

    fn session(&self, running: &RunningAttempt) -> SessionView {
        let (start, facts) = (&running.start, running.live.get());
        let profile = self.workflow.agents.get(&start.stage.agent);
        SessionView {
            session_id: start.attempt_id.to_string(),
            issue_id: start.issue.id.clone(),
            issue_title: start.issue.title.to_string(),
            stage: start.stage.name.clone(),
            agent: start.stage.agent.clone(),
            model: profile.and_then(|profile| profile.model.clone()),
            attempt: start.attempt,
            phase: facts.phase.as_str().to_owned(),
            since: running.since,
            last_event_at: facts.last_event_at,
            activity: facts.activity,
            events: facts.events,
            usage: facts.usage,
            cost_usd: facts.cost_usd,
            charged: running.spent.into(),
            budget: start.budget.into(),
            adopted: running.adopted,
            resumed_from: start.resume.as_ref().map(|resume| resume.attempt_id.to_string()),
            log: self.host.attempt_files(start).log(),
        }
    }
}
