//! The HTTP API: on the control socket always, on TCP where it is asked for.
//!
//! It has a thread and a runtime of its own, so that no client, however slow or many, takes time from the scheduler. It
//! asks the daemon's loop as the command line does, and reads the ledger and the logs by itself.

mod answer;
mod facts;
mod feed;
mod guard;
mod keys;
mod listener;
mod logs;
mod metrics;
mod openapi;
mod pages;
mod read;
mod routes;
mod sessions;
mod sign_ins;
mod signing;
mod steer;
mod tcp;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use vik_api::ApiView;

use crate::orchestrator::ControlRequest;
use crate::workspace::Layout;

pub use facts::Reporter;
pub use feed::Feed;
pub use keys::{KeyError, Keys};
pub(crate) use keys::{same, unhex};
pub(crate) use listener::connections;
pub use metrics::Metrics;
pub use openapi::openapi;
pub use pages::LOGIN;
pub use tcp::{Identify, LogLimit};

use self::read::Daemon;

/// Where TCP is listened at.
#[derive(Debug)]
pub struct Tcp {
    listener: TcpListener,
    address: SocketAddr,
}

impl Tcp {
    /// Listens; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address is taken or not ours.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        // More of them may wait than the standard library lets: a flood must not fill the queue.
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::MAXCONN)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The socket itself, for another server.
    pub fn into_listener(self) -> TcpListener {
        self.listener
    }

    /// For `status`.
    pub fn view(&self) -> ApiView {
        ApiView {
            address: self.address.to_string(),
        }
    }
}

/// What the API is made of.
pub struct Setup {
    /// Where the files of the workflow are.
    pub layout: Layout,
    /// Asks git about workspaces.
    pub supervisor: vik_proc::Supervisor,
    /// The way to the daemon's loop.
    pub asks: mpsc::Sender<ControlRequest>,
    /// What happens.
    pub feed: Feed,
    /// What is counted.
    pub metrics: Metrics,
    /// Who may ask on TCP.
    pub keys: Arc<Keys>,
    /// Who may not, whatever they have.
    pub identify: Identify,
    /// Where TCP is listened at.
    pub tcp: Option<Tcp>,
}

/// The API while it is served.
#[derive(Debug)]
pub struct HttpServer {
    thread: Option<std::thread::JoinHandle<()>>,
    stop: CancellationToken,
    sockets: mpsc::UnboundedSender<(UnixStream, i32)>,
}

impl HttpServer {
    /// Serves.
    ///
    /// # Errors
    /// When there is no thread or no runtime for it.
    pub fn start(setup: Setup) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(4)
            .enable_all()
            .build()?;
        let stop = CancellationToken::new();
        let (sockets, receiver) = mpsc::unbounded_channel();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || {
                runtime.block_on(serve(setup, receiver, stopped));
                // A look at a workspace or a slow disk must not hold up the end.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            thread: Some(thread),
            stop,
            sockets,
        })
    }

    /// Where connections to the control socket go that speak HTTP, each with the pid of its peer.
    pub fn sockets(&self) -> mpsc::UnboundedSender<(UnixStream, i32)> {
        self.sockets.clone()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the HTTP API panicked");
        }
    }
}

async fn serve(setup: Setup, sockets: mpsc::UnboundedReceiver<(UnixStream, i32)>, stop: CancellationToken) {
    let Setup {
        layout,
        supervisor,
        asks,
        feed,
        metrics,
        keys,
        identify,
        tcp,
    } = setup;
    let daemon = Arc::new(Daemon::new(
        layout,
        supervisor,
        asks,
        feed.clone(),
        metrics,
        Arc::clone(&keys),
    ));
    let app = routes::router(Arc::clone(&daemon));
    let heard = feed.run(Arc::clone(&daemon));
    let doors = listener::ServerContext::new(app, keys, identify, stop.clone());
    tokio::select! {
        () = heard => {}
        () = doors.open(tcp, sockets) => {}
        () = stop.cancelled() => {}
    }
}
