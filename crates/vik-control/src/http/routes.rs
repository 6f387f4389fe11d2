//! The table of all paths of the API. The router and the OpenAPI document are both built from it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use vik_api::{
    DaemonLogPage, DecisionsPage, DiffView, EventsPage, Explained, FeedEvent, Health, IssuesPage, Link,
    PullsPage, ReportView, RunsPage, SessionDetail, SignIn, SignInsPage, SignedIn, Status, StderrTail,
    WorkflowPage,
};
use vik_base::report::ErrorCode;

use super::answer::{EmptyBody, Refusal};
use super::daemon::Daemon;
use super::forward;
use super::openapi::openapi;
use super::read::{self, IssuesQuery, PastQuery, RunsQuery};
use super::report::{self, ReportQuery};
use super::route::{DIFF_TIMEOUT, ResponseBody, Route, json, schema_of};
use super::service::{self, LogQuery};
use super::sessions::{self, EventsQuery, StderrQuery};
use super::{health, metrics, pages, signing, verbs};

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 64 * 1024;

/// The prefix of the paths of the API, which handlers do not see.
pub const API: &str = "/api/v1";

pub fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/state",
            "Show the status of the daemon",
            json::<Status>(),
            get(read::state),
        ),
        Route::get(
            "/issues",
            "List the issues by id",
            json::<IssuesPage>(),
            get(read::issues),
        )
        .query::<IssuesQuery>(),
        Route::get(
            "/issues/{id}",
            "Show one issue: its status, attempts and decisions",
            json::<Explained>(),
            get(read::issue),
        ),
        Route::get(
            "/issues/{id}/diff",
            "Compare the branch of an issue with the commit at which it began",
            json::<DiffView>(),
            get(read::diff),
        )
        .within(DIFF_TIMEOUT),
        Route::get(
            "/sessions/{id}",
            "Show one attempt: its issue, result, prompt and scripts",
            json::<SessionDetail>(),
            get(sessions::detail),
        ),
        Route::get(
            "/sessions/{id}/events",
            "List a page of the events of an attempt, by `seq`",
            json::<EventsPage>(),
            get(sessions::events),
        )
        .query::<EventsQuery>(),
        Route::get(
            "/sessions/{id}/stderr",
            "Show the end of the agent's stderr",
            json::<StderrTail>(),
            get(sessions::stderr),
        )
        .query::<StderrQuery>(),
        Route::get(
            "/sessions/{id}/diff",
            "Show what an attempt changed, and its commits",
            json::<DiffView>(),
            get(sessions::diff),
        )
        .within(DIFF_TIMEOUT),
        Route::get(
            "/runs",
            "List runs and their attempts, latest first",
            json::<RunsPage>(),
            get(read::runs),
        )
        .query::<RunsQuery>(),
        Route::get(
            "/decisions",
            "List decisions and their reasons, latest first",
            json::<DecisionsPage>(),
            get(read::decisions),
        )
        .query::<PastQuery>(),
        Route::get(
            "/workflow",
            "Show the workflow in force: all values, also defaults, without possible secrets",
            json::<WorkflowPage>(),
            get(service::workflow),
        ),
        Route::get(
            "/pulls",
            "List the latest pulls since the daemon started, latest first",
            json::<PullsPage>(),
            get(service::pulls),
        ),
        Route::get(
            "/log",
            "List lines of the daemon's log, latest first",
            json::<DaemonLogPage>(),
            get(service::log),
        )
        .query::<LogQuery>(),
        Route::get(
            "/report",
            "Report the work and the cost of a period",
            json::<ReportView>(),
            get(report::report),
        )
        .query::<ReportQuery>(),
        Route::get(
            "/events",
            "Stream events as they happen; supports `Last-Event-ID`",
            ResponseBody::Events(schema_of::<FeedEvent>),
            get(read::events),
        )
        .local(),
        verbs::refresh::route(),
        verbs::pause::route(),
        verbs::resume::route(),
        verbs::resume::former_route(),
        verbs::drain::route(),
        verbs::stop::route(),
        verbs::cancel::route(),
        verbs::retry::route(),
        verbs::retry::former_route(),
        verbs::run_again::route(),
        verbs::take_over::route(),
        verbs::hand_back::route(),
        verbs::approve::route(),
        verbs::deny::route(),
        verbs::answer_question::route(),
        verbs::message::send_route(),
        verbs::message::list_route(),
        verbs::message::withdraw_route(),
        Route::post::<EmptyBody>(
            "/link",
            "Create a link that opens the dashboard once; on the control socket only",
            post(signing::link),
        )
        .local()
        .gives(json::<Link>()),
        Route::post::<SignIn>(
            "/sign-in",
            "Exchange the code of a sign-in link for a browser token",
            post(signing::sign_in),
        )
        .local()
        .gives(json::<SignedIn>())
        .for_anybody(),
        Route::get(
            "/sign-ins",
            "List the signed-in browsers, last used first",
            json::<SignInsPage>(),
            get(signing::list),
        )
        .local(),
        Route::post::<EmptyBody>(
            "/sign-ins/{id}/revoke",
            "Sign out a browser and close its event streams",
            post(signing::revoke),
        )
        .local(),
        Route::post::<EmptyBody>(
            "/sign-ins/revoke",
            "Sign out all browsers; on the control socket only",
            post(signing::revoke_all),
        )
        .local(),
        Route::get(
            "/healthz",
            "Check that the daemon responds and can write its ledger",
            ResponseBody::Health(schema_of::<Health>),
            get(health::healthz),
        )
        .local(),
        Route::get(
            "/readyz",
            "Check that the daemon accepts work: the age of the last successful pull",
            ResponseBody::Health(schema_of::<Health>),
            get(health::readyz),
        )
        .local(),
        Route::get(
            "/metrics",
            "Metrics for Prometheus",
            ResponseBody::Text(metrics::TEXT_FORMAT),
            get(health::metrics),
        )
        .local(),
        Route::get(
            "/openapi.json",
            "Return this document",
            json::<serde_json::Map<String, serde_json::Value>>(),
            get(async || axum::Json(openapi())),
        )
        .local(),
    ]
}

/// Builds the router of the API and of the dashboard.
pub fn router(daemon: Arc<Daemon>) -> Router {
    let api = routes().into_iter().fold(Router::new(), |router, route| {
        let handler = forward::layer(route.handler, route.answers, &daemon);
        router.route(route.path, handler)
    });
    let pages = pages::PAGES.into_iter().fold(Router::new(), |router, path| {
        router.route(path, get(pages::index))
    });
    Router::new()
        .merge(pages)
        .nest(API, api)
        // The default paths of scrapers and probes.
        .route("/metrics", get(health::metrics))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        // Browsers request it for addresses that are no page of the dashboard.
        .route("/favicon.ico", get(pages::icon))
        .route("/issues/{id}", get(pages::index))
        .route("/sessions/{id}", get(pages::index))
        .route("/assets/{name}", get(pages::file))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(daemon)
}

/// Answers a request for an unknown path: with the page of the dashboard, which shows that nothing
/// is there, if a browser opens the address.
async fn unknown(request: Request) -> Response {
    if pages::is_opened_by_browser(&request) {
        return (StatusCode::NOT_FOUND, pages::index().await).into_response();
    }
    Refusal::new(StatusCode::NOT_FOUND, ErrorCode::NotFound, "no such path")
        .hint("`GET /api/v1/openapi.json` lists all paths")
        .into_response()
}

async fn wrong_method() -> Response {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::Method,
        "method not allowed for this path",
    )
    .into_response()
}
