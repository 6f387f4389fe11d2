//! The table of all paths of the API. The router and the OpenAPI document are both built from it.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use vik_api::{
    ApprovalDecision, DecisionsPage, DiffView, EventsPage, Explained, FeedEvent, Health, IssuesPage,
    ReportView, Retry, RunsPage, SessionDetail, SignIn, SignInsPage, SignedIn, Status, StderrTail, Steered,
    WhichIssue,
};
use vik_base::report::ErrorCode;

use super::answer::Refusal;
use super::openapi::openapi;
use super::read::{self, Daemon, IssuesQuery, PastQuery, ReportQuery};
use super::sessions::{self, EventsQuery, StderrQuery};
use super::steer::{self, Nothing};
use super::{metrics, pages, signing};

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 64 * 1024;

/// Generates the schema of a type for the OpenAPI document.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// What a path responds with.
pub enum ResponseBody {
    Json(SchemaOf),
    /// JSON, also with status 503.
    Health(SchemaOf),
    /// Server-sent events, each with this type as its data.
    Events(SchemaOf),
    /// Text of this media type.
    Text(&'static str),
}

pub struct Route {
    /// The path below `/api/v1`.
    pub path: &'static str,
    pub method: Method,
    pub summary: &'static str,
    pub query: Option<SchemaOf>,
    pub body: Option<SchemaOf>,
    pub response: ResponseBody,
    /// Whether the path names an item, so that it can respond with 404.
    pub names_item: bool,
    pub needs_token: bool,
    /// Whether another path has replaced this one.
    pub is_deprecated: bool,
    handler: MethodRouter<Arc<Daemon>>,
}

impl Route {
    fn get(
        path: &'static str,
        summary: &'static str,
        gives: ResponseBody,
        handler: MethodRouter<Arc<Daemon>>,
    ) -> Self {
        Self {
            path,
            method: Method::GET,
            summary,
            query: None,
            body: None,
            response: gives,
            names_item: path.contains('{'),
            needs_token: true,
            is_deprecated: false,
            handler,
        }
    }

    fn post<B: JsonSchema>(
        path: &'static str,
        summary: &'static str,
        handler: MethodRouter<Arc<Daemon>>,
    ) -> Self {
        Self {
            method: Method::POST,
            body: Some(schema_of::<B>),
            ..Self::get(path, summary, ResponseBody::Json(schema_of::<Steered>), handler)
        }
    }

    fn query<Q: JsonSchema>(mut self) -> Self {
        self.query = Some(schema_of::<Q>);
        self
    }

    fn gives(mut self, gives: ResponseBody) -> Self {
        self.response = gives;
        self
    }

    fn for_anybody(mut self) -> Self {
        self.needs_token = false;
        self
    }

    fn deprecated(mut self) -> Self {
        self.is_deprecated = true;
        self
    }

    fn may_be_unknown(mut self) -> Self {
        self.names_item = true;
        self
    }
}

fn json<T: JsonSchema>() -> ResponseBody {
    ResponseBody::Json(schema_of::<T>)
}

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
            "Compare the issue's workspace with the commit it started from",
            json::<DiffView>(),
            get(sessions::diff),
        ),
        Route::get(
            "/runs",
            "List runs and their attempts, latest first",
            json::<RunsPage>(),
            get(read::runs),
        )
        .query::<PastQuery>(),
        Route::get(
            "/decisions",
            "List decisions and their reasons, latest first",
            json::<DecisionsPage>(),
            get(read::decisions),
        )
        .query::<PastQuery>(),
        Route::get(
            "/report",
            "Report the work and the cost of a period",
            json::<ReportView>(),
            get(read::report),
        )
        .query::<ReportQuery>(),
        Route::get(
            "/events",
            "Stream events as they happen; supports `Last-Event-ID`",
            ResponseBody::Events(schema_of::<FeedEvent>),
            get(read::events),
        ),
        Route::post::<Nothing>(
            "/refresh",
            "Reload the workflow file and pull issues now",
            post(steer::refresh),
        ),
        Route::post::<WhichIssue>(
            "/pause",
            "Pause scheduling for one issue or for all; running attempts continue",
            post(steer::pause),
        )
        .may_be_unknown(),
        Route::post::<WhichIssue>("/resume", "Resume after a pause", post(steer::resume)).may_be_unknown(),
        Route::post::<WhichIssue>("/continue", "The former path of `/resume`", post(steer::resume))
            .may_be_unknown()
            .deprecated(),
        Route::post::<Nothing>(
            "/drain",
            "Start no more attempts, and exit when none is running",
            post(steer::drain),
        ),
        Route::post::<Nothing>(
            "/issues/{id}/cancel",
            "Stop the running attempts of the issue, and park it",
            post(steer::cancel),
        ),
        Route::post::<Retry>(
            "/issues/{id}/retry",
            "Free the parked stages of the issue, or one of them, so that they can start again",
            post(steer::retry),
        ),
        Route::post::<Retry>(
            "/issues/{id}/unpark",
            "The former path of `/issues/{id}/retry`",
            post(steer::retry),
        )
        .deprecated(),
        Route::post::<ApprovalDecision>(
            "/issues/{id}/approve",
            "Approve a pending request",
            post(steer::approve),
        ),
        Route::post::<ApprovalDecision>(
            "/issues/{id}/deny",
            "Deny a pending request; a message says what to do instead",
            post(steer::deny),
        ),
        Route::post::<SignIn>(
            "/sign-in",
            "Exchange the code of a sign-in link for a browser token",
            post(signing::sign_in),
        )
        .gives(json::<SignedIn>())
        .for_anybody(),
        Route::get(
            "/sign-ins",
            "List the signed-in browsers, last used first",
            json::<SignInsPage>(),
            get(signing::list),
        ),
        Route::post::<Nothing>(
            "/sign-ins/{id}/revoke",
            "Sign out a browser and close its event streams",
            post(signing::revoke),
        ),
        Route::get(
            "/healthz",
            "Check that the daemon responds and can write its ledger",
            ResponseBody::Health(schema_of::<Health>),
            get(read::healthz),
        ),
        Route::get(
            "/readyz",
            "Check that the daemon accepts work: the age of the last successful pull",
            ResponseBody::Health(schema_of::<Health>),
            get(read::readyz),
        ),
        Route::get(
            "/metrics",
            "Metrics for Prometheus",
            ResponseBody::Text(metrics::TEXT_FORMAT),
            get(read::metrics),
        ),
        Route::get(
            "/openapi.json",
            "Return this document",
            json::<serde_json::Map<String, serde_json::Value>>(),
            get(async || axum::Json(openapi())),
        ),
    ]
}

/// Builds the router of the API and of the dashboard.
pub fn router(daemon: Arc<Daemon>) -> Router {
    let api = routes().into_iter().fold(Router::new(), |router, route| {
        router.route(route.path, route.handler)
    });
    Router::new()
        .nest("/api/v1", api)
        // The default paths of scrapers and probes.
        .route("/metrics", get(read::metrics))
        .route("/healthz", get(read::healthz))
        .route("/readyz", get(read::readyz))
        .route("/", get(pages::index))
        .route("/report", get(pages::index))
        .route("/sign-ins", get(pages::index))
        .route(pages::LOGIN, get(pages::index))
        .route("/issues/{id}", get(pages::index))
        .route("/sessions/{id}", get(pages::index))
        .route("/assets/{name}", get(pages::file))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(daemon)
}

async fn unknown() -> Response {
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
