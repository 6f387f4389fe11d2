//! The transport of a request.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::tcp::TcpConnection;

/// How a request reached the daemon.
#[derive(Clone, Debug)]
pub enum Transport {
    Tcp(Arc<TcpConnection>),
    Socket {
        /// The process id of the client.
        pid: i32,
    },
}

/// Closes the connection of a request whose client does not read.
#[derive(Clone, Debug)]
pub struct Connection(pub CancellationToken);
