//! The two transports of the API: TCP and the control socket.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::Refusal;
use super::guard::{self, Admission};
use super::tcp::{Identify, LogLimit, TcpConnectionLimits};
use super::transport::{Connection, Transport};
use super::{Tcp, pages};

/// The maximum number of concurrent connections to the control socket.
const MAX_SOCKETS: usize = 256;

/// How long a client may take to send the head of a request.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);

/// The maximum size of a request's head.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Returns the connection settings. They bound the time and memory that an unknown client can take.
pub fn connections() -> http1::Builder {
    let mut connections = http1::Builder::new();
    connections
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(MAX_HEAD_BYTES);
    connections
}

/// How long responses that are being sent may delay the end of the daemon.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Answers an agent on the control socket: it is refused.
///
/// # Errors
/// When the connection breaks.
pub async fn refuse_agent(stream: tokio::net::UnixStream) -> io::Result<()> {
    let refuse = |_| async { Ok::<_, Infallible>(Refusal::agent().closing()) };
    let service = hyper::service::service_fn(refuse);
    let served = connections().serve_connection(TokioIo::new(stream), service);
    served.await.map_err(io::Error::other)
}

/// The state that both transports share.
pub struct ServerContext {
    app: Router,
    tcp: Arc<TcpConnectionLimits>,
    sockets: Arc<Semaphore>,
    trouble: LogLimit,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl ServerContext {
    /// Creates the context. The guard checks every request before the application handles it.
    ///
    /// A quarter of `max_clients` may use the control socket, and the others TCP.
    pub fn new(
        app: Router,
        admission: Admission,
        identify: Identify,
        max_clients: usize,
        stop: CancellationToken,
    ) -> Self {
        let max_sockets = MAX_SOCKETS.min(max_clients / 4);
        let app = app
            .layer(axum::middleware::from_fn_with_state(
                Arc::new(admission),
                guard::guard,
            ))
            .layer(axum::middleware::map_response(pages::headers));
        Self {
            app,
            tcp: Arc::new(TcpConnectionLimits::new(identify, max_clients - max_sockets)),
            sockets: Arc::new(Semaphore::new(max_sockets)),
            trouble: LogLimit::default(),
            tasks: TaskTracker::new(),
            stop,
        }
    }

    /// Accepts connections on both transports.
    pub async fn open(&self, tcp: Option<Tcp>, sockets: mpsc::UnboundedReceiver<(UnixStream, i32)>) {
        tokio::join!(self.serve_tcp(tcp), self.serve_socket(sockets));
    }

    /// Waits briefly for the responses that are being sent.
    pub async fn close(&self) {
        self.tasks.close();
        let _ = tokio::time::timeout(LAST_ANSWERS, self.tasks.wait()).await;
    }

    async fn serve_tcp(&self, tcp: Option<Tcp>) {
        let Some(tcp) = tcp else { return };
        let listener = match tokio::net::TcpListener::from_std(tcp.listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the HTTP API cannot listen"),
        };
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // Sends small responses immediately.
                    let _ = stream.set_nodelay(true);
                    // A client that has already disconnected has no address.
                    if let Ok(local) = stream.local_addr() {
                        self.accept_tcp(stream, peer, local);
                    }
                    // Lets existing connections make progress, however fast new ones arrive.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    if let Some(count) = self.trouble.count() {
                        tracing::warn!(%error, count, "the HTTP API cannot accept a connection");
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn serve_socket(&self, mut sockets: mpsc::UnboundedReceiver<(UnixStream, i32)>) {
        while let Some((stream, pid)) = sockets.recv().await {
            let served = match tokio::net::UnixStream::from_std(stream) {
                Ok(stream) => self.accept_socket(stream, pid),
                Err(error) => Err(error),
            };
            if let Err(error) = served
                && let Some(count) = self.trouble.count()
            {
                tracing::warn!(%error, count, "cannot serve a client of the control socket");
            }
        }
        // The sender is closed, but TCP is still served.
        std::future::pending::<()>().await;
    }

    fn accept_tcp(&self, stream: tokio::net::TcpStream, peer: SocketAddr, local: SocketAddr) {
        let end = self.stop.child_token();
        let connection = Arc::new(self.tcp.enter(peer, local, end.clone()));
        let served = self.serve(stream, Transport::Tcp(Arc::clone(&connection)), end);
        self.tasks.spawn(async move {
            tokio::select! {
                () = served => {}
                () = connection.timed_out() => {}
            }
        });
    }

    /// Accepts a connection to the control socket. These connections have their own permits, so
    /// that load on TCP cannot lock out the user's own programs.
    fn accept_socket(&self, stream: tokio::net::UnixStream, pid: i32) -> io::Result<()> {
        let permit = Arc::clone(&self.sockets).try_acquire_owned();
        let permit = permit.map_err(|_| io::Error::other("too many connections are open"))?;
        let served = self.serve(stream, Transport::Socket { pid }, self.stop.child_token());
        self.tasks.spawn(async move {
            served.await;
            drop(permit);
        });
        Ok(())
    }

    /// Serves one connection until it ends or `end` is cancelled.
    fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        transport: Transport,
        end: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<S> {
        let service = Service {
            app: self.app.clone(),
            transport,
            connection: Connection(end.clone()),
        };
        let served = connections().serve_connection(TokioIo::new(stream), service);
        let stop = self.stop.clone();
        async move {
            let mut served = std::pin::pin!(served);
            let result = tokio::select! {
                biased;
                result = served.as_mut() => result,
                () = stop.cancelled() => {
                    // The response that is being sent is completed.
                    served.as_mut().graceful_shutdown();
                    served.await
                }
                () = end.cancelled() => Ok(()),
            };
            if let Err(error) = result {
                tracing::debug!(%error, "a client of the HTTP API disconnected");
            }
        }
    }
}

/// The application, with the transport of the request.
struct Service {
    app: Router,
    transport: Transport,
    connection: Connection,
}

impl hyper::service::Service<hyper::Request<hyper::body::Incoming>> for Service {
    type Response = Response;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: hyper::Request<hyper::body::Incoming>) -> Self::Future {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(self.transport.clone());
        request.extensions_mut().insert(self.connection.clone());
        let mut app = self.app.clone();
        Box::pin(async move { tower_service::Service::call(&mut app, request).await })
    }
}
