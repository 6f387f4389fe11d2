//! Finds a TCP socket by its addresses.

use std::io;
use std::net::{IpAddr, SocketAddr};

use nix::libc;
use nix::sys::socket::SockProtocol;

use crate::sys::netlink;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const LISTENING: u8 = 10;

/// The length of `struct inet_diag_sockid`.
const ADDRESSES: usize = 48;
/// The length of `struct inet_diag_msg`, and where its fields are.
const ANSWER: usize = 72;
const STATE: usize = 1;
const ID: usize = 4;
const UID: usize = 64;
const INODE: usize = 68;

/// Returns the inode and the user of the socket at `own` that is connected to `other`.
///
/// # Errors
/// When the kernel does not list sockets.
pub(super) fn find(own: SocketAddr, other: SocketAddr) -> io::Result<Option<(u32, u32)>> {
    let found = by_netlink(own, other);
    match found {
        Ok(Some(_)) => return found,
        // The kernel answers the same where it cannot search: then it does not find the other end
        // either.
        Ok(None) if by_netlink(other, own)?.is_some() => return found,
        _ => {}
    }
    from_tables(own, other)
}

/// Asks by `NETLINK_SOCK_DIAG`, which takes the same time however many sockets there are.
pub(super) fn by_netlink(own: SocketAddr, other: SocketAddr) -> io::Result<Option<(u32, u32)>> {
    let id = addresses(own, other);
    match netlink::request(
        SockProtocol::NetlinkSockDiag,
        SOCK_DIAG_BY_FAMILY,
        &request(own, &id),
    ) {
        Ok((_, answer)) => parse(&answer, &id),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Asks for the TCP socket with these addresses: a `struct inet_diag_req_v2`.
fn request(own: SocketAddr, id: &[u8; ADDRESSES]) -> Vec<u8> {
    let family = if own.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let byte = |number: i32| u8::try_from(number).unwrap_or(0);
    let mut request = vec![byte(family), byte(libc::IPPROTO_TCP), 0, 0];
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(id);
    request
}

/// `struct inet_diag_sockid`, without a cookie.
fn addresses(own: SocketAddr, other: SocketAddr) -> [u8; ADDRESSES] {
    let mut id = [0; ADDRESSES];
    id[..2].copy_from_slice(&own.port().to_be_bytes());
    id[2..4].copy_from_slice(&other.port().to_be_bytes());
    for (at, ip) in [(4, own.ip()), (20, other.ip())] {
        match ip {
            IpAddr::V4(ip) => id[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => id[at..at + 16].copy_from_slice(&ip.octets()),
        }
    }
    if let SocketAddr::V6(own) = own {
        id[36..40].copy_from_slice(&own.scope_id().to_ne_bytes());
    }
    id[40..].fill(0xff);
    id
}

fn parse(answer: &[u8], id: &[u8; ADDRESSES]) -> io::Result<Option<(u32, u32)>> {
    let answer: &[u8; ANSWER] = answer.first_chunk().ok_or(io::ErrorKind::InvalidData)?;
    let number = |at: usize| u32::from_ne_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
    // Without a connection between these addresses the kernel returns a listener at the port.
    let matches = answer[STATE] != LISTENING && answer[ID..ID + 4] == id[..4];
    Ok(matches.then(|| (number(INODE), number(UID))))
}

/// Reads `/proc/net`, for kernels and containers without `NETLINK_SOCK_DIAG`.
fn from_tables(own: SocketAddr, other: SocketAddr) -> io::Result<Option<(u32, u32)>> {
    // A socket for IPv6 may be connected over IPv4.
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    if own.is_ipv4() {
        let table = std::fs::read_to_string("/proc/net/tcp")?;
        if let Some(found) = in_table(&table, &format_address(own), &format_address(other)) {
            return Ok(Some(found));
        }
    }
    match std::fs::read_to_string("/proc/net/tcp6") {
        Ok(table) => Ok(in_table(
            &table,
            &format_address(mapped(own)),
            &format_address(mapped(other)),
        )),
        // A kernel without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn in_table(table: &str, own: &str, other: &str) -> Option<(u32, u32)> {
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if fields.len() < 10 || fields[1] != own || fields[2] != other {
            return None;
        }
        Some((fields[9].parse().ok()?, fields[7].parse().ok()?))
    })
}

/// Returns an address as `/proc/net` writes it: words of 32 bits in the order of the processor.
fn format_address(address: SocketAddr) -> String {
    let octets = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = octets.chunks_exact(4).map(|word| {
        let word = word.try_into().map(u32::from_ne_bytes).unwrap_or_default();
        format!("{word:08X}")
    });
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn netlink_and_tables_find_the_same_socket() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else {
                continue;
            };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (own, other) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let found = by_netlink(own, other).unwrap();
            assert!(found.is_some_and(|(inode, uid)| inode > 0 && uid == nix::unistd::getuid().as_raw()));
            assert_eq!(from_tables(own, other).unwrap(), found, "{listen}");
            // Nothing is connected from the port of the listener, and the listener itself must not
            // be found.
            let unused = SocketAddr::new(own.ip(), 1);
            assert_eq!(by_netlink(other, unused).unwrap(), None);
            assert_eq!(from_tables(other, unused).unwrap(), None);
        }
    }

    #[test]
    fn truncated_answer_is_an_error() {
        let id = addresses("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        for length in [0, ANSWER - 1] {
            assert!(parse(&vec![0; length], &id).is_err(), "{length}");
        }
    }
}
