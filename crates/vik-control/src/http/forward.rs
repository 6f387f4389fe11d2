//! Requests that a hub passes on: it follows, and the hub that leads answers them.
//!
//! The hub that receives a request checks who sends it, as one that leads does, and passes on what the
//! answer depends on: the method, the path with its query, the type of the body, the body, and who
//! asks. No other header leaves it, so no credential does. A request that was passed on is answered
//! or refused, and never passed on again.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use axum::{Extension, Router};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use vik_api::Status;
use vik_base::report::{ErrorCode, one_line};
use vik_core::scheduler::Actor;

use super::answer::Refusal;
use super::daemon::Daemon;
use super::leading_hub::{Follower, ForwardError, ForwardedRequest, ForwardedResponse, LeadingHub};
use super::route::{Answers, USUAL_TIMEOUT};
use super::routes::API;
use super::standing::Standing;
use super::transport::{Connection, Transport};

/// The maximum size of a body. The path may have a lower one, which the hub that leads checks.
const MAX_BODY: usize = 512 * 1024;

/// The number of requests that wait for the thread of the API. The server limits them too.
const MAX_WAITING: usize = 64;

/// Makes the handler of a path one for a hub that may follow.
pub fn layer(
    handler: MethodRouter<Arc<Daemon>>,
    answers: Answers,
    daemon: &Arc<Daemon>,
) -> MethodRouter<Arc<Daemon>> {
    match answers {
        Answers::Receiver => handler.layer(from_fn(refuse_forwarded)),
        Answers::Leader(timeout) => {
            let follower = (Arc::clone(daemon), timeout);
            handler.layer(from_fn_with_state(follower, pass_on))
        }
    }
}

/// Refuses what concerns the process that receives it, if another hub has received it.
async fn refuse_forwarded(
    Extension(transport): Extension<Transport>,
    request: Request,
    next: Next,
) -> Response {
    match transport {
        Transport::Forwarded(_) => Refusal::new(
            StatusCode::FORBIDDEN,
            ErrorCode::Refused,
            "this request concerns one process and is not passed on",
        )
        .into_response(),
        Transport::Tcp(_) | Transport::Socket { .. } => next.run(request).await,
    }
}

/// Passes a request on to the hub that leads, unless this one does.
async fn pass_on(
    State((daemon, timeout)): State<(Arc<Daemon>, Duration)>,
    Extension(transport): Extension<Transport>,
    request: Request,
    next: Next,
) -> Response {
    let standing = daemon.standing.borrow().clone();
    let leader = match (standing, transport) {
        (Standing::Leading { .. }, _) => return next.run(request).await,
        (Standing::Following(_), Transport::Forwarded(_)) => return no_leader("another one leads now"),
        (Standing::Following(leader), _) => leader,
        (Standing::Connecting, _) => return no_leader("this one is not connected to the server"),
    };
    let by = request.extensions().get::<Actor>().cloned().unwrap_or_default();
    let (parts, body) = request.into_parts();
    let bad_request = |status, why| Refusal::new(status, ErrorCode::BadRequest, why).into_response();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return bad_request(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large");
    };
    let Ok(body) = String::from_utf8(body.into()) else {
        return bad_request(StatusCode::BAD_REQUEST, "the body is not UTF-8");
    };
    let request = ForwardedRequest {
        method: parts.method.to_string(),
        path: format!("{API}{}", parts.uri),
        content_type: content_type(&parts.headers),
        body,
        by,
        follower: Follower {
            host: daemon.host.to_string(),
            api: daemon.api.clone(),
        },
    };
    match leader.ask(request, timeout).await {
        Ok(response) => into_http(response),
        Err(error) => refusal(&error).into_response(),
    }
}

/// Returns the status that the hub that leads has.
pub async fn state(daemon: &Daemon, leader: &dyn LeadingHub) -> Option<Status> {
    let request = ForwardedRequest {
        method: Method::GET.to_string(),
        path: format!("{API}/state"),
        content_type: None,
        body: String::new(),
        by: Actor::component("the feed of events"),
        follower: Follower {
            host: daemon.host.to_string(),
            api: daemon.api.clone(),
        },
    };
    let response = leader.ask(request, USUAL_TIMEOUT).await.ok()?;
    serde_json::from_str(&response.body).ok()
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?;
    value.to_str().ok().map(str::to_owned)
}

