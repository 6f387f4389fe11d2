//! Asks the kernel for the route to an address (as `ip route get` prints it).

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

/// The length of `nlmsghdr`, in bytes.
const HEADER: usize = 16;
/// The length of `rtmsg`, in bytes.
const BODY: usize = 12;
/// The offset in the message of the route's type, a field of `rtmsg`.
const TYPE_AT: usize = HEADER + 7;

/// Returns whether the address belongs to another machine: the route to it is an ordinary one.
///
/// An address of this machine has a route of type `local`, even if no interface has it (`ip route
/// add local …`).
///
/// # Errors
/// When there is no route, or the kernel does not answer.
pub(crate) fn is_elsewhere(address: IpAddr) -> io::Result<bool> {
    let route = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    setsockopt(&route, sockopt::ReceiveTimeout, &TimeVal::new(5, 0))?;
    send(route.as_raw_fd(), &request(address), MsgFlags::empty())?;
    let mut answer = [0; 1024];
    let length = recv(route.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    parse(&answer[..length])
}

fn request(address: IpAddr) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let attribute = 4 + bytes.len();
    let total = HEADER + BODY + attribute;
    let mut message = Vec::with_capacity(total);
    let length = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX);
    message.extend(u32::from(length(total)).to_ne_bytes());
    message.extend(libc::RTM_GETROUTE.to_ne_bytes());
    message.extend(length(libc::NLM_F_REQUEST.unsigned_abs() as usize).to_ne_bytes());
    // The sequence number and the port are 0, as there is only one request and one answer.
    message.extend([0; 8]);
    message.push(family.unsigned_abs() as u8);
    message.push(length(bytes.len() * 8) as u8);
    message.extend([0; BODY - 2]);
    message.extend(length(attribute).to_ne_bytes());
    message.extend(libc::RTA_DST.to_ne_bytes());
    message.extend(bytes);
    message
}

fn parse(answer: &[u8]) -> io::Result<bool> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok());
    match kind.map(u16::from_ne_bytes) {
        Some(libc::RTM_NEWROUTE) => {
            let kind = answer.get(TYPE_AT).copied().ok_or_else(malformed)?;
            if [libc::RTN_BLACKHOLE, libc::RTN_UNREACHABLE, libc::RTN_PROHIBIT].contains(&kind) {
                return Err(io::ErrorKind::HostUnreachable.into());
            }
            Ok(kind == libc::RTN_UNICAST)
        }
        Some(kind) if i32::from(kind) == libc::NLMSG_ERROR => {
            let errno = answer
                .get(HEADER..HEADER + 4)
                .and_then(|code| code.try_into().ok());
            let errno = errno.map(i32::from_ne_bytes).ok_or_else(malformed)?;
            Err(io::Error::from_raw_os_error(-errno))
        }
        _ => Err(malformed()),
    }
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
        assert!(parse(&[0; 3]).is_err());
    }
}
