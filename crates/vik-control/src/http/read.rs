//! Read requests, and how they query the daemon's loop.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};
use jiff::Timestamp;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::{Mutex, mpsc, oneshot};
use vik_api::{
    DaemonState, Decided, DecisionsPage, Explained, Explanation, Health, IssuesPage, PROTOCOL, ReportView,
    Request, Response, RunsPage, SCHEMA, Status, Verb,
};
use vik_base::report::{ErrorCode, Failure, ledger_failure};
use vik_core::ids::IssueId;
use vik_core::scheduler::Actor;
use vik_orchestrator::{ControlRequest, api_view};
use vik_proc::Supervisor;
use vik_store::ledger::Reader;
use vik_workspace::Layout;

use super::answer::{Answer, IssueInPath, Json, Params, Refusal};
use super::feed::Feed;
use super::keys::Keys;
use super::logs::Logs;
use super::metrics::{self, Metrics};
use super::sign_ins::SignInRef;
use super::transport::Connection;
use crate::figures::{self, Since, Window};
use crate::history;

/// How long the daemon's loop may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The maximum age of a shared status: many clients cause only a few queries of the loop per
/// second.
const FRESH: Duration = Duration::from_millis(100);

/// The number of consecutive failed pulls after which the daemon is not ready.
const FAILED_PULLS: u64 = 3;

/// The maximum number of decisions in the explanation of an issue.
const DECISIONS: u32 = 200;

/// The daemon, as the API accesses it.
#[derive(Debug)]
pub struct Daemon {
    pub(super) layout: Layout,
    pub(super) supervisor: Supervisor,
    pub(super) logs: Logs,
    pub(super) feed: Feed,
    pub(super) keys: Arc<Keys>,
    metrics: Metrics,
    asks: mpsc::Sender<ControlRequest>,
    latest: Mutex<Option<(Instant, Arc<Status>)>>,
}

impl Daemon {
    pub fn new(
        layout: Layout,
        supervisor: Supervisor,
        asks: mpsc::Sender<ControlRequest>,
        feed: Feed,
        metrics: Metrics,
        keys: Arc<Keys>,
    ) -> Self {
        Self {
            keys,
            layout,
            supervisor,
            logs: Logs::default(),
            feed,
            metrics,
            asks,
            latest: Mutex::new(None),
        }
    }

    /// Sends a request to the daemon's loop and returns its response.
    pub async fn ask(&self, verb: Verb, by: Actor) -> Result<Response, Refusal> {
        let stopping = || {
            Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::Stopping,
                "the daemon is shutting down",
            )
        };
        let (answer, receiver) = oneshot::channel();
        let request = Request { v: PROTOCOL, verb };
        let control_request = ControlRequest { request, by, answer };
        self.asks.send(control_request).await.map_err(|_| stopping())?;
        match tokio::time::timeout(ANSWER_WITHIN, receiver).await {
            Ok(Ok(Response::Error(error))) => Err(Refusal::of(error)),
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => Err(stopping()),
            Err(_) => Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::Busy,
                "the daemon did not answer in time",
            )),
        }
    }

    /// Returns the current status. Concurrent callers share one response.
    pub async fn status(&self) -> Result<Arc<Status>, Refusal> {
        let mut latest = self.latest.lock().await;
        if let Some((at, status)) = &*latest
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(status));
        }
        let Response::Status(status) = self.ask(Verb::Status, Actor::default()).await? else {
            return Err(Refusal::unexpected_response());
        };
        let status = Arc::new(*status);
        *latest = Some((Instant::now(), Arc::clone(&status)));
        Ok(status)
    }

    /// Discards the shared status.
    pub async fn forget_status(&self) {
        *self.latest.lock().await = None;
    }

    /// Runs `read` on a blocking thread, so that file access does not delay other requests.
    pub async fn run_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Self) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let daemon = Arc::clone(self);
        match tokio::task::spawn_blocking(move || read(&daemon)).await {
            Ok(done) => done,
            Err(error) => Err(Failure::failed(ErrorCode::Bug, "a query did not finish", &error).into()),
        }
    }

    /// Opens the ledger for reading. It exists while a daemon runs.
    pub fn ledger(&self) -> Result<Reader, Refusal> {
        match Reader::open(&self.layout.service_dir()) {
            Ok(Some(ledger)) => Ok(ledger),
            Ok(None) => Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::Ledger,
                "no ledger found",
            )),
            Err(error) => Err(ledger_failure(&error).into()),
        }
    }
}

