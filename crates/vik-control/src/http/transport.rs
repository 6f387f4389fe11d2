//! The transport of a request.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio_util::sync::CancellationToken;
use vik_base::report::ErrorCode;

use super::answer::Refusal;
use super::leading_hub::Follower;
use super::tcp::TcpConnection;

/// How a request reached the daemon.
#[derive(Clone, Debug)]
pub enum Transport {
    Tcp(Arc<TcpConnection>),
    Socket {
        /// The process id of the client.
        pid: i32,
    },
    /// Another hub passed it on, and has checked who sends it.
    Forwarded(Arc<Follower>),
}

impl Transport {
    /// Refuses a request over TCP.
    pub fn require_socket(&self) -> Result<(), Refusal> {
        match self {
            Self::Socket { .. } => Ok(()),
            Self::Tcp(_) | Self::Forwarded(_) => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                ErrorCode::Refused,
                "this request is accepted on the control socket only",
            )
            .hint("run `vik` on the machine of the daemon")),
        }
    }
}

/// Closes the connection of a request whose client does not read.
#[derive(Clone, Debug)]
pub struct Connection(pub CancellationToken);