fn into_http(response: ForwardedResponse) -> Response {
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let kind = response
        .content_type
        .and_then(|kind| HeaderValue::try_from(kind).ok());
    let mut http = (status, Body::from(response.body)).into_response();
    match kind {
        Some(kind) => http.headers_mut().insert(header::CONTENT_TYPE, kind),
        None => http.headers_mut().remove(header::CONTENT_TYPE),
    };
    http
}

fn no_leader(why: &str) -> Response {
    refusal(&ForwardError::NoLeader(why.to_owned())).into_response()
}

fn refusal(error: &ForwardError) -> Refusal {
    match error {
        ForwardError::NoLeader(_) => Refusal::unavailable(ErrorCode::NoLeader, &error.to_string())
            .hint("nothing was changed; try again in a few seconds, and check the hubs if it stays so"),
        ForwardError::Unknown { .. } => Refusal::new(
            StatusCode::GATEWAY_TIMEOUT,
            ErrorCode::OutcomeUnknown,
            error.to_string(),
        )
        .hint("it is not known whether the request was carried out; `vik status` and `vik explain` show it"),
    }
}

/// Executes the requests that other hubs pass on. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ForwardedRequests(mpsc::Sender<Pending>);

type Pending = (ForwardedRequest, oneshot::Sender<ForwardedResponse>);

impl ForwardedRequests {
    /// Answers a request as one that this process has received; `None` if it does not lead, and has
    /// carried out nothing.
    pub async fn execute(&self, request: ForwardedRequest) -> Option<ForwardedResponse> {
        let (answer, receiver) = oneshot::channel();
        self.0.send((request, answer)).await.ok()?;
        receiver.await.ok()
    }
}

/// Receives the requests that other hubs pass on.
pub struct Receiver(mpsc::Receiver<Pending>);

pub fn channel() -> (ForwardedRequests, Receiver) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    (ForwardedRequests(sender), Receiver(receiver))
}

impl Receiver {
    /// Has them answered by the router of this process while it leads.
    pub async fn serve(mut self, router: Router, daemon: Arc<Daemon>) {
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                received = self.0.recv() => match received {
                    Some((request, answer)) if daemon.standing.borrow().is_leading() => {
                        running.spawn(execute(router.clone(), request, answer));
                    }
                    // The sender sees that there is no answer.
                    Some(_) => {}
                    None => std::future::pending().await,
                },
                Some(_) = running.join_next() => {}
            }
        }
    }
}

async fn execute(
    mut router: Router,
    request: ForwardedRequest,
    mut answer: oneshot::Sender<ForwardedResponse>,
) {
    let answered = async {
        let response = match http_request(request) {
            Some(request) => {
                let called: Result<Response, _> = tower_service::Service::call(&mut router, request).await;
                called.unwrap_or_else(|never| match never {})
            }
            None => Refusal::new(
                StatusCode::BAD_REQUEST,
                ErrorCode::BadRequest,
                "it cannot be read",
            )
            .into_response(),
        };
        let (parts, body) = response.into_parts();
        // A stream would have no end, and all paths with streams are local.
        let body = to_bytes(body, usize::MAX).await.unwrap_or_else(|_| Bytes::new());
        ForwardedResponse {
            status: parts.status.as_u16(),
            content_type: content_type(&parts.headers),
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    };
    tokio::select! {
        response = answered => {
            let _ = answer.send(response);
        }
        () = answer.closed() => {}
    }
}

fn http_request(request: ForwardedRequest) -> Option<Request> {
    let host = one_line(&request.follower.host, 60);
    let by = one_line(&request.by.to_string(), 200);
    let mut http = Request::builder()
        .method(request.method.as_str())
        .uri(&request.path)
        .extension(Actor::component(&by).on(&host))
        .extension(Transport::Forwarded(Arc::new(request.follower)))
        .extension(Connection(CancellationToken::new()));
    if let Some(kind) = &request.content_type {
        http = http.header(header::CONTENT_TYPE, kind);
    }
    http.body(Body::from(request.body)).ok()
}
