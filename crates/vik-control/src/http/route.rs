//! One path of the API.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use axum::routing::MethodRouter;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use vik_api::Steered;

use super::daemon::Daemon;

/// How long the hub that leads may take to answer. Clients wait for ten seconds.
pub const USUAL_TIMEOUT: Duration = Duration::from_secs(9);

/// The same for a diff, for which it starts processes.
pub const DIFF_TIMEOUT: Duration = Duration::from_secs(38);

/// The same for what waits for the tracker.
pub const TRACKER_TIMEOUT: Duration = Duration::from_secs(120);

/// Generates the schema of a type for the OpenAPI document.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

pub fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
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

/// Which hub answers the requests for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// The one that leads, to which the others pass them on, within this time.
    Leader(Duration),
    /// The one that receives them: they concern its own process.
    Receiver,
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
    /// Which hub of a workflow on several machines answers.
    pub answers: Answers,
    /// The status of a success.
    pub success: StatusCode,
    pub handler: MethodRouter<Arc<Daemon>>,
}

impl Route {
    pub fn get(
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
            answers: Answers::Leader(USUAL_TIMEOUT),
            success: StatusCode::OK,
            handler,
        }
    }

    pub fn post<B: JsonSchema>(
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

    pub fn delete(path: &'static str, summary: &'static str, handler: MethodRouter<Arc<Daemon>>) -> Self {
        Self {
            method: Method::DELETE,
            ..Self::get(path, summary, ResponseBody::Json(schema_of::<Steered>), handler)
        }
    }

    /// Makes the path respond with 202: the work follows.
    pub fn accepts(mut self) -> Self {
        self.success = StatusCode::ACCEPTED;
        self
    }

    pub fn query<Q: JsonSchema>(mut self) -> Self {
        self.query = Some(schema_of::<Q>);
        self
    }

    pub fn gives(mut self, gives: ResponseBody) -> Self {
        self.response = gives;
        self
    }

    /// Makes the hub that receives a request answer it, even if it follows.
    pub fn local(mut self) -> Self {
        self.answers = Answers::Receiver;
        self
    }

    /// Lets the hub that leads take longer than usual.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.answers = Answers::Leader(timeout);
        self
    }

    pub fn for_anybody(mut self) -> Self {
        self.needs_token = false;
        self
    }

    pub fn deprecated(mut self) -> Self {
        self.is_deprecated = true;
        self
    }

    pub fn may_be_unknown(mut self) -> Self {
        self.names_item = true;
        self
    }
}

pub fn json<T: JsonSchema>() -> ResponseBody {
    ResponseBody::Json(schema_of::<T>)
}
