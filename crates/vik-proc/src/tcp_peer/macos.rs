//! macOS tells which process has a TCP connection by private interfaces only: there the token alone decides.

use std::net::SocketAddr;

use crate::identity::ProcessId;

/// Returns `None`: macOS does not tell.
pub fn tcp_peer_user(_: SocketAddr, _: SocketAddr) -> Option<u32> {
    None
}

/// Returns `Some(false)`: nothing is known against any peer.
pub fn tcp_peer_descends_from(_: SocketAddr, _: SocketAddr, _: &[ProcessId]) -> Option<bool> {
    Some(false)
}
