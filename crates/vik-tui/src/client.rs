//! A client of the daemon's HTTP API: plain HTTP/1.1 over a Unix socket or TCP, one connection per
//! request.
//!
//! It uses no proxy and follows no redirect, so the token goes only to this address.

mod endpoint;

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sse_stream::SseStream;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use vik_api::{
    ApprovalDecision, DiffView, EventsPage, Explained, FeedEvent, IssuesPage, Problem, Retry, Status,
    Steered, WhichIssue,
};
use vik_core::ids::IssueId;

use crate::error::ClientError;
use crate::msg::Action;
pub(crate) use endpoint::Client;
pub use endpoint::Endpoint;

use endpoint::{Transport, encode};

/// The timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of a request that reads the state.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of a request that starts a process in the daemon: a diff, the end of an agent.
const STEER_TIMEOUT: Duration = Duration::from_secs(40);
/// The maximum bytes of a response.
const MAX_BODY: usize = 64 << 20;

impl Endpoint {
    /// Signs in with the code of a link that `vik status` prints, as a browser does.
    ///
    /// # Errors
    ///
    /// When the daemon cannot be asked, or refuses the code.
    pub async fn sign_in(url: &str, code: &str) -> Result<Self, ClientError> {
        #[derive(serde::Deserialize)]
        struct SignedIn {
            token: String,
        }
        let client = Client::tcp(url, "none")?;
        let signed_in: SignedIn = client.post("sign-in", &serde_json::json!({"code": code})).await?;
        Ok(Self::Tcp {
            url: url.to_owned(),
            token: signed_in.token,
        })
    }
}

impl Client {
    pub(crate) async fn state(&self) -> Result<Status, ClientError> {
        self.get("state", READ_TIMEOUT).await
    }

    pub(crate) async fn issues(
        &self,
        after: Option<&IssueId>,
        limit: usize,
    ) -> Result<IssuesPage, ClientError> {
        let path = match after {
            None => format!("issues?limit={limit}"),
            Some(after) => format!("issues?limit={limit}&after={}", encode(after.as_str())),
        };
        self.get(&path, READ_TIMEOUT).await
    }

    pub(crate) async fn issue(&self, id: &IssueId) -> Result<Explained, ClientError> {
        self.get(&format!("issues/{}", encode(id.as_str())), READ_TIMEOUT)
            .await
    }

    pub(crate) async fn events(&self, id: &str, after: u64, limit: usize) -> Result<EventsPage, ClientError> {
        let path = format!("sessions/{}/events?after={after}&limit={limit}", encode(id));
        self.get(&path, READ_TIMEOUT).await
    }

    pub(crate) async fn diff(&self, id: &str) -> Result<DiffView, ClientError> {
        self.get(&format!("sessions/{}/diff", encode(id)), STEER_TIMEOUT)
            .await
    }

    pub(crate) async fn steer(&self, action: &Action) -> Result<Steered, ClientError> {
        let nothing = serde_json::Map::new();
        let which = |issue: &Option<IssueId>| WhichIssue {
            issue_id: issue.clone(),
        };
        match action {
            Action::Refresh => self.post("refresh", &nothing).await,
            Action::Pause(issue) => self.post("pause", &which(issue)).await,
            Action::Resume(issue) => self.post("resume", &which(issue)).await,
            Action::Cancel(issue) => {
                self.post(&format!("issues/{}/cancel", encode(issue.as_str())), &nothing)
                    .await
            }
            Action::Retry(issue) => {
                let path = format!("issues/{}/retry", encode(issue.as_str()));
                self.post(&path, &Retry::default()).await
            }
            Action::Approve(issue, request, message) => {
                let path = format!("issues/{}/approve", encode(issue.as_str()));
                self.post(&path, &approval_decision(request, message.as_ref()))
                    .await
            }
            Action::Deny(issue, request, message) => {
                let path = format!("issues/{}/deny", encode(issue.as_str()));
                self.post(&path, &approval_decision(request, message.as_ref()))
                    .await
            }
        }
    }

