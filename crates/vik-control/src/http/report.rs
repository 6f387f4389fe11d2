//! The report of a period.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use vik_api::ReportView;
use vik_core::duration::Span;

use super::answer::{Answer, Json, Params};
use super::daemon::Daemon;
use super::params::TimeParam;
use crate::PointInTime;
use crate::figures::{self, Window};

/// The default start of the period.
const LAST_WEEK: PointInTime = PointInTime::Ago(Span::mins(7 * 24 * 60));

/// The period.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportQuery {
    /// Start of the period: a duration before now (`24h`, `7d`), a date, or a time (RFC 3339).
    /// Default: `7d`.
    since: Option<TimeParam>,
}

pub async fn report(
    State(daemon): State<Arc<Daemon>>,
    Params(query): Params<ReportQuery>,
) -> Answer<ReportView> {
    let now = Timestamp::now();
    // A time in the future gives an empty time span.
    let since = query
        .since
        .map_or(LAST_WEEK, |TimeParam(since)| since)
        .before(now);
    let report = daemon
        .run_blocking(move |daemon| {
            let ledger = daemon.ledger()?;
            let report = figures::report(Some(&ledger), Window::new(since, now, None));
            Ok(report?)
        })
        .await?;
    Ok(Json(report))
}
