//! One attempt: its details, its events, its agent's stderr, its file changes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use vik_api::{DiffView, EventsPage, SessionDetail, StderrTail};
use vik_base::report::ErrorCode;
use vik_store::AttemptFiles;
use vik_store::ledger::StoredAttempt;

use super::answer::{Answer, Json, Params, Refusal, SessionInPath, unknown_session};
use super::daemon::Daemon;
use super::params::{KindsParam, Limit};
use super::remote_sessions::{RemoteAttempt, SessionPart};
use super::session_files::{EventsRequest, detail_of, stderr_of};
use crate::history;

/// The maximum size of a stderr response, in bytes.
const MOST_STDERR: u64 = 1024 * 1024;

pub async fn detail(State(daemon): State<Arc<Daemon>>, session: SessionInPath) -> Answer<SessionDetail> {
    let status = daemon.status().await?;
    let id = session.0;
    let text = id.to_string();
    let mut sessions = status.sessions.iter();
    let live = sessions.find(|session| session.session_id == text).cloned();
    let detail = match find(&daemon, &session).await? {
        (stored, Place::Remote(remote)) => {
            let mut detail: SessionDetail = daemon.read_remote(&remote, SessionPart::Detail).await?;
            let run = stored.started.run;
            let notes = daemon.run_blocking(move |daemon: &Daemon| Ok(daemon.ledger()?.output_notes(run)?));
            let (layout, notes) = (&daemon.layout, notes.await?);
            detail.attempt = history::view_of_remote(layout, &stored, notes, &status, detail.attempt);
            detail
        }
        (stored, Place::Local(files)) => {
            let status = Arc::clone(&status);
            let read = move |_: &Daemon| {
                let found = history::attempt(files, stored, Some(&status));
                let (past, attempt) = found.ok_or_else(|| unknown_session(&id.to_string()))?;
                Ok(detail_of(&past, attempt))
            };
            daemon.run_blocking(read).await?
        }
    };
    Ok(Json(SessionDetail { live, ..detail }))
}

/// The maximum length of a searched text, in characters.
const MAX_SEARCHED: usize = 500;

/// The selection of events.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Only events after this `seq`.
    #[schemars(with = "u64", range(max = 9_007_199_254_740_991_u64))]
    after: Option<u64>,
    /// Only events with this text in a value, ignoring case.
    #[schemars(length(max = 500))]
    q: Option<String>,
    /// Only events of these kinds, separated by commas.
    kinds: Option<KindsParam>,
    /// Only failures: errors, failed tool calls and outputs, ends without success.
    #[serde(default)]
    errors: bool,
    /// Maximum number of events.
    limit: Option<Limit>,
}

pub async fn events(
    State(daemon): State<Arc<Daemon>>,
    session: SessionInPath,
    Params(query): Params<EventsQuery>,
) -> Answer<EventsPage> {
    let text = query.q.as_deref();
    if text.is_some_and(|text| text.chars().count() > MAX_SEARCHED) {
        return Err(bad_request(format!(
            "`q` must have at most {MAX_SEARCHED} characters"
        )));
    }
    let kinds = query.kinds.unwrap_or_default().0;
    let request = EventsRequest {
        after: query.after.unwrap_or(0),
        text: query.q,
        kinds: kinds.iter().map(|kind| kind.as_str().to_owned()).collect(),
        only_failures: query.errors,
        limit: Limit::or(query.limit, 200),
    };
    request.filter().map_err(bad_request)?;
    let page = match find(&daemon, &session).await?.1 {
        Place::Remote(remote) => daemon.read_remote(&remote, SessionPart::Events(request)).await?,
        Place::Local(files) => {
            let read = move |daemon: &Daemon| Ok(request.read(&daemon.logs, &files, session.0)?);
            daemon.run_blocking(read).await?
        }
    };
    Ok(Json(page))
}

/// The size of the part of stderr.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StderrQuery {
    /// Maximum number of bytes, from 1 to 1048576.
    #[schemars(with = "u64", range(min = 1, max = 1_048_576))]
    bytes: Option<u64>,
}

pub async fn stderr(
    State(daemon): State<Arc<Daemon>>,
    session: SessionInPath,
    Params(query): Params<StderrQuery>,
) -> Answer<StderrTail> {
    let bytes = query.bytes.unwrap_or(64 * 1024);
    if !(1..=MOST_STDERR).contains(&bytes) {
        let message = format!("`bytes` must be a number from 1 to {MOST_STDERR}");
        return Err(bad_request(message));
    }
    let tail = match find(&daemon, &session).await?.1 {
        Place::Remote(remote) => daemon.read_remote(&remote, SessionPart::Stderr { bytes }).await?,
        Place::Local(files) => daemon.run_blocking(move |_| Ok(stderr_of(&files, bytes))).await?,
    };
    Ok(Json(tail))
}

pub async fn diff(State(daemon): State<Arc<Daemon>>, session: SessionInPath) -> Answer<DiffView> {
    Ok(Json(match find(&daemon, &session).await? {
        (_, Place::Remote(remote)) => daemon.read_remote(&remote, SessionPart::Diff).await?,
        (stored, Place::Local(files)) => {
            let started = &stored.started;
            let diffs = daemon.diffs();
            diffs.of_attempt(&started.issue, started.attempt_id, files).await
        }
    }))
}

fn bad_request(message: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, ErrorCode::BadRequest, message)
}

/// Where the files of an attempt are.
enum Place {
    Local(AttemptFiles),
    Remote(RemoteAttempt),
}

async fn find(daemon: &Arc<Daemon>, session: &SessionInPath) -> Result<(StoredAttempt, Place), Refusal> {
    // It is read first: an attempt that is not live any more has an end in the ledger.
    let status = daemon.status().await?;
    let id = session.0;
    let read = move |daemon: &Daemon| {
        let stored = daemon.ledger()?.attempt(id)?;
        let stored = stored.ok_or_else(|| unknown_session(&id.to_string()))?;
        let place = match RemoteAttempt::of(&stored, &status) {
            Some(remote) => Place::Remote(remote),
            None => Place::Local(history::files(&daemon.layout, &stored)),
        };
        Ok((stored, place))
    };
    daemon.run_blocking(read).await
}
