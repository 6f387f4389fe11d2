//! Requests to the kernel by netlink, each with one answer.

use std::io;
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

/// The length of `nlmsghdr`, in bytes.
const HEADER: usize = 16;

/// How long to wait for the kernel, which answers at once, in seconds.
const ANSWER_TIMEOUT: i64 = 5;

/// Sends a request, and returns the type of the answer and the message in it.
///
/// # Errors
/// When the kernel refuses the request, or does not answer.
pub(crate) fn request(protocol: SockProtocol, kind: u16, message: &[u8]) -> io::Result<(u16, Vec<u8>)> {
    const NLM_F_REQUEST: u16 = 1;
    let netlink = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        protocol,
    )?;
    setsockopt(
        &netlink,
        sockopt::ReceiveTimeout,
        &TimeVal::new(ANSWER_TIMEOUT, 0),
    )?;
    let length = u32::try_from(HEADER + message.len()).map_err(io::Error::other)?;
    let mut request = length.to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    // The sequence number and the port are 0, as there is only one request and one answer.
    request.extend([0; 8]);
    request.extend(message);
    send(netlink.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut answer = [0; 1024];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let (kind, message) = parse(&answer[..length])?;
    Ok((kind, message.to_vec()))
}

fn parse(answer: &[u8]) -> io::Result<(u16, &[u8])> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let (header, message) = answer.split_at_checked(HEADER).ok_or_else(malformed)?;
    let kind = u16::from_ne_bytes([header[4], header[5]]);
    if i32::from(kind) == libc::NLMSG_ERROR {
        let errno = message.first_chunk().copied().ok_or_else(malformed)?;
        return Err(io::Error::from_raw_os_error(
            i32::from_ne_bytes(errno).wrapping_neg(),
        ));
    }
    Ok((kind, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_answer_is_an_error() {
        for length in [0, 5, HEADER - 1] {
            assert!(parse(&vec![0; length]).is_err(), "{length}");
        }
    }
}
