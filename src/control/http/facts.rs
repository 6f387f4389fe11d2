//! What becomes a fact of the feed: what the daemon's loop does, and what its sessions do next.

use std::collections::HashMap;
use std::time::Duration;

use vik_api::{Fact, SessionView, Status};

use super::feed::Feed;
use super::metrics::Metrics;
use super::read::Daemon;
use crate::orchestrator::{Observer, Progress};
use crate::report::one_line;

/// How often the sessions are looked at while somebody reads.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Tells the feed what is new of the sessions and the state, without an end.
pub async fn publish_session_changes(feed: &Feed, daemon: &Daemon) {
    let mut seen = StatusDiff::default();
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if feed.readers() > 0
            && let Ok(status) = daemon.status().await
        {
            for fact in seen.update(&status) {
                feed.publish(fact);
            }
        }
    }
}

/// What was told of the sessions.
#[derive(Debug, Default)]
struct StatusDiff {
    sessions: HashMap<String, (u64, String, Option<String>, u64)>,
    state: Option<String>,
}

impl StatusDiff {
    /// What is new in a status.
    fn update(&mut self, status: &Status) -> Vec<Fact> {
        let mut facts = Vec::new();
        let state = format!(
            "{:?} {} {:?} {:?}",
            status.daemon.state, status.paused, status.paused_issues, status.workflow
        );
        if self.state.as_ref().is_some_and(|seen| *seen != state) {
            facts.push(Fact::State);
        }
        self.state = Some(state);
        let running: HashMap<_, _> = status
            .sessions
            .iter()
            .map(|session| (session.session_id.clone(), mark(session)))
            .collect();
        for session in &status.sessions {
            if self.sessions.get(&session.session_id) != running.get(&session.session_id) {
                facts.push(Fact::Session(Box::new(session.clone())));
            }
        }
        self.sessions = running;
        facts
    }
}

/// What makes a session worth telling anew.
fn mark(session: &SessionView) -> (u64, String, Option<String>, u64) {
    (
        session.events,
        session.phase.clone(),
        session.activity.clone(),
        session.usage.total().max(session.charged.tokens),
    )
}

/// Counts and tells the feed what the daemon's loop does, and then tells whoever else is to know.
pub struct Reporter {
    feed: Feed,
    metrics: Metrics,
    next: Box<dyn Observer>,
}

impl Reporter {
    /// Stands before another observer.
    pub fn new(feed: Feed, metrics: Metrics, next: Box<dyn Observer>) -> Self {
        Self { feed, metrics, next }
    }
}

impl Observer for Reporter {
    fn on(&mut self, progress: &Progress<'_>) {
        self.metrics.count(progress);
        if let Some(fact) = fact(progress) {
            self.feed.publish(fact);
        }
        self.next.on(progress);
    }
}

fn fact(progress: &Progress<'_>) -> Option<Fact> {
    Some(match progress {
        Progress::Pulled { issues, .. } => Fact::Pulled {
            ok: true,
            issues: *issues,
        },
        Progress::PullFailed { .. } => Fact::Pulled { ok: false, issues: 0 },
        // It stands in the state; the next look tells of it.
        Progress::Started(start, _) => Fact::Issue {
            issue_id: start.issue.id.clone(),
            description: format!("`{}` starts, attempt {}", start.stage.name, start.attempt),
        },
        Progress::Ended(start, end) => Fact::SessionEnded {
            session_id: start.attempt_id.to_string(),
            issue_id: start.issue.id.clone(),
            stage: start.stage.name.clone(),
            outcome: end.ended.outcome.to_string(),
            reason: end.ended.reason.as_deref().map(|reason| one_line(reason, 300)),
        },
        Progress::Note(issue, note) => Fact::Issue {
            issue_id: (*issue).clone(),
            description: crate::control::view::note(note),
        },
        // The note beside it tells it.
        Progress::Parked(_) | Progress::Awaiting(_) | Progress::Warning { .. } => return None,
        Progress::DayLimit { .. }
        | Progress::Reloaded { .. }
        | Progress::EditRejected { .. }
        | Progress::LedgerFailed { .. }
        | Progress::Stopping { .. } => Fact::State,
    })
}