    /// Opens the feed; [`Feed::next`] returns its events.
    pub(crate) async fn feed(&self) -> Result<Feed, ClientError> {
        let request = self.request(&Method::GET, "events", "text/event-stream", Bytes::new())?;
        let response = self.with_timeout(READ_TIMEOUT, self.send(request)).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        Ok(Feed {
            stream: SseStream::new(response.into_body()),
        })
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, limit: Duration) -> Result<T, ClientError> {
        let request = self.request(&Method::GET, path, "application/json", Bytes::new())?;
        self.with_timeout(limit, self.request_json(request)).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|source| self.decode(source))?;
        let request = self.request(&Method::POST, path, "application/json", body.into())?;
        self.with_timeout(STEER_TIMEOUT, self.request_json(request)).await
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        accept: &'static str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}/api/v1/{path}", self.prefix))
            .header(HOST, &self.host)
            .header(ACCEPT, accept)
            .header(USER_AGENT, concat!("vik-top/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        if *method == Method::POST {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(body)).map_err(|_| ClientError::Address {
            url: self.target.clone(),
            why: "the request is invalid",
        })
    }

    async fn with_timeout<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        timeout(limit, work).await.unwrap_or_else(|_| {
            Err(ClientError::TimedOut {
                target: self.target.clone(),
                seconds: limit.as_secs(),
            })
        })
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, ClientError> {
        match &self.transport {
            Transport::Unix(path) => {
                let stream = self.connect_with_timeout(UnixStream::connect(path)).await?;
                self.send_on(stream, request).await
            }
            Transport::Tcp(host, port) => {
                let stream = self
                    .connect_with_timeout(TcpStream::connect((host.as_str(), *port)))
                    .await?;
                self.send_on(stream, request).await
            }
        }
    }

    async fn connect_with_timeout<S>(
        &self,
        connecting: impl Future<Output = io::Result<S>>,
    ) -> Result<S, ClientError> {
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        timeout(CONNECT_TIMEOUT, connecting)
            .await
            .unwrap_or_else(|_| Err(late()))
            .map_err(|source| ClientError::Connect {
                target: self.target.clone(),
                source,
            })
    }

    async fn send_on<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ClientError>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|source| self.broken_connection(source))?;
        // Ends with the response body, which reports any error.
        tokio::spawn(async move { connection.await.ok() });
        sender
            .send_request(request)
            .await
            .map_err(|source| self.broken_connection(source))
    }

    async fn request_json<T: DeserializeOwned>(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<T, ClientError> {
        let response = self.send(request).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let body = self.body(response).await?;
        serde_json::from_slice(&body).map_err(|source| self.decode(source))
    }

    async fn refusal(&self, response: Response<Incoming>) -> ClientError {
        let status = response.status().as_u16();
        let problem = match self.body(response).await {
            Ok(body) => serde_json::from_slice::<Problem>(&body).ok(),
            Err(_) => None,
        };
        match problem {
            Some(problem) => ClientError::Refused(Box::new(problem)),
            None => ClientError::Status {
                target: self.target.clone(),
                status,
            },
        }
    }

    async fn body(&self, response: Response<Incoming>) -> Result<Bytes, ClientError> {
        let limited = Limited::new(response.into_body(), MAX_BODY);
        match limited.collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) => match error.downcast::<hyper::Error>() {
                Ok(source) => Err(self.broken_connection(*source)),
                Err(other) => {
                    debug_assert!(other.is::<LengthLimitError>());
                    Err(ClientError::TooLong {
                        target: self.target.clone(),
                    })
                }
            },
        }
    }

    fn broken_connection(&self, source: hyper::Error) -> ClientError {
        ClientError::Broken {
            target: self.target.clone(),
            source,
        }
    }

    fn decode(&self, source: serde_json::Error) -> ClientError {
        ClientError::Decode {
            target: self.target.clone(),
            source,
        }
    }
}

/// The events that the daemon sends by itself.
pub(crate) struct Feed {
    stream: SseStream<Incoming>,
}

impl Feed {
    /// Returns the next event; `None` when the feed broke off.
    ///
    /// An event that this version does not know is `Some(None)`: something changed.
    pub(crate) async fn next(&mut self) -> Option<Option<FeedEvent>> {
        use futures_util::StreamExt as _;
        loop {
            let event = self.stream.next().await?.ok()?;
            if let Some(data) = event.data {
                return Some(serde_json::from_str(&data).ok());
            }
        }
    }
}

fn approval_decision(request: &str, message: Option<&String>) -> ApprovalDecision {
    ApprovalDecision {
        stage: None,
        request: Some(request.to_owned()),
        message: message.cloned(),
    }
}

#[cfg(test)]
mod tests;
