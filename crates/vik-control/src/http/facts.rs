//! The sources of facts: the progress of the daemon's loop and the changes of its sessions.

use std::collections::HashMap;
use std::time::Duration;

use vik_api::{Fact, SessionView, Status};
use vik_base::report::one_line;
use vik_orchestrator::{Observer, Progress};

use super::daemon::Daemon;
use super::feed::Feed;
use super::forward;
use super::leading_hub::LeadingHub;
use super::metrics::Metrics;
use super::standing::Standing;

/// The interval at which sessions are checked while the feed has readers.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The same for a hub that follows: each check is a request to the hub that leads.
const FOLLOWING_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Publishes changes of the sessions and of the daemon's state. Never returns.
pub async fn publish_session_changes(feed: &Feed, daemon: &Daemon) {
    let mut standings = daemon.standing.clone();
    loop {
        let standing = standings.borrow_and_update().clone();
        let published = async {
            match standing {
                Standing::Connecting => std::future::pending().await,
                Standing::Following(leader) => publish_changes_of_leader(feed, daemon, &*leader).await,
                Standing::Leading { .. } => publish_own_changes(feed, daemon).await,
            }
        };
        tokio::select! {
            () = published => {}
            changed = standings.changed() => match changed {
                // What readers have may be out of date.
                Ok(()) => feed.publish(Fact::Reset),
                Err(_) => publish_own_changes(feed, daemon).await,
            },
        }
    }
}

async fn publish_own_changes(feed: &Feed, daemon: &Daemon) {
    let mut diff = StatusDiff::default();
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if feed.readers() > 0
            && let Ok(status) = daemon.status().await
        {
            for fact in diff.update(&status) {
                feed.publish(fact);
            }
        }
    }
}

async fn publish_changes_of_leader(feed: &Feed, daemon: &Daemon, leader: &dyn LeadingHub) {
    let mut diff = StatusDiff::default();
    let mut issues = None;
    loop {
        tokio::time::sleep(FOLLOWING_POLL_INTERVAL).await;
        if feed.readers() > 0
            && let Some(status) = forward::state(daemon, leader).await
        {
            for fact in diff.update(&status) {
                feed.publish(fact);
            }
            // The loop of the hub that leads would publish what happened to each issue.
            let current = issues_of(&status);
            if issues
                .replace(current.clone())
                .is_some_and(|seen| seen != current)
            {
                feed.publish(Fact::Reset);
            }
        }
    }
}

/// Returns what a status has of the issues, apart from what its running attempts do.
fn issues_of(status: &Status) -> String {
    let sessions: Vec<_> = status
        .sessions
        .iter()
        .map(|session| &session.session_id)
        .collect();
    let approvals: Vec<_> = status
        .approvals
        .iter()
        .map(|approval| &approval.request.id)
        .collect();
    let parked: Vec<_> = status.parked.iter().map(|parked| &parked.run_id).collect();
    let waiting: Vec<_> = status
        .waiting
        .iter()
        .map(|waiting| (&waiting.issue_id, &waiting.stage, &waiting.reason))
        .collect();
    let questions = status.questions.len();
    let issues = status.last_pull.as_ref().map(|pull| (pull.ok, pull.issues));
    format!("{sessions:?} {approvals:?} {parked:?} {waiting:?} {questions} {issues:?}")
}

/// The last published state of the sessions.
#[derive(Debug, Default)]
struct StatusDiff {
    sessions: HashMap<String, PublishedValues>,
    state: Option<String>,
}

impl StatusDiff {
    /// Returns the facts that follow from a new status.
    fn update(&mut self, status: &Status) -> Vec<Fact> {
        let mut facts = Vec::new();
        let state = format!(
            "{:?} {} {:?} {:?} {:?} {:?}",
            status.daemon.state,
            status.paused,
            status.paused_issues,
            status.taken_over,
            status.workflow,
            status.workers
        );
        if self.state.as_ref().is_some_and(|seen| *seen != state) {
            facts.push(Fact::State);
        }
        self.state = Some(state);
        let running: HashMap<_, _> = status
            .sessions
            .iter()
            .map(|session| (session.session_id.clone(), PublishedValues::of(session)))
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

/// The values of a session whose change is published.
#[derive(Debug, PartialEq, Eq)]
struct PublishedValues {
    events: u64,
    phase: String,
    activity: Option<String>,
    tokens: u64,
    waits_for: Option<(String, Option<String>)>,
    stop_step: Option<String>,
    /// Coarse, as the speed of an answer changes all the time.
    tens_of_tokens_per_second: Option<u64>,
}

impl PublishedValues {
    fn of(session: &SessionView) -> Self {
        let waits_for = session.waits_for.as_ref();
        Self {
            events: session.events,
            phase: session.phase.clone(),
            activity: session.activity.clone(),
            tokens: session.usage.total().max(session.charged.tokens),
            waits_for: waits_for.map(|waits| (waits.kind.clone(), waits.detail.clone())),
            stop_step: session.stopping.as_ref().map(|stopping| stopping.step.clone()),
            tens_of_tokens_per_second: session.tokens_per_second.map(|speed| (speed / 10.0) as u64),
        }
    }
}

/// An observer that counts and publishes the progress of the daemon's loop, then calls the next
/// observer.
pub struct Reporter {
    feed: Feed,
    metrics: Metrics,
    next: Box<dyn Observer>,
}

impl Reporter {
    /// Creates a reporter in front of another observer.
    pub fn new(feed: Feed, metrics: Metrics, next: Box<dyn Observer>) -> Self {
        Self { feed, metrics, next }
    }
}

impl Observer for Reporter {
    fn on_progress(&mut self, progress: &Progress<'_>) {
        self.metrics.count(progress);
        if let Some(fact) = fact(progress) {
            self.feed.publish(fact);
        }
        self.next.on_progress(progress);
    }
}

fn fact(progress: &Progress<'_>) -> Option<Fact> {
    Some(match progress {
        Progress::Pulled { issues, .. } => Fact::Pulled {
            ok: true,
            issues: *issues,
        },
        Progress::PullFailed { .. } => Fact::Pulled { ok: false, issues: 0 },
        // The status lists the session; the next check publishes it.
        Progress::Started(start, _) => Fact::Issue {
            issue_id: start.issue.id.clone(),
            description: format!("`{}` starts, attempt {}", start.stage.name, start.attempt),
        },
        Progress::Ended(start, end) => Fact::SessionEnded {
            session_id: start.attempt_id.to_string(),
            issue_id: start.issue.id.clone(),
            stage: start.stage.name.clone(),
            outcome: end.ended.result.outcome.to_string(),
            reason: end
                .ended
                .result
                .reason
                .as_deref()
                .map(|reason| one_line(reason, 300)),
        },
        Progress::Messages(issue) => Fact::Issue {
            issue_id: (*issue).clone(),
            description: "the messages for its agent changed".to_owned(),
        },
        Progress::Note(issue, note) => Fact::Issue {
            issue_id: (*issue).clone(),
            description: vik_orchestrator::api_view::note(note),
        },
        // The note for the same event produces the fact.
        Progress::Parked(_) | Progress::Awaiting(_) | Progress::Asked(_) | Progress::Warning { .. } => {
            return None;
        }
        Progress::DayLimit { .. }
        | Progress::Reloaded { .. }
        | Progress::EditRejected { .. }
        | Progress::LedgerFailed { .. }
        | Progress::Stopping { .. } => Fact::State,
    })
}
