//! The HTTP API: always on the control socket, and on TCP if that is configured.
//!
//! The API has its own thread and runtime, so that slow or numerous clients take no time from the
//! scheduler. It sends requests to the daemon's loop as the command line does, and reads the ledger
//! and the logs itself.

mod answer;
mod daemon;
mod event_filter;
mod facts;
mod feed;
mod forward;
mod guard;
mod health;
mod keys;
mod leading_hub;
mod listener;
mod logs;
mod metrics;
mod openapi;
mod pages;
mod params;
mod read;
mod remote_sessions;
mod report;
mod route;
mod routes;
mod service;
mod session_files;
mod sessions;
mod sign_ins;
mod signing;
mod standing;
mod tcp;
mod thread;
mod transport;
mod verbs;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use vik_api::ApiView;
use vik_orchestrator::ControlRequest;
use vik_workspace::Layout;

pub use event_filter::EventFilter;
pub use facts::Reporter;
pub use feed::Feed;
pub use forward::ForwardedRequests;
pub use keys::{KeyError, Keys};
pub use keys::{constant_time_eq, unhex};
pub use leading_hub::{Follower, ForwardError, ForwardedRequest, ForwardedResponse, LeadingHub};
pub use listener::{connections, refuse_agent};
pub use logs::{Logs, Page};
pub use metrics::Metrics;
pub use openapi::openapi;
pub use remote_sessions::{RemoteSessions, SessionPart, SessionReader, SessionRequest};
pub use session_files::EventsRequest;
pub use standing::Standing;
pub use tcp::{Identify, LogLimit};
pub use thread::ServerThread;

use self::daemon::Daemon;
use self::guard::Admission;

/// A bound TCP listener.
#[derive(Debug)]
pub struct Tcp {
    listener: TcpListener,
    address: SocketAddr,
}

impl Tcp {
    /// Binds the address; port 0 selects a free port.
    ///
    /// # Errors
    /// When the address is in use or does not belong to this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        // A longer backlog than the standard library sets: a flood must not fill the queue.
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::MAXCONN)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Returns the address with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the socket, for another server.
    pub fn into_listener(self) -> TcpListener {
        self.listener
    }

    /// Returns the address for `status`.
    pub fn view(&self) -> ApiView {
        ApiView {
            address: self.address.to_string(),
        }
    }
}

pub struct Setup {
    pub layout: Layout,
    /// Runs git in workspaces.
    pub supervisor: vik_proc::Supervisor,
    /// Which hub answers requests, as it changes.
    pub standing: watch::Receiver<Standing>,
    /// The host of this process, for other hubs.
    pub host: Arc<str>,
    /// Requests to the daemon's loop.
    pub asks: mpsc::Sender<ControlRequest>,
    pub feed: Feed,
    pub metrics: Metrics,
    /// The credentials for TCP.
    pub keys: Arc<Keys>,
    /// The host names that requests over TCP may use beside addresses (`http.names`).
    pub names: Vec<String>,
    /// Identifies agents, which are refused even if they have a token.
    pub identify: Identify,
    /// The listener, if the API is served on TCP.
    pub tcp: Option<Tcp>,
    /// How many clients may be connected; the API has limits of its own, which are not exceeded.
    pub max_clients: usize,
}

#[derive(Debug)]
pub struct HttpServer {
    _thread: ServerThread,
    sockets: mpsc::UnboundedSender<(UnixStream, i32)>,
    forwarded: ForwardedRequests,
}

impl HttpServer {
    /// Starts the API.
    ///
    /// # Errors
    /// When the thread or the runtime cannot be created.
    pub fn start(setup: Setup) -> io::Result<Self> {
        let (sockets, receiver) = mpsc::unbounded_channel();
        let (forwarded, requests) = forward::channel();
        let serve = |stop| serve(setup, receiver, requests, stop);
        Ok(Self {
            _thread: ServerThread::start("http", "the HTTP API", 4, serve)?,
            sockets,
            forwarded,
        })
    }

    /// Returns the channel for connections to the control socket that use HTTP, each with the pid
    /// of its peer.
    pub fn sockets(&self) -> mpsc::UnboundedSender<(UnixStream, i32)> {
        self.sockets.clone()
    }

    /// Returns the channel for the requests that other hubs pass on.
    pub fn forwarded(&self) -> ForwardedRequests {
        self.forwarded.clone()
    }
}

async fn serve(
    setup: Setup,
    sockets: mpsc::UnboundedReceiver<(UnixStream, i32)>,
    forwarded: forward::Receiver,
    stop: CancellationToken,
) {
    let daemon = Arc::new(Daemon::new(&setup));
    let Setup {
        feed,
        keys,
        names,
        identify,
        tcp,
        max_clients,
        ..
    } = setup;
    let app = routes::router(Arc::clone(&daemon));
    let forwarded = forwarded.serve(app.clone(), Arc::clone(&daemon));
    // A slow status response of the daemon's loop must not delay the readers.
    let published = async {
        tokio::join!(feed.run(), facts::publish_session_changes(&feed, &daemon));
    };
    let context = listener::ServerContext::new(
        app,
        Admission { keys, names },
        identify,
        max_clients,
        stop.clone(),
    );
    tokio::select! {
        () = published => {}
        () = forwarded => {}
        () = context.open(tcp, sockets) => {}
        () = stop.cancelled() => {}
    }
    context.close().await;
}