pub async fn state(State(daemon): State<Arc<Daemon>>) -> Answer<Status> {
    Ok(Json((*daemon.status().await?).clone()))
}

/// A page of a list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IssuesQuery {
    /// Only issues after this id.
    after: Option<IssueId>,
    /// Only issues with this text in their id, title or state, ignoring case.
    q: Option<String>,
    /// Maximum number of items.
    #[schemars(with = "u32", range(min = 1, max = 1000))]
    limit: Option<Limit>,
}

/// The maximum number of items per page: 1 to 1000.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u32")]
pub struct Limit(u32);

impl TryFrom<u32> for Limit {
    type Error = &'static str;

    fn try_from(limit: u32) -> Result<Self, Self::Error> {
        match limit {
            1..=1000 => Ok(Self(limit)),
            _ => Err("`limit` must be a number from 1 to 1000"),
        }
    }
}

impl Limit {
    pub(super) fn or(limit: Option<Self>, default: u32) -> u32 {
        limit.map_or(default, |limit| limit.0)
    }
}

pub async fn issues(
    State(daemon): State<Arc<Daemon>>,
    Params(query): Params<IssuesQuery>,
) -> Answer<IssuesPage> {
    let verb = Verb::Issues {
        after: query.after,
        query: query.q,
        limit: Limit::or(query.limit, 200),
    };
    match daemon.ask(verb, Actor::default()).await? {
        Response::Issues(page) => Ok(Json(*page)),
        _ => Err(Refusal::unexpected_response()),
    }
}

pub async fn issue(State(daemon): State<Arc<Daemon>>, IssueInPath(issue): IssueInPath) -> Answer<Explained> {
    let status = daemon.status().await?;
    let verb = Verb::Explain { issue: issue.clone() };
    let now: Option<Explanation> = match daemon.ask(verb, Actor::default()).await? {
        Response::Explanation(now) => Some(*now),
        Response::NotFound => None,
        _ => return Err(Refusal::unexpected_response()),
    };
    let explained = daemon
        .run_blocking(move |daemon| {
            let ledger = daemon.ledger()?;
            let mut decisions = ledger
                .decisions(Some(&issue), DECISIONS)
                .map_err(|error| ledger_failure(&error))?;
            decisions.reverse();
            let runs = history::of_issue(&daemon.layout, Some(&ledger), Some(&status), &issue)
                .map_err(|error| Failure::failed(ErrorCode::History, "cannot read the history", &error))?;
            let known = decisions.iter().any(|decision| decision.issue.is_some());
            if now.is_none() && runs.is_empty() && !known {
                return Err(Refusal::unknown_issue(&issue));
            }
            Ok(Explained {
                schema: SCHEMA,
                daemon: status.daemon.clone(),
                issue_id: issue,
                now,
                decisions: decisions.into_iter().map(api_view::decision).collect(),
                runs,
            })
        })
        .await?;
    Ok(Json(explained))
}

/// The issue and the maximum number of items.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PastQuery {
    /// Only items of this issue.
    issue: Option<IssueId>,
    /// Maximum number of items.
    #[schemars(with = "u32", range(min = 1, max = 1000))]
    limit: Option<Limit>,
}

pub async fn runs(State(daemon): State<Arc<Daemon>>, Params(query): Params<PastQuery>) -> Answer<RunsPage> {
    let status = daemon.status().await?;
    let limit = Limit::or(query.limit, 100);
    let page = daemon
        .run_blocking(move |daemon| {
            let ledger = daemon.ledger()?;
            let (runs, more) = match query.issue {
                None => history::latest(&daemon.layout, &ledger, Some(&status), limit)
                    .map_err(|error| ledger_failure(&error))?,
                Some(issue) => {
                    let found = history::of_issue(&daemon.layout, Some(&ledger), Some(&status), &issue);
                    let mut runs = found.map_err(|error| {
                        Failure::failed(ErrorCode::History, "cannot read the history", &error)
                    })?;
                    runs.reverse();
                    let more = runs.len() > limit as usize;
                    runs.truncate(limit as usize);
                    (runs, more)
                }
            };
            Ok(RunsPage {
                schema: SCHEMA,
                runs,
                more,
            })
        })
        .await?;
    Ok(Json(page))
}

