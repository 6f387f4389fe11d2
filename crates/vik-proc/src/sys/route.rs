//! Asks the kernel for the route to an address (as `ip route get` prints it).

use std::io;
use std::net::IpAddr;

use nix::libc;
use nix::sys::socket::SockProtocol;

use super::netlink;

/// The length of `rtmsg`, in bytes.
const BODY: usize = 12;
/// The offset in the message of the route's type, a field of `rtmsg`.
const TYPE_AT: usize = 7;

/// Returns whether the address belongs to another machine: the route to it is an ordinary one.
///
/// An address of this machine has a route of type `local`, even if no interface has it (`ip route
/// add local …`).
///
/// # Errors
/// When there is no route, or the kernel does not answer.
pub(crate) fn is_elsewhere(address: IpAddr) -> io::Result<bool> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let (kind, route) = netlink::request(SockProtocol::NetlinkRoute, libc::RTM_GETROUTE, &message(address))?;
    if kind != libc::RTM_NEWROUTE {
        return Err(malformed());
    }
    let kind = route.get(TYPE_AT).copied().ok_or_else(malformed)?;
    if [libc::RTN_BLACKHOLE, libc::RTN_UNREACHABLE, libc::RTN_PROHIBIT].contains(&kind) {
        return Err(io::ErrorKind::HostUnreachable.into());
    }
    Ok(kind == libc::RTN_UNICAST)
}

fn message(address: IpAddr) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let length = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX);
    let mut message = vec![family.unsigned_abs() as u8, length(bytes.len() * 8) as u8];
    message.resize(BODY, 0);
    message.extend(length(4 + bytes.len()).to_ne_bytes());
    message.extend(libc::RTA_DST.to_ne_bytes());
    message.extend(bytes);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_address_is_not_elsewhere() {
        for own in ["127.0.0.1", "127.200.3.4", "::1"] {
            assert!(!is_elsewhere(own.parse().unwrap()).unwrap_or(false), "{own}");
        }
    }

    #[test]
    fn ordinary_route_leads_elsewhere() {
        // Without a network there is no route at all.
        let documentation = "192.0.2.1".parse().unwrap();
        assert!(is_elsewhere(documentation).unwrap_or(true));
    }
}
