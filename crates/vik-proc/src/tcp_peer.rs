//! Who is at the other end of a TCP connection of this machine.
//!
//! A TCP connection has no credentials as a Unix socket has. The kernel tells which socket is at the other end, and
//! `/proc` tells which processes have that socket open.

use std::net::{IpAddr, SocketAddr};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

use crate::identity::ProcessId;
use crate::peer::descends_from;

mod diag;
mod holder;

/// How often all processes are searched for one that has the socket open: it may change hands meanwhile.
const SEARCHES: usize = 3;

/// The socket at the other end of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TcpPeer {
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
    /// This system does not tell.
    Unknown,
}

/// Returns what the kernel knows of the socket at the other end of a connection from `peer` to `local`.
fn tcp_peer(peer: SocketAddr, local: SocketAddr) -> TcpPeer {
    let (peer, local) = (canonical(peer), canonical(local));
    match diag::find(peer, local) {
        Ok(Some((inode, uid))) if inode > 0 => TcpPeer::Local { inode, uid },
        Ok(Some(_)) => TcpPeer::Closed,
        Ok(None) if is_own_address(peer.ip()) => TcpPeer::Closed,
        Ok(None) => TcpPeer::Remote,
        Err(_) if is_own_address(peer.ip()) => TcpPeer::Unknown,
        Err(_) => TcpPeer::Remote,
    }
}

/// Returns the user that made the socket at the other end of a connection, where it belongs to this machine and the
/// kernel tells without a search.
pub fn tcp_peer_user(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let found = diag::by_netlink(canonical(peer), canonical(local)).ok()??;
    Some(found.1)
}

/// Returns whether the process at the other end of a connection is one of these or has one of them among its
/// ancestors. `None` where that cannot be determined, as for a connection that its process has closed: nobody to be
/// trusted. Peers of other machines and other network namespaces are no processes of this one.
///
/// A process that gives its socket to one outside of its tree is not found.
pub fn tcp_peer_descends_from(peer: SocketAddr, local: SocketAddr, of: &[ProcessId]) -> Option<bool> {
    for _ in 0..SEARCHES {
        let (inode, uid) = match tcp_peer(peer, local) {
            TcpPeer::Local { inode, uid } => (inode, uid),
            TcpPeer::Remote => return Some(false),
            TcpPeer::Closed | TcpPeer::Unknown => return None,
        };
        match holder::search(inode, uid, of) {
            holder::Found::Process(pid) => return descends_from(pid, of),
            holder::Found::HiddenOutside => return Some(false),
            holder::Found::Undetermined => {}
        }
    }
    None
}

/// A listener for IPv6 sees peers of IPv4 as mapped addresses.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Returns whether an address is one of this machine. Where the interfaces cannot be listed, any may be.
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
