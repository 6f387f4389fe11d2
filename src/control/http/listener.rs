//! The two ways in: TCP, and the control socket.

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

use super::keys::Keys;
use super::tcp::{Identify, LogLimit, TcpConnection, TcpPlaces};
use super::{Tcp, guard, pages};

/// How many connections of the control socket are served at once.
const MAX_SOCKETS: usize = 256;

/// How long a client may take to say what it wants.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);

/// The most of a request's head.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// How connections are served: nobody may take all the time and room there is before anything is known of them.
pub(crate) fn connections() -> http1::Builder {
    let mut connections = http1::Builder::new();
    connections
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(MAX_HEAD_BYTES);
    connections
}

/// How a request came in.
#[derive(Clone, Debug)]
pub enum Transport {
    /// On TCP.
    Tcp(Arc<TcpConnection>),
    /// On the control socket.
    Socket {
        /// The process that connected.
        pid: i32,
    },
}

/// Ends the connection that a request came on, when it does not read.
#[derive(Clone, Debug)]
pub struct Connection(pub CancellationToken);

/// What stands behind the doors.
pub struct ServerContext {
    app: Router,
    tcp: Arc<TcpPlaces>,
    sockets: Arc<Semaphore>,
    trouble: LogLimit,
    stop: CancellationToken,
}

impl ServerContext {
    /// Every request is looked at before the application sees it.
    pub fn new(app: Router, keys: Arc<Keys>, identify: Identify, stop: CancellationToken) -> Self {
        let app = app
            .layer(axum::middleware::from_fn_with_state(keys, guard::guard))
            .layer(axum::middleware::map_response(pages::headers));
        Self {
            app,
            tcp: Arc::new(TcpPlaces::new(identify)),
            sockets: Arc::new(Semaphore::new(MAX_SOCKETS)),
            trouble: LogLimit::default(),
            stop,
        }
    }

    /// Lets in whoever comes.
    pub async fn open(&self, tcp: Option<Tcp>, sockets: mpsc::UnboundedReceiver<(UnixStream, i32)>) {
        tokio::join!(self.open_tcp(tcp), self.open_socket(sockets));
    }

    async fn open_tcp(&self, tcp: Option<Tcp>) {
        let Some(tcp) = tcp else { return };
        let listener = match tokio::net::TcpListener::from_std(tcp.listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the HTTP API cannot listen"),
        };
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // Small answers go out at once.
                    let _ = stream.set_nodelay(true);
                    // One that is gone again has no address any more.
                    if let Ok(local) = stream.local_addr() {
                        self.let_in_tcp(stream, peer, local);
                    }
                    // Those that were let in before get their turn, however fast others come.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    if let Some(count) = self.trouble.count() {
                        tracing::warn!(%error, count, "the HTTP API cannot accept");
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn open_socket(&self, mut sockets: mpsc::UnboundedReceiver<(UnixStream, i32)>) {
        while let Some((stream, pid)) = sockets.recv().await {
            let served = match tokio::net::UnixStream::from_std(stream) {
                Ok(stream) => self.let_in_socket(stream, pid),
                Err(error) => Err(error),
            };
            if let Err(error) = served
                && let Some(count) = self.trouble.count()
            {
                tracing::warn!(%error, count, "a client of the control socket cannot be served");
            }
        }
        // No more of them come; the other door stays open.
        std::future::pending::<()>().await;
    }

    fn let_in_tcp(&self, stream: tokio::net::TcpStream, peer: SocketAddr, local: SocketAddr) {
        let end = self.stop.child_token();
        let connection = Arc::new(self.tcp.enter(peer, local, end.clone()));
        let served = self.serve(stream, Transport::Tcp(Arc::clone(&connection)), end);
        tokio::spawn(async move {
            tokio::select! {
                () = served => {}
                () = connection.timed_out() => {}
            }
        });
    }

    /// Those of the control socket have places of their own: whatever happens on TCP, the user's own programs get in.
    fn let_in_socket(&self, stream: tokio::net::UnixStream, pid: i32) -> io::Result<()> {
        let place = Arc::clone(&self.sockets).try_acquire_owned();
        let place = place.map_err(|_| io::Error::other("too many connections are open"))?;
        let served = self.serve(stream, Transport::Socket { pid }, self.stop.child_token());
        tokio::spawn(async move {
            served.await;
            drop(place);
        });
        Ok(())
    }

    /// Serves one connection until it ends, or is ended by `end`.
    fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        door: Transport,
        end: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<S> {
        let service = Service {
            app: self.app.clone(),
            door,
            connection: Connection(end.clone()),
        };
        let served = connections().serve_connection(TokioIo::new(stream), service);
        async move {
            tokio::select! {
                served = served => if let Err(error) = served {
                    tracing::debug!(%error, "a client of the HTTP API went away");
                },
                () = end.cancelled() => {}
            }
        }
    }
}

/// The application, told how the request came in.
struct Service {
    app: Router,
    door: Transport,
    connection: Connection,
}

impl hyper::service::Service<hyper::Request<hyper::body::Incoming>> for Service {
    type Response = Response;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: hyper::Request<hyper::body::Incoming>) -> Self::Future {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(self.door.clone());
        request.extensions_mut().insert(self.connection.clone());
        let mut app = self.app.clone();
        Box::pin(async move { tower_service::Service::call(&mut app, request).await })
    }
}
