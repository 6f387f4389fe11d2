//! Probes and metrics.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response as HttpResponse};
use jiff::Timestamp;
use vik_api::{DaemonState, Health};
use vik_base::report::{ErrorCode, Failure};

use super::answer::{Json, Refusal};
use super::daemon::Daemon;
use super::metrics;

/// The number of consecutive failed pulls after which the daemon is not ready.
const FAILED_PULLS: u64 = 3;

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
        // The hub that leads pulls.
        Ok(status) if status.daemon.state == DaemonState::Following => None,
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
