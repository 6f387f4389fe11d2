//! The template of shims: `vik __shim template`. The daemon starts it once, and it forks a shim for
//! each request. A forked shim needs no loading and relocation of the program, and shares the
//! memory that this has changed.
//!
//! A shim's parent is the daemon, as if the daemon had started it: the template only copies itself.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::process::ExitCode;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, send};

use crate::sys;

/// The argument after [`crate::SHIM_VERB`].
pub(crate) const VERB: &str = "template";
/// The most descriptors of a shim.
pub(crate) const MAX_DESCRIPTORS: usize = 4;

/// What a process does after [`serve`].
pub(super) enum Role {
    /// It is a new shim, and has its descriptors.
    Shim,
    /// It was the template, and no more shims are needed.
    Ended(ExitCode),
}

/// A request for one shim.
enum Request {
    /// Each descriptor and its number in the shim.
    Fork(Vec<(OwnedFd, RawFd)>),
    /// The daemon has ended, or needs no more shims.
    End,
}

/// Forks a shim for each request on descriptor 0.
pub(super) fn serve() -> Role {
    crate::set_non_dumpable();
    let _ = nix::sys::prctl::set_name(c"vik-shim");
    let Some(socket) = sys::inherited(0) else {
        return Role::Ended(super::refuse("only the daemon can start it"));
    };
    loop {
        let given = match receive(&socket) {
            Ok(Request::Fork(given)) => given,
            Ok(Request::End) => return Role::Ended(ExitCode::SUCCESS),
            Err(error) => return Role::Ended(super::refuse(&format!("cannot receive a request: {error}"))),
        };
        let reply = match sys::fork_sibling() {
            Ok(Some(pid)) => pid,
            Ok(None) => {
                // Descriptor 0 is replaced, so it must not be closed.
                let _ = socket.into_raw_fd();
                return match sys::install(&given) {
                    Ok(()) => Role::Shim,
                    Err(error) => Role::Ended(super::refuse(&format!("cannot take descriptors: {error}"))),
                };
            }
            Err(error) => -error.raw_os_error().unwrap_or(nix::libc::EIO),
        };
        drop(given);
        if send(socket.as_raw_fd(), &reply.to_ne_bytes(), MsgFlags::MSG_NOSIGNAL).is_err() {
            return Role::Ended(ExitCode::SUCCESS);
        }
    }
}

/// Waits for the next request.
fn receive(socket: &OwnedFd) -> io::Result<Request> {
    let mut numbers = [0; MAX_DESCRIPTORS];
    let mut space = cmsg_space!([RawFd; MAX_DESCRIPTORS]);
    let (length, received) = loop {
        let mut parts = [IoSliceMut::new(&mut numbers)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Ok(message) => {
                let mut received = Vec::new();
                for control in message.cmsgs()? {
                    if let ControlMessageOwned::ScmRights(descriptors) = control {
                        received.extend(descriptors.into_iter().filter_map(sys::inherited));
                    }
                }
                break (message.bytes, received);
            }
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    if length == 0 {
        return Ok(Request::End);
    }
    if length != received.len() {
        return Err(Errno::EBADMSG.into());
    }
    // Above all numbers that a shim uses.
    let lift = |(descriptor, number): (OwnedFd, &u8)| {
        let lifted = sys::duplicate_above_stdio(descriptor.as_raw_fd())?;
        Ok((lifted, RawFd::from(*number)))
    };
    let given = received.into_iter().zip(&numbers).map(lift);
    given.collect::<io::Result<_>>().map(Request::Fork)
}
