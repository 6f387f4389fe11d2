//! The report of a period.

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use vik_api::ReportView;
use vik_base::report::{ErrorCode, ledger_failure};

use super::answer::{Answer, Json, Params, Refusal};
use super::daemon::Daemon;
use crate::figures::{self, Since, Window};

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
