//! One attempt: its details, its events, its agent's stderr, its file changes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use vik_api::{DiffView, EventsPage, Excerpt, SCHEMA, ScriptView, SessionDetail, StderrTail};
use vik_base::report::{ErrorCode, Failure};
use vik_session::attempt::PROMPT;
use vik_session::secrets::masked;
use vik_store::ledger::StoredAttempt;
use vik_store::{AttemptFiles, Step};
use vik_workspace::fs as private;

use super::answer::{Answer, Json, Params, Refusal, SessionInPath, unknown_session};
use super::daemon::Daemon;
use super::event_filter::EventFilter;
use super::params::{KindsParam, Limit};
use crate::history;

/// The maximum size shown of a prompt or of a script's output, in bytes.
const EXCERPT: u64 = 256 * 1024;

/// The maximum size of a stderr response, in bytes.
const MOST_STDERR: u64 = 1024 * 1024;

pub async fn detail(State(daemon): State<Arc<Daemon>>, session: SessionInPath) -> Answer<SessionDetail> {
    let status = daemon.status().await?;
    let id = session.0;
    let detail = daemon
        .run_blocking(move |daemon| {
            let ledger = daemon.ledger()?;
            let found = history::attempt(&daemon.layout, &ledger, Some(&status), id)?;
            let (past, attempt) = found.ok_or_else(|| unknown_session(&id.to_string()))?;
            let record = past.record;
            let live = status
                .sessions
                .iter()
                .find(|session| session.session_id == attempt.session_id);
            Ok(SessionDetail {
                schema: SCHEMA,
                run_id: record.run_id.to_string(),
                issue_id: record.issue_id,
                issue_title: record.issue_title,
                stage: record.stage,
                agent: record.agent,
                runtime: record.runtime,
                model: record.model,
                live: live.cloned(),
                attempt,
                prompt: start_of(&past.files.prompt()),
                scripts: scripts(&past.files),
            })
        })
        .await?;
    Ok(Json(detail))
}

/// Returns the scripts that ran around the agent, from the journal, with their output.
fn scripts(files: &AttemptFiles) -> Vec<ScriptView> {
    let mut scripts: Vec<ScriptView> = Vec::new();
    let mut started_at = HashMap::new();
    for (at, step) in vik_store::timed_steps(&files.journal()) {
        match step {
            Step::Started { script } => {
                scripts.retain(|view| view.name != script);
                started_at.insert(script.clone(), at);
                let output = end_of(&files.hook(&script), EXCERPT);
                scripts.push(ScriptView {
                    name: script,
                    ok: None,
                    reason: None,
                    duration_ms: None,
                    output: output.map(|(text, left_out)| Excerpt { text, left_out }),
                });
            }
            Step::Finished { script, trouble } => {
                if let Some(view) = scripts.iter_mut().find(|view| view.name == script) {
                    view.ok = Some(trouble.is_none());
                    // A clock that was set back leaves no duration.
                    let millis = started_at
                        .get(&script)
                        .map(|start| at.duration_since(*start).as_millis());
                    view.duration_ms = millis.and_then(|millis| u64::try_from(millis).ok());
                    view.reason = trouble.map(|trouble| trouble.reason);
                }
            }
            _ => {}
        }
    }
    // The output of successful prompt commands is part of the prompt.
    scripts.retain(|view| view.name != PROMPT || view.ok != Some(true));
    scripts
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
    let filter =
        EventFilter::new(text, kinds, query.errors).map_err(|_| bad_request("`q` is too long".to_owned()))?;
    let page = daemon
        .run_blocking(move |daemon| {
            let files = files(daemon, &session)?;
            let limit = Limit::or(query.limit, 200) as usize;
            let page = daemon
                .logs
                .page(&files.log(), query.after.unwrap_or(0), limit, &filter)
                .map_err(|error| {
                    Failure::failed(ErrorCode::Logs, "cannot read the log of the session", &error)
                })?;
            Ok(EventsPage {
                schema: SCHEMA,
                session_id: session.0.to_string(),
                events: page.events,
                scanned_to: page.scanned_to,
                last_seq: page.last,
                ended: page.ended,
            })
        })
        .await?;
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
    let tail = daemon
        .run_blocking(move |daemon| {
            let files = files(daemon, &session)?;
            let (text, left_out) = end_of(&files.stderr(), bytes).unwrap_or_default();
            Ok(StderrTail {
                schema: SCHEMA,
                text,
                left_out,
            })
        })
        .await?;
    Ok(Json(tail))
}

pub async fn diff(State(daemon): State<Arc<Daemon>>, session: SessionInPath) -> Answer<DiffView> {
    let found = daemon
        .run_blocking(move |daemon| find_attempt(daemon, &session))
        .await?;
    let files = history::files(&daemon.layout, &found);
    let started = &found.started;
    let diff = daemon
        .diffs()
        .of_attempt(&started.issue, started.attempt_id, files);
    Ok(Json(diff.await))
}

fn bad_request(message: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, ErrorCode::BadRequest, message)
}

fn find_attempt(daemon: &Daemon, session: &SessionInPath) -> Result<StoredAttempt, Refusal> {
    let found = daemon.ledger()?.attempt(session.0)?;
    found.ok_or_else(|| unknown_session(&session.0.to_string()))
}

fn files(daemon: &Daemon, session: &SessionInPath) -> Result<AttemptFiles, Refusal> {
    Ok(history::files(&daemon.layout, &find_attempt(daemon, session)?))
}

/// Reads the start of a file. Returns `None` if the file is missing or unreadable.
fn start_of(path: &Path) -> Option<Excerpt> {
    let mut file = private::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    Some(Excerpt {
        text: masked::read(&mut file, 0..size.min(EXCERPT)).ok()?,
        left_out: size.saturating_sub(EXCERPT),
    })
}

/// Reads the end of a file and returns it with the number of bytes before it.
fn end_of(path: &Path, max_bytes: u64) -> Option<(String, u64)> {
    let mut file = private::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    let left_out = size.saturating_sub(max_bytes);
    Some((masked::read(&mut file, left_out..size).ok()?, left_out))
}
