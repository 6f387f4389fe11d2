//! The task of an attempt.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tracing::{Instrument as _, Span, error_span};
use vik_core::attempt::{HandOverFailure, Start};
use vik_store::AttemptFailure;

use super::finish::{AttemptEnd, Finish};
use super::hand_over;
use super::opened::Attempt;
use super::runner::run;

/// Returns the span whose fields name the attempt in each log line. Its level is that of the most
/// severe lines, so that no log file lacks it.
///
/// The span must exist before the macro that logs: a span that is created among the arguments of an
/// event replaces the decision of the filters about that event.
pub fn span(start: &Start) -> Span {
    error_span!(
        "attempt",
        issue = start.issue.id.as_str(),
        stage = %start.stage.name,
        attempt = start.attempt,
        session = %start.attempt_id
    )
}

/// Runs an attempt in tasks of its own; its last update is its [`Finish`]. If the attempt panics,
/// its agent may still live, so it is recovered as after a crash of the daemon.
///
/// The attempt first waits for one of the `permits`, one for each session that may have files open:
/// an earlier daemon may have left more sessions, whose shims keep their agents meanwhile.
pub fn spawn(attempt: Attempt, permits: Arc<Semaphore>) {
    let span = span(&attempt.start);
    let attempt = attempt.under_lease();
    let task = async move {
        let _permit = tokio::select! {
            permit = permits.acquire_owned() => permit.ok(),
            // It only ends then, which takes a moment.
            () = attempt.commands.lease_lost() => None,
            () = attempt.commands.detached() => return attempt.updates.finish(Finish::Detached),
        };
        let mut finish = tokio::spawn(run(attempt.clone()).in_current_span()).await;
        if let Err(bug) = &finish {
            tracing::error!(%bug, "bug in Vik: recovering the attempt");
            finish = tokio::spawn(run(attempt.clone()).in_current_span()).await;
        }
        let finish = match finish {
            Ok(finish) => finish,
            Err(bug) => {
                let failure = AttemptFailure::bug(format!("the task of the attempt failed: {bug}"));
                let host = Arc::clone(&attempt.host);
                Finish::Ended(Box::new(AttemptEnd::broken(&host, &attempt.start, failure).await))
            }
        };
        attempt.updates.finish(finish);
    };
    tokio::spawn(task.instrument(span));
}

/// Repeats the hand-over of an attempt that succeeded in a task of its own; its last update is its
/// [`Finish`]. It first waits for one of the `permits`.
pub fn spawn_hand_over(attempt: Attempt, permits: Arc<Semaphore>) {
    let span = span(&attempt.start);
    let attempt = attempt.under_lease();
    let task = async move {
        let _permit = tokio::select! {
            permit = permits.acquire_owned() => permit.ok(),
            // It only ends then, which takes a moment.
            () = attempt.commands.lease_lost() => None,
            () = attempt.commands.detached() => return attempt.updates.finish(Finish::Detached),
        };
        let finish = tokio::spawn(hand_over::run(attempt.clone()).in_current_span()).await;
        attempt.updates.finish(finish.unwrap_or_else(|bug| {
            Finish::HandedOver(Err(HandOverFailure {
                step: "hand_over".to_owned(),
                reason: format!("bug in Vik: {bug}"),
                wait: Duration::ZERO,
                needs_person: false,
            }))
        }));
    };
    tokio::spawn(task.instrument(span));
}
