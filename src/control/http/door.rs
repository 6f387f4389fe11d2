//! The two ways in: TCP, and the control socket.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
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
use super::{MAX_CONNECTIONS, Tcp, guard, pages};

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
pub enum Door {
    /// On TCP.
    Tcp {
        /// Who.
        peer: IpAddr,
        /// The port that is listened at.
        port: u16,
    },
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
pub struct Doors {
    app: Router,
    places: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Doors {
    /// Every request is looked at before the application sees it.
    pub fn new(app: Router, keys: Arc<Keys>, stop: CancellationToken) -> Self {
        let app = app
            .layer(axum::middleware::from_fn_with_state(keys, guard::guard))
            .layer(axum::middleware::map_response(pages::headers));
        Self {
            app,
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            stop,
        }
    }

    /// Lets in whoever comes.
    pub async fn open(&self, tcp: Option<Tcp>, sockets: mpsc::UnboundedReceiver<(UnixStream, i32)>) {
        tokio::join!(self.open_tcp(tcp), self.open_socket(sockets));
    }

    async fn open_tcp(&self, tcp: Option<Tcp>) {
        let Some(tcp) = tcp else { return };
        let port = tcp.address.port();
        let listener = match tokio::net::TcpListener::from_std(tcp.listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the HTTP API cannot listen"),
        };
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // Small answers go out at once.
                    let _ = stream.set_nodelay(true);
                    let peer = peer.ip().to_canonical();
                    self.let_in(stream, Door::Tcp { peer, port });
                }
                Err(error) => {
                    tracing::warn!(%error, "the HTTP API cannot accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn open_socket(&self, mut sockets: mpsc::UnboundedReceiver<(UnixStream, i32)>) {
        while let Some((stream, pid)) = sockets.recv().await {
            match tokio::net::UnixStream::from_std(stream) {
                Ok(stream) => self.let_in(stream, Door::Socket { pid }),
                Err(error) => tracing::warn!(%error, "a client of the control socket cannot be served"),
            }
        }
        // No more of them come; the other door stays open.
        std::future::pending::<()>().await;
    }

    /// Serves one connection beside the others; where all places are taken, it is closed.
    fn let_in(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, door: Door) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return tracing::warn!("too many connections to the HTTP API: one is closed");
        };
        let connection = Connection(self.stop.child_token());
        let gone = connection.0.clone();
        let service = Service {
            app: self.app.clone(),
            door,
            connection,
        };
        let served = connections().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            tokio::select! {
                served = served => if let Err(error) = served {
                    tracing::debug!(%error, "a client of the HTTP API went away");
                },
                () = gone.cancelled() => {}
            }
            drop(place);
        });
    }
}

/// The application, told how the request came in.
struct Service {
    app: Router,
    door: Door,
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
