//! What the daemon does now, for `vik status`.

use vik_api::{Daemon, DaemonState, ParkedView, SCHEMA, SessionView, SpendView, Status, WaitingView};
use vik_core::machine::Phase;

use super::{Orchestrator, Running};

impl Orchestrator {
    /// What the daemon does now.
    pub fn status(&self) -> Status {
        let mut sessions: Vec<_> = self
            .running
            .iter()
            .map(|(id, running)| self.session(id, running))
            .collect();
        sessions.sort_by(|a, b| (a.since, &a.session_id).cmp(&(b.since, &b.session_id)));
        let mut parked = Vec::new();
        let mut waiting = Vec::new();
        for (issue, run) in self.scheduler.runs() {
            match &run.phase {
                Phase::Parked {
                    since,
                    reason,
                    detail,
                    ..
                } => parked.push(ParkedView {
                    run_id: run.id.to_string(),
                    issue_id: issue.clone(),
                    stage: run.stage.clone(),
                    since: *since,
                    reason: reason.as_str().to_owned(),
                    detail: crate::report::one_line(detail, 300),
                    freed_by: reason.freed_by().to_owned(),
                }),
                Phase::BackingOff { since, wait, .. } => waiting.push(WaitingView {
                    run_id: Some(run.id.to_string()),
                    issue_id: issue.clone(),
                    stage: run.stage.clone(),
                    reason: "backoff".to_owned(),
                    detail: String::new(),
                    until: since
                        .checked_add(jiff::SignedDuration::try_from(*wait).unwrap_or_default())
                        .ok(),
                    attempts: run.attempts,
                }),
                Phase::Settling { .. } => waiting.push(WaitingView {
                    run_id: Some(run.id.to_string()),
                    issue_id: issue.clone(),
                    stage: run.stage.clone(),
                    reason: "pull".to_owned(),
                    detail: String::new(),
                    until: None,
                    attempts: run.attempts,
                }),
                Phase::Active { .. } => {}
            }
        }
        if self.state == DaemonState::Running {
            waiting.extend(
                self.scheduler
                    .candidates(self.now())
                    .into_iter()
                    .map(|(issue, stage)| WaitingView {
                        run_id: None,
                        issue_id: issue.id.clone(),
                        stage: stage.name.clone(),
                        reason: "slot".to_owned(),
                        detail: String::new(),
                        until: None,
                        attempts: 0,
                    }),
            );
        }
        parked.sort_by(|a, b| (a.since, &a.issue_id).cmp(&(b.since, &b.issue_id)));
        waiting.sort_by(|a, b| (a.until, &a.issue_id).cmp(&(b.until, &b.issue_id)));
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
            parked,
            waiting,
            waiting_more: 0,
            paused: false,
            paused_issues: Vec::new(),
            workflow: None,
            day: None,
            ledger: None,
        }
    }

    fn session(&self, id: &vik_core::ids::SessionId, running: &Running) -> SessionView {
        let (start, facts) = (&running.start, running.live.get());
        let profile = self.workflow.agents.get(&start.stage.agent);
        SessionView {
            session_id: id.to_string(),
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
            charged: SpendView::default(),
            budget: start.budget.into(),
            adopted: running.adopted,
            resumed_from: start.resume.as_ref().map(|resume| resume.session.to_string()),
            log: crate::session::files(&self.host, start).log(),
        }
    }
}
