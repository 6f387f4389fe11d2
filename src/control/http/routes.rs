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
    ReportView, RunsPage, SessionDetail, SignIn, SignInsPage, SignedIn, Status, StderrTail, Steered, Unpark,
    WhichIssue,
};

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
            "What the daemon does now",
            json::<Status>(),
            get(read::state),
        ),
        Route::get(
            "/issues",
            "Where issues stand, in the order of their ids",
            json::<IssuesPage>(),
            get(read::issues),
        )
        .query::<IssuesQuery>(),
        Route::get(
            "/issues/{id}",
            "All that is known about one issue: where it stands, and what led there",
            json::<Explained>(),
            get(read::issue),
        ),
        Route::get(
            "/sessions/{id}",
            "One attempt: what it was for, how it went, its prompt and its scripts",
            json::<SessionDetail>(),
            get(sessions::detail),
        ),
        Route::get(
            "/sessions/{id}/events",
            "A page of the events of an attempt, by `seq`",
            json::<EventsPage>(),
            get(sessions::events),
        )
        .query::<EventsQuery>(),
        Route::get(
            "/sessions/{id}/stderr",
            "The end of what the agent printed to stderr",
            json::<StderrTail>(),
            get(sessions::stderr),
        )
        .query::<StderrQuery>(),
        Route::get(
            "/sessions/{id}/diff",
            "What the issue's workspace has now that the commit it began with does not",
            json::<DiffView>(),
            get(sessions::diff),
        ),
        Route::get(
            "/runs",
            "Runs and their attempts, the latest first",
            json::<RunsPage>(),
            get(read::runs),
        )
        .query::<PastQuery>(),
        Route::get(
            "/decisions",
            "What was decided and why, the latest first",
            json::<DecisionsPage>(),
            get(read::decisions),
        )
        .query::<PastQuery>(),
        Route::get(
            "/report",
            "What was done in a span of time, and what it cost",
            json::<ReportView>(),
            get(read::report),
        )
        .query::<ReportQuery>(),
        Route::get(
            "/events",
            "What happens, as it happens; takes `Last-Event-ID`",
            ResponseBody::Events(schema_of::<FeedEvent>),
            get(read::events),
        ),
        Route::post::<Nothing>(
            "/refresh",
            "Look at the workflow file and at the issues now",
            post(steer::refresh),
        ),
        Route::post::<WhichIssue>(
            "/pause",
            "Start nothing more, for one issue or at all; what runs goes on",
            post(steer::pause),
        )
        .may_be_unknown(),
        Route::post::<WhichIssue>("/continue", "Take a pause back", post(steer::resume)).may_be_unknown(),
        Route::post::<Nothing>(
            "/drain",
            "Start nothing more, and end when nothing runs",
            post(steer::drain),
        ),
        Route::post::<Nothing>(
            "/issues/{id}/cancel",
            "Stop what runs for the issue, and park it",
            post(steer::cancel),
        ),
        Route::post::<Unpark>(
            "/issues/{id}/unpark",
            "Free what is parked for the issue",
            post(steer::unpark),
        ),
        Route::post::<ApprovalDecision>(
            "/issues/{id}/approve",
            "Let go on what waits for a person",
            post(steer::approve),
        ),
        Route::post::<ApprovalDecision>(
            "/issues/{id}/deny",
            "Deny what waits for a person; a message says what to do instead",
            post(steer::deny),
        ),
        Route::post::<SignIn>(
            "/sign-in",
            "Exchange the code of a link for a token of this browser",
            post(signing::sign_in),
        )
        .gives(json::<SignedIn>())
        .for_anybody(),
        Route::get(
            "/sign-ins",
            "The browsers that are signed in, the latest used first",
            json::<SignInsPage>(),
            get(signing::list),
        ),
        Route::post::<Nothing>(
            "/sign-ins/{id}/revoke",
            "Sign a browser out; its event streams end",
            post(signing::revoke),
        ),
        Route::get(
            "/healthz",
            "Whether the daemon answers and can keep what it decides",
            ResponseBody::Health(schema_of::<Health>),
            get(read::healthz),
        ),
        Route::get(
            "/readyz",
            "Whether it takes work: the age of the last good pull",
            ResponseBody::Health(schema_of::<Health>),
            get(read::readyz),
        ),
        Route::get(
            "/metrics",
            "What Prometheus scrapes",
            ResponseBody::Text(metrics::TEXT_FORMAT),
            get(read::metrics),
        ),
        Route::get(
            "/openapi.json",
            "This document",
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
    Refusal::new(StatusCode::NOT_FOUND, "not_found", "there is nothing here")
        .hint("`GET /api/v1/openapi.json` tells what there is")
        .into_response()
}

async fn wrong_method() -> Response {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method",
        "the path does not take this method",
    )
    .into_response()
}
