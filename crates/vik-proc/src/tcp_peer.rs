//! Who is at the other end of a TCP connection of this machine.
//!
//! Unlike a Unix socket, a TCP connection has no credentials. The kernel provides the socket at the
//! other end, and `/proc` the processes that have this socket open.

use std::net::{IpAddr, SocketAddr};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

use crate::identity::ProcessId;
use crate::peer::descends_from;

mod diag;
mod holder;

/// How often all processes are searched: the socket may move from one to another meanwhile.
const SEARCHES: usize = 3;

/// Who is at the other end of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpPeer {
    /// A process that is one of those in question, or descends from one of them.
    Descendant,
    /// Another process or user of this machine, another network namespace, or another machine.
    Other,
    /// A process that cannot be found: any process of the user may have the connection. One of
    /// them, which is no descendant, hides its files as `sshd` does.
    Hidden,
    /// A peer that is not trusted, as when the connection is closed already.
    Unknown,
}

/// The socket at the other end of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Socket {
    /// It belongs to another machine or another network namespace.
    Remote,
    /// It belongs to this machine.
    Local {
        /// The number that `/proc/PID/fd` shows for it.
        inode: u32,
        /// The user that made it.
        uid: u32,
    },
    /// It belonged to this machine; no process has it open any more.
    Closed,
    /// This system does not provide it.
    Unknown,
}

/// Returns what the kernel knows of the socket at the other end of a connection from `peer` to
/// `local`.
fn peer_socket(peer: SocketAddr, local: SocketAddr) -> Socket {
    let (peer, local) = (canonical(peer), canonical(local));
    match diag::find(peer, local) {
        Ok(Some((inode, uid))) if inode > 0 => Socket::Local { inode, uid },
        Ok(Some(_)) => Socket::Closed,
        Ok(None) if is_own_address(peer.ip()) => Socket::Closed,
        Ok(None) => Socket::Remote,
        Err(_) if is_own_address(peer.ip()) => Socket::Unknown,
        Err(_) => Socket::Remote,
    }
}

/// Returns the user that made the socket at the other end of a connection, where it belongs to this
/// machine and the kernel provides it without a search.
pub fn tcp_peer_user(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let found = diag::by_netlink(canonical(peer), canonical(local)).ok()??;
    Some(found.1)
}

/// Finds out whether the process at the other end of a connection is one of these or descends from
/// one of them.
///
/// Only [`TcpPeer::Other`] is evidence. A process can keep a connection without showing it: it
/// moves the connection between processes faster than they are searched, or closes its descriptor
/// while a call still uses it. A process outside of these trees that is given the connection counts
/// as its own.
pub fn tcp_peer(peer: SocketAddr, local: SocketAddr, roots: &[ProcessId]) -> TcpPeer {
    let mut last = TcpPeer::Unknown;
    for _ in 0..SEARCHES {
        let (inode, uid) = match peer_socket(peer, local) {
            Socket::Local { inode, uid } => (inode, uid),
            Socket::Remote => return TcpPeer::Other,
            Socket::Closed | Socket::Unknown => return TcpPeer::Unknown,
        };
        last = match holder::search(inode, uid, roots) {
            holder::Found::Process(process) => match descends_from(process.pid, roots) {
                Some(true) => return TcpPeer::Descendant,
                // Nobody else has got its pid meanwhile.
                Some(false) if ProcessId::of(process.pid) == Some(process) => return TcpPeer::Other,
                _ => TcpPeer::Unknown,
            },
            holder::Found::OtherUser => return TcpPeer::Other,
            holder::Found::Hidden => TcpPeer::Hidden,
            holder::Found::NoProcess => TcpPeer::Unknown,
        };
    }
    last
}

/// Returns an IPv4 address for one that is mapped into IPv6, as a listener for IPv6 gets it.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Returns whether an address belongs to this machine; `true` where its interfaces cannot be
/// listed.
fn is_own_address(ip: IpAddr) -> bool {
    ip.is_loopback()
        || getifaddrs().map_or(true, |mut interfaces| {
            interfaces.any(|interface| {
                interface
                    .address
                    .is_some_and(|address| ip_of(&address) == Some(ip))
            })
        })
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

#[cfg(test)]
mod tests;