pub async fn decisions(
    State(daemon): State<Arc<Daemon>>,
    Params(query): Params<PastQuery>,
) -> Answer<DecisionsPage> {
    let limit = Limit::or(query.limit, 100);
    let page = daemon
        .run_blocking(move |daemon| {
            let mut found = daemon
                .ledger()?
                .decisions(query.issue.as_ref(), limit + 1)
                .map_err(|error| ledger_failure(&error))?;
            let more = found.len() > limit as usize;
            found.truncate(limit as usize);
            let decided = found.into_iter().map(|decision| Decided {
                issue_id: decision.issue.clone(),
                decision: api_view::decision(decision),
            });
            Ok(DecisionsPage {
                schema: SCHEMA,
                decisions: decided.collect(),
                more,
            })
        })
        .await?;
    Ok(Json(page))
}

/// The period.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportQuery {
    /// Start of the period: a duration before now (`24h`, `7d`), a date, or a time (RFC 3339).
    /// Default: `7d`.
    #[schemars(with = "String", regex(pattern = SINCE))]
    since: Option<String>,
}

/// The pattern of `since`. The OpenAPI document publishes the same pattern.
static SINCE_FORM: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(SINCE).ok());

const SINCE: &str = "^([1-9][0-9]{0,3}[smhd]|20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])\
    (T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z)?)$";

pub async fn report(
    State(daemon): State<Arc<Daemon>>,
    Params(query): Params<ReportQuery>,
) -> Answer<ReportView> {
    let now = Timestamp::now();
    let text = query.since.as_deref().unwrap_or("7d");
    let is_valid = SINCE_FORM.as_ref().is_some_and(|form| form.is_match(text));
    let since: Since = is_valid.then(|| text.parse().ok()).flatten().ok_or_else(|| {
        Refusal::new(
            StatusCode::BAD_REQUEST,
            ErrorCode::BadRequest,
            "`since` must be a duration (`24h`, `7d`), a date (`2026-03-01`), or a time (`2026-03-01T12:00:00Z`)",
        )
    })?;
    // A time in the future gives an empty time span.
    let since = since.before(now);
    let report = daemon
        .run_blocking(move |daemon| {
            let ledger = daemon.ledger()?;
            let report = figures::report(Some(&ledger), Window::new(since, now, None));
            Ok(report.map_err(|error| ledger_failure(&error))?)
        })
        .await?;
    Ok(Json(report))
}

pub async fn events(
    State(daemon): State<Arc<Daemon>>,
    Extension(connection): Extension<Connection>,
    sign_in: Option<Extension<SignInRef>>,
    headers: axum::http::HeaderMap,
) -> HttpResponse {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    daemon
        .feed
        .answer(last, connection, sign_in.map(|Extension(sign_in)| sign_in))
}

pub async fn healthz(State(daemon): State<Arc<Daemon>>) -> HttpResponse {
    let why = match daemon.status().await {
        Ok(status) => status.ledger.as_ref().and_then(|ledger| ledger.error.clone()),
        Err(_) => Some("the main loop of the daemon does not respond".to_owned()),
    };
    health(&daemon, why)
}

pub async fn readyz(State(daemon): State<Arc<Daemon>>) -> HttpResponse {
    let why = match daemon.status().await {
        Err(_) => Some("the main loop of the daemon does not respond".to_owned()),
        Ok(status) if status.daemon.state != DaemonState::Running => {
            Some("the daemon is shutting down".to_owned())
        }
        Ok(status) if status.pulls.failed_in_a_row >= FAILED_PULLS => {
            Some(format!("the last {} pulls failed", status.pulls.failed_in_a_row))
        }
        Ok(status) if status.pulls.ok == 0 => Some("no pull has succeeded yet".to_owned()),
        Ok(_) => None,
    };
    health(&daemon, why)
}

fn health(daemon: &Daemon, why: Option<String>) -> HttpResponse {
    let at = daemon.metrics.last_good_pull();
    let age = at.map(|at| Timestamp::now().as_millisecond() - at.as_millisecond());
    let status = if why.is_none() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let health = Health {
        ok: why.is_none(),
        why,
        last_good_pull_at: at,
        last_good_pull_age_ms: age.map(|age| u64::try_from(age).unwrap_or(0)),
    };
    (status, Json(health)).into_response()
}

pub async fn metrics(State(daemon): State<Arc<Daemon>>) -> Result<HttpResponse, Refusal> {
    let status = daemon.status().await?;
    let text = daemon
        .metrics
        .text(&status, daemon.feed.readers())
        .map_err(|error| Failure::failed(ErrorCode::Metrics, "cannot encode the metrics", &error))?;
    Ok(([(header::CONTENT_TYPE, metrics::TEXT_FORMAT)], text).into_response())
}
