//! macOS provides the process of a TCP connection only by private interfaces, so the token alone
//! decides.

use std::net::SocketAddr;

use crate::identity::ProcessId;

/// Who is at the other end of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpPeer {
    /// A process that is one of those in question, or descends from one of them.
    Descendant,
    Other,
    /// A process that cannot be found.
    Hidden,
    /// Nobody to be trusted.
    Unknown,
}

/// Returns `None`: macOS does not provide it.
pub fn tcp_peer_user(_: SocketAddr, _: SocketAddr) -> Option<u32> {
    None
}

/// Returns [`TcpPeer::Other`]: nothing is known against any peer.
pub fn tcp_peer(_: SocketAddr, _: SocketAddr, _: &[ProcessId]) -> TcpPeer {
    TcpPeer::Other
}
