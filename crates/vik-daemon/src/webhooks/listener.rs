//! The listener: TCP, `POST /hooks/NAME`, and nothing else.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use futures_util::StreamExt as _;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use vik_control::http::{Tcp, connections};

use super::verifier::{Verdict, WebhookVerifier};
use super::verify::{self, Refused};

/// The maximum size of a body, in bytes.
pub(super) const MAX_BODY: usize = 1024 * 1024;

/// How many bytes of an oversized body are read and discarded, so that the sender receives the
/// response.
const MAX_SPILLED: usize = 8 * MAX_BODY;

/// How long a body may take.
pub(super) const BODY_WITHIN: Duration = Duration::from_secs(10);

/// How long a whole call may take.
const CALL_WITHIN: Duration = Duration::from_secs(30);

/// The minimum time between two log lines about too many calls.
const QUIET: Duration = Duration::from_secs(60);

/// The maximum number of concurrent calls. With the size of their bodies, it bounds the memory that
/// strangers can use.
const MAX_CALLS: usize = 64;

pub(super) async fn open(tcp: Tcp, verifier: Arc<WebhookVerifier>) {
    let listener = match tokio::net::TcpListener::from_std(tcp.into_listener()) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "cannot listen for webhooks");
            // The daemon works without webhooks.
            return std::future::pending().await;
        }
    };
    let permits = Arc::new(Semaphore::new(MAX_CALLS));
    let mut last_logged = None;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                    // Strangers must not fill the disk with log lines.
                    if last_logged.is_none_or(|at: Instant| at.elapsed() > QUIET) {
                        last_logged = Some(Instant::now());
                        tracing::warn!("too many webhooks at once: some connections are closed unread");
                    }
                    continue;
                };
                let (verifier, peer) = (Arc::clone(&verifier), peer.ip().to_canonical().to_string());
                tokio::spawn(async move {
                    serve(stream, verifier, peer).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept webhooks");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, verifier: Arc<WebhookVerifier>, peer: String) {
    let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
        let (verifier, peer) = (Arc::clone(&verifier), peer.clone());
        async move { Ok::<_, Infallible>(answer(&verifier, request.map(Body::new), &peer).await) }
    });
    let served = connections()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = tokio::time::timeout(CALL_WITHIN, served).await {
        tracing::debug!(%error, "the sender of a webhook disconnected");
    }
}

pub(super) async fn answer(verifier: &WebhookVerifier, request: Request<Body>, peer: &str) -> Response<Body> {
    // The response does not reveal which hooks exist.
    let name = request.uri().path().strip_prefix("/hooks/");
    let Some((name, hook)) = name.and_then(|name| Some((name.to_owned(), verifier.hook(name)?))) else {
        return empty_response(StatusCode::NOT_FOUND);
    };
    if request.method() != Method::POST {
        return empty_response(StatusCode::NOT_FOUND);
    }
    let refused = |why| empty_response(status(verifier.refuse(&name, why, peer)));
    let Some(secret) = verify::secret(&hook) else {
        return refused(Refused::NoSecret);
    };
    let (parts, body) = request.into_parts();
    if !verify::is_signed(&hook, &secret, &parts.headers) {
        return refused(Refused::Unsigned);
    }
    match tokio::time::timeout(BODY_WITHIN, read(body)).await {
        Err(_) => empty_response(StatusCode::REQUEST_TIMEOUT),
        Ok(Err(status)) => empty_response(status),
        Ok(Ok(body)) => empty_response(status(verifier.verify_call(
            &name,
            &hook,
            &secret,
            &parts.headers,
            &body,
            peer,
        ))),
    }
}

fn status(verdict: Verdict) -> StatusCode {
    match verdict {
        Verdict::Accepted => StatusCode::ACCEPTED,
        Verdict::Duplicate | Verdict::Ping => StatusCode::OK,
        Verdict::Refused => StatusCode::UNAUTHORIZED,
        Verdict::Flooded => StatusCode::TOO_MANY_REQUESTS,
    }
}

fn empty_response(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Reads the whole body, unchanged.
async fn read(body: Body) -> Result<Vec<u8>, StatusCode> {
    let mut stream = body.into_data_stream();
    let (mut bytes, mut spilled) = (Vec::new(), 0);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| StatusCode::BAD_REQUEST)?;
        if spilled == 0 && bytes.len() + chunk.len() <= MAX_BODY {
            bytes.extend_from_slice(&chunk);
            continue;
        }
        bytes = Vec::new();
        spilled += chunk.len();
        if spilled > MAX_SPILLED {
            break;
        }
    }
    if spilled > 0 {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    Ok(bytes)
}
