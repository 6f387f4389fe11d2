//! Read requests: the status, issues, runs, decisions and the feed.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response as HttpResponse;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use vik_api::{Decided, DecisionsPage, DiffView, Explained, IssuesPage, RunsPage, SCHEMA, Status};
use vik_base::report::{ErrorCode, Failure};
use vik_core::ids::{AgentName, IssueId, RunId, StageName};
use vik_orchestrator::{ControlRequest, api_view};
use vik_store::ledger::RunFilter;

use super::answer::{Answer, IssueInPath, Json, Params, Refusal};
use super::daemon::Daemon;
use super::params::{Limit, OutcomesParam, TimeParam};
use super::sign_ins::SignInRef;
use super::transport::{Connection, Transport};
use crate::{diff, history};

/// The maximum number of decisions in the explanation of an issue.
const DECISIONS: u32 = 200;

/// Returns the status. A client of the control socket, also of another hub, gets the current one: a script that runs
/// `vik status` after an event relies on its effect.
async fn status_for(daemon: &Daemon, transport: &Transport) -> Result<Arc<Status>, Refusal> {
    if !matches!(transport, Transport::Tcp(_)) {
        daemon.forget_status().await;
    }
    daemon.status().await
}

pub async fn state(
    State(daemon): State<Arc<Daemon>>,
    Extension(transport): Extension<Transport>,
) -> Answer<Status> {
    let mut status = (*status_for(&daemon, &transport).await?).clone();
    if let Transport::Forwarded(follower) = transport {
        follower.add_to(&mut status);
    }
    Ok(Json(status))
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
    limit: Option<Limit>,
}

pub async fn issues(
    State(daemon): State<Arc<Daemon>>,
    Params(query): Params<IssuesQuery>,
) -> Answer<IssuesPage> {
    let IssuesQuery {
        after,
        q: query,
        limit,
    } = query;
    let limit = Limit::or(limit, 200);
    let page = daemon.ask(|answer| ControlRequest::Issues {
        after,
        query,
        limit,
        answer,
    });
    Ok(Json(page.await?))
}

pub async fn issue(
    State(daemon): State<Arc<Daemon>>,
    Extension(transport): Extension<Transport>,
    IssueInPath(issue): IssueInPath,
) -> Answer<Explained> {
    let status = status_for(&daemon, &transport).await?;
    let now = daemon.ask(|answer| ControlRequest::Explain {
        issue: issue.clone(),
        answer,
    });
    let (now, in_use) = now.await?.unzip();
    let explained = daemon
        .run_blocking(move |daemon| {
            let ledger = daemon.ledger()?;
            let mut decisions = ledger.decisions(Some(&issue), DECISIONS)?;
            decisions.reverse();
            let runs = history::of_issue(&daemon.layout, Some(&ledger), Some(&status), &issue)
                .map_err(|error| Failure::failed(ErrorCode::History, "cannot read the history", &error))?;
            let known = decisions.iter().any(|decision| decision.issue.is_some());
            if now.is_none() && runs.is_empty() && !known {
                return Err(Refusal::unknown_issue(&issue));
            }
            let issue_title = history::issue_title(now.as_ref(), Some(&ledger), &issue)?;
            let details = history::issue_details(in_use.as_ref(), Some(&ledger), &issue)?;
            Ok(Explained {
                schema: SCHEMA,
                daemon: status.daemon.clone(),
                issue_id: issue,
                issue_title,
                issue: details,
                now,
                decisions: decisions.into_iter().map(api_view::decision).collect(),
                runs,
            })
        })
        .await?;
    Ok(Json(explained))
}

pub async fn diff(State(daemon): State<Arc<Daemon>>, IssueInPath(issue): IssueInPath) -> Answer<DiffView> {
    if let Some(diff) = daemon.diffs().of_issue(&issue).await {
        return Ok(Json(diff));
    }
    let known = daemon.ask(|answer| ControlRequest::Explain {
        issue: issue.clone(),
        answer,
    });
    match known.await? {
        Some(_) => Ok(Json(diff::empty("no attempt of this issue has started"))),
        None => Err(Refusal::unknown_issue(&issue)),
    }
}

/// The issue and the maximum number of items.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PastQuery {
    /// Only items of this issue.
    issue: Option<IssueId>,
    /// Maximum number of items.
    limit: Option<Limit>,
}

/// The conditions of a list of runs, and its page.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunsQuery {
    /// Only runs of this issue.
    issue: Option<IssueId>,
    /// Only runs of this stage.
    stage: Option<StageName>,
    /// Only runs with an attempt of this agent.
    agent: Option<AgentName>,
    /// Only runs whose last attempt has one of these outcomes, separated by commas.
    outcome: Option<OutcomesParam>,
    /// Only runs that started at or after this time.
    since: Option<TimeParam>,
    /// Only runs that started before this time.
    until: Option<TimeParam>,
    /// Only runs of issues with this text in their id or title, ignoring case.
    q: Option<String>,
    /// Only runs before this one: the `run_id` of the last run of a page gives the next page.
    #[schemars(with = "String", extend("format" = "uuid"))]
    before: Option<RunId>,
    /// Maximum number of items.
    limit: Option<Limit>,
}

pub async fn runs(State(daemon): State<Arc<Daemon>>, Params(query): Params<RunsQuery>) -> Answer<RunsPage> {
    let status = daemon.status().await?;
    let limit = Limit::or(query.limit, 100) as usize;
    let now = Timestamp::now();
    let time = |param: Option<TimeParam>| param.map(|TimeParam(time)| time.before(now));
    let filter = RunFilter {
        issue: query.issue,
        stage: query.stage,
        agent: query.agent,
        outcomes: query.outcome.unwrap_or_default().0,
        since: time(query.since),
        until: time(query.until),
        text: query.q,
        before: query.before,
    };
    let page = daemon
        .run_blocking(move |daemon| {
            let ledger = daemon.ledger()?;
            let (runs, more) = history::selected(&daemon.layout, &ledger, Some(&status), &filter, limit)?;
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
            let mut found = daemon.ledger()?.decisions(query.issue.as_ref(), limit + 1)?;
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
