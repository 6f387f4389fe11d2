//! Errors as RFC 9457 problems, and the extractors that return them.

use axum::body::Body;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use vik_api::{ErrorBody, PROBLEM_JSON, Problem};
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::ids::{AttemptId, IssueId};
use vik_core::message::MessageRefusal;
use vik_core::question::AnswerRefusal;
use vik_core::scheduler::CommandResult;
use vik_store::ledger::LedgerError;

/// Why a request was refused or failed.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    error: ErrorBody,
}

impl Refusal {
    /// Creates a refusal with a status, a stable code and a message.
    pub fn new(status: StatusCode, code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            status,
            error: ErrorBody {
                code: code.to_string(),
                message: message.into(),
                hint: None,
            },
        }
    }

    /// Returns a refusal of a daemon that cannot answer now.
    pub fn unavailable(code: ErrorCode, message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }

    /// Returns the response, which also closes the connection.
    pub fn closing(self) -> Response {
        let mut response = self.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }

    /// Converts an error of the daemon.
    pub fn of(error: ErrorBody) -> Self {
        let is = |code: ErrorCode| error.code == code.as_str();
        let status = if is(ErrorCode::BadRequest) || is(ErrorCode::Usage) {
            StatusCode::BAD_REQUEST
        } else if is(ErrorCode::CannotMove) || is(ErrorCode::InUse) {
            StatusCode::CONFLICT
        } else if is(ErrorCode::Refused) {
            StatusCode::FORBIDDEN
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        Self { status, error }
    }

    /// Returns the refusal of an agent.
    pub fn agent() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            ErrorCode::Refused,
            "agents must not control the daemon that runs them",
        )
    }

    /// Returns the refusal for a command that had no result.
    pub fn of_result(result: CommandResult, issue: Option<&IssueId>) -> Self {
        match result {
            CommandResult::UnknownIssue => Self::unknown_issue(&issue.cloned().unwrap_or_else(|| "".into())),
            CommandResult::UnknownStage { stage, known } => {
                vik_orchestrator::api_view::unknown_stage(stage.as_str(), known.iter()).into()
            }
            CommandResult::Refused(refusal) => {
                let status = match refusal {
                    MessageRefusal::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
                    MessageRefusal::Empty | MessageRefusal::ControlCharacter(_) => {
                        StatusCode::UNPROCESSABLE_ENTITY
                    }
                    MessageRefusal::NotWaiting => StatusCode::NOT_FOUND,
                    MessageRefusal::TooMany | MessageRefusal::Finished(_) | MessageRefusal::MayBeRead => {
                        StatusCode::CONFLICT
                    }
                };
                let error = vik_orchestrator::api_view::message_refused(&refusal).body();
                Self { status, error }
            }
            CommandResult::AnswerRefused(refusal) => Self::of_answer(&refusal),
            CommandResult::Done(_) | CommandResult::NoEffect(_) | CommandResult::Sent(_) => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                ErrorCode::Bug,
                "unexpected result",
            ),
        }
    }

    /// Returns the refusal of an answer to a question.
    pub fn of_answer(refusal: &AnswerRefusal) -> Self {
        let status = match refusal {
            AnswerRefusal::Text(MessageRefusal::TooLong(_)) => StatusCode::PAYLOAD_TOO_LARGE,
            AnswerRefusal::Text(_) | AnswerRefusal::NoSuchChoice { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            AnswerRefusal::NoQuestion => StatusCode::NOT_FOUND,
            AnswerRefusal::OtherQuestion | AnswerRefusal::Several(_) | AnswerRefusal::TakenOver => {
                StatusCode::CONFLICT
            }
        };
        let error = vik_orchestrator::api_view::answer_refused(refusal).body();
        Self { status, error }
    }

    pub fn unknown_issue(issue: &IssueId) -> Self {
        vik_orchestrator::api_view::unknown_issue(issue.as_str()).into()
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let status = match failure.exit {
            Exit::NotFound => StatusCode::NOT_FOUND,
            Exit::Usage if failure.code() == ErrorCode::UnknownStage.as_str() => StatusCode::NOT_FOUND,
            Exit::Usage => StatusCode::BAD_REQUEST,
            Exit::NoDaemon | Exit::TimedOut => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self {
            status,
            error: failure.body(),
        }
    }
}

impl From<LedgerError> for Refusal {
    fn from(error: LedgerError) -> Self {
        Failure::from(error).into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let problem = Problem::new(self.status.as_u16(), title, self.error);
        let mut response = (self.status, Json(problem)).into_response();
        let kind = HeaderValue::from_static(PROBLEM_JSON);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

/// A JSON response in which secrets are masked.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_string(&self.0) {
            Ok(text) => {
                let kind = HeaderValue::from_static("application/json");
                let text = vik_mask::mask_json(&text).into_owned();
                ([(header::CONTENT_TYPE, kind)], text).into_response()
            }
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}

/// A JSON response or a refusal.
pub type Answer<T> = Result<Json<T>, Refusal>;

/// The parsed query of a request.
#[derive(Debug)]
pub struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let parsed: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        match parsed {
            Ok(Query(params)) => Ok(Self(params)),
            Err(rejection) => Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                ErrorCode::BadRequest,
                rejection.body_text(),
            )),
        }
    }
}

/// The parsed JSON body of a request.
#[derive(Debug)]
pub struct Input<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Input<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request<Body>, state: &S) -> Result<Self, Refusal> {
        let refused = |status, why: String| {
            Refusal::new(status, ErrorCode::BadRequest, why)
                .hint("send a JSON object with `Content-Type: application/json`, at least `{}`")
        };
        // Requires an object: deserialization of a struct would also accept a list without field
        // names.
        let parsed: Result<axum::Json<Map<String, Value>>, JsonRejection> =
            axum::Json::from_request(request, state).await;
        match parsed {
            Ok(axum::Json(object)) => serde_json::from_value(object.into())
                .map(Self)
                .map_err(|why| refused(StatusCode::UNPROCESSABLE_ENTITY, why.to_string())),
            Err(rejection) => Err(refused(rejection.status(), rejection.body_text())),
        }
    }
}

/// An empty body.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Nothing")]
pub struct EmptyBody {}

/// The issue id in the path.
#[derive(Debug)]
pub struct IssueInPath(pub IssueId);

impl<S: Send + Sync> FromRequestParts<S> for IssueInPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let id = text_in_path(parts, state).await?;
        Ok(Self(IssueId::new(id)))
    }
}

/// The attempt id in the path.
#[derive(Debug)]
pub struct SessionInPath(pub AttemptId);

impl<S: Send + Sync> FromRequestParts<S> for SessionInPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let id = text_in_path(parts, state).await?;
        match uuid::Uuid::try_parse(&id) {
            Ok(uuid) => Ok(Self(AttemptId(uuid))),
            Err(_) => Err(unknown_session(&id)),
        }
    }
}

pub fn unknown_session(id: &str) -> Refusal {
    let shown = vik_base::report::one_line(id, 60);
    Refusal::new(
        StatusCode::NOT_FOUND,
        ErrorCode::NoSession,
        format!("no session `{shown}`"),
    )
    .hint("`GET /api/v1/runs` lists all sessions")
}

async fn text_in_path<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<String, Refusal> {
    let found: Result<Path<String>, _> = Path::from_request_parts(parts, state).await;
    match found {
        Ok(Path(text)) => Ok(text),
        Err(rejection) => Err(Refusal::new(
            rejection.status(),
            ErrorCode::BadRequest,
            rejection.body_text(),
        )),
    }
}
