//! Connections, requests and responses: plain HTTP/1.1 over a Unix socket or TCP, one connection per
//! request.

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
use vik_api::{FeedEvent, Problem};

use crate::endpoint::{Endpoint, Target, Transport};
use crate::error::ClientError;

/// The timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of a request.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum bytes of a response.
const MAX_BODY: usize = 64 << 20;

/// A client of one daemon.
#[derive(Clone)]
pub struct Client {
    target: Target,
    program: &'static str,
}

impl Client {
    /// Creates a client. It sends the name of the program to the daemon, which records requests of
    /// `vik` as those of the command line.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn new(endpoint: &Endpoint, program: &'static str) -> Result<Self, ClientError> {
        Ok(Self {
            target: Target::of(endpoint)?,
            program,
        })
    }

    /// Returns the address, for display.
    pub fn target(&self) -> &str {
        &self.target.name
    }

    /// Opens the feed; [`Feed::next`] returns its events.
    ///
    /// # Errors
    /// If the daemon cannot be asked, or refuses.
    pub async fn feed(&self) -> Result<Feed, ClientError> {
        let request = self.request(&Method::GET, "events", "text/event-stream", Bytes::new())?;
        let response = self.with_timeout(TIMEOUT, self.send(request)).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        Ok(Feed {
            stream: SseStream::new(response.into_body()),
        })
    }

    /// Returns the path of the socket, if the daemon is reached through one.
    pub(crate) fn socket(&self) -> Option<&std::path::Path> {
        match &self.target.transport {
            Transport::Unix(path) => Some(path),
            Transport::Tcp(..) => None,
        }
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        limit: Duration,
    ) -> Result<T, ClientError> {
        let request = self.request(&Method::GET, path, "application/json", Bytes::new())?;
        self.with_timeout(limit, self.request_json(request)).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|source| self.decode(source))?;
        let request = self.request(&Method::POST, path, "application/json", body.into())?;
        self.with_timeout(TIMEOUT, self.request_json(request)).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let request = self.request(&Method::DELETE, path, "application/json", Bytes::new())?;
        self.with_timeout(TIMEOUT, self.request_json(request)).await
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
            .uri(format!("{}/api/v1/{path}", self.target.prefix))
            .header(HOST, &self.target.host)
            .header(ACCEPT, accept)
            .header(
                USER_AGENT,
                format!("{}/{}", self.program, env!("CARGO_PKG_VERSION")),
            );
        if let Some(token) = &self.target.token {
            request = request.header(AUTHORIZATION, token);
        }
        if *method == Method::POST {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(body)).map_err(|_| ClientError::Address {
            url: self.target.name.clone(),
            why: "the request is invalid",
        })
    }

    pub(crate) async fn with_timeout<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        timeout(limit, work).await.unwrap_or_else(|_| {
            Err(ClientError::TimedOut {
                target: self.target.name.clone(),
                seconds: limit.as_secs(),
            })
        })
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, ClientError> {
        match &self.target.transport {
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

    pub(crate) async fn connect_with_timeout<S>(
        &self,
        connecting: impl Future<Output = io::Result<S>>,
    ) -> Result<S, ClientError> {
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        timeout(CONNECT_TIMEOUT, connecting)
            .await
            .unwrap_or_else(|_| Err(late()))
            .map_err(|source| ClientError::Connect {
                target: self.target.name.clone(),
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
                target: self.target.name.clone(),
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
                        target: self.target.name.clone(),
                    })
                }
            },
        }
    }

    fn broken_connection(&self, source: hyper::Error) -> ClientError {
        ClientError::Broken {
            target: self.target.name.clone(),
            source,
        }
    }

    pub(crate) fn decode(&self, source: serde_json::Error) -> ClientError {
        ClientError::Decode {
            target: self.target.name.clone(),
            source,
        }
    }
}

/// The events that the daemon sends by itself.
pub struct Feed {
    stream: SseStream<Incoming>,
}

impl Feed {
    /// Returns the next event; `None` when the feed broke off.
    ///
    /// An event that this version does not know is `Some(None)`: something changed.
    pub async fn next(&mut self) -> Option<Option<FeedEvent>> {
        use futures_util::StreamExt as _;
        loop {
            let event = self.stream.next().await?.ok()?;
            if let Some(data) = event.data {
                return Some(serde_json::from_str(&data).ok());
            }
        }
    }
}
