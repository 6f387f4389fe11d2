//! Read requests about the daemon itself: its workflow, log and pulls.

use std::sync::Arc;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use vik_api::{DaemonLogPage, LogLevel, PullsPage, SCHEMA, WorkflowPage};
use vik_base::report::{ErrorCode, Failure};
use vik_core::workflow::settings;
use vik_orchestrator::ControlRequest;

use super::answer::{Answer, Json, Params};
use super::daemon::Daemon;
use super::params::{CursorParam, Limit};
use crate::daemon_log::{self, LogFilter};

/// Returns the workflow in force, with the defaults and without possible secrets.
pub async fn workflow(State(daemon): State<Arc<Daemon>>) -> Answer<WorkflowPage> {
    let status = daemon.status().await?;
    let workflow = daemon.ask(ControlRequest::Workflow).await?;
    let view = status.workflow.clone();
    let mut settings = settings(&workflow);
    for value in settings.iter_mut().filter_map(|setting| setting.value.as_mut()) {
        *value = vik_mask::mask(value).into_owned();
    }
    Ok(Json(WorkflowPage {
        schema: SCHEMA,
        path: status.daemon.workflow_path.clone(),
        workflow: view,
        settings,
    }))
}

pub async fn pulls(State(daemon): State<Arc<Daemon>>) -> Answer<PullsPage> {
    Ok(Json(PullsPage {
        schema: SCHEMA,
        pulls: daemon.ask(ControlRequest::Pulls).await?,
    }))
}

/// The conditions of a page of the log.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogQuery {
    /// Only lines before this position, the `next` of another page.
    before: Option<CursorParam>,
    /// Only lines of this level or a more severe one.
    level: Option<LogLevel>,
    /// Only lines about this issue.
    issue: Option<String>,
    /// Only lines with this text, ignoring case.
    q: Option<String>,
    /// Maximum number of lines.
    limit: Option<Limit>,
}

/// Returns a page of the daemon's log. Secrets were masked when the lines were written.
pub async fn log(
    State(daemon): State<Arc<Daemon>>,
    Params(query): Params<LogQuery>,
) -> Answer<DaemonLogPage> {
    let LogQuery {
        before,
        level,
        issue,
        q: text,
        limit,
    } = query;
    let before = before.map(|CursorParam(cursor)| cursor);
    let limit = Limit::or(limit, 200) as usize;
    let page = daemon.run_blocking(move |daemon| {
        let filter = LogFilter { level, issue, text };
        let (lines, next) = daemon_log::page(&daemon.layout.logs_dir(), &filter, before.as_ref(), limit)
            .map_err(|error| Failure::failed(ErrorCode::History, "cannot read the log", &error))?;
        Ok(DaemonLogPage {
            schema: SCHEMA,
            lines,
            next: next.map(|cursor| cursor.to_string()),
        })
    });
    Ok(Json(page.await?))
}
