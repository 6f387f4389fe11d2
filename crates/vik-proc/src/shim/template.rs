//! The template of shims: `vik __shim template`. The daemon starts it once, and it forks a shim for
//! each request. A forked shim needs no loading and relocation of the program, and shares the
//! memory that this has changed.
//!
//! A shim's parent is the daemon, as if the daemon had started it: the template only copies itself.

use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::process::ExitCode;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};

use crate::sandbox::{HiddenList, KeptPlaces, MAX_LIST, OpenedPlaces};
use crate::sys;

/// The argument after [`crate::SHIM_VERB`].
pub(crate) const VERB: &str = "template";
/// The most descriptors of a shim.
pub(crate) const MAX_DESCRIPTORS: usize = 4;
/// The descriptors of a shim have lower numbers than this.
const FIRST_OWN: RawFd = 10;
/// How long readable places are kept open after the last request, in milliseconds. Shims that are
/// started one after another share them; a file system can be unmounted soon after.
const KEEP_MS: u16 = 2000;

/// What a process does after [`serve`].
pub(super) enum Role {
    /// It is a new shim, and has its descriptors, and perhaps readable places that are open
    /// already.
    Shim(Option<OpenedPlaces>),
    /// It was the template, and no more shims are needed.
    Ended(ExitCode),
}

/// A request for one shim.
enum Request {
    Fork {
        /// Each descriptor and its number in the shim.
        given: Vec<(OwnedFd, RawFd)>,
        /// The hidden places of its sandbox.
        hidden: Option<HiddenList>,
    },
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
    if let Err(error) = sys::occupy_below(FIRST_OWN) {
        return Role::Ended(super::refuse(&format!("cannot take descriptors: {error}")));
    }
    // Determined before the first shim, so that no shim has to.
    let _ = sys::cpus();
    let mut kept = Box::new(KeptPlaces::new());
    let mut buffer = vec![0; 1 + MAX_DESCRIPTORS + MAX_LIST];
    loop {
        wait(&socket, &mut kept);
        let (given, hidden) = match receive(&socket, &mut buffer) {
            Ok(Request::Fork { given, hidden }) => (given, hidden),
            Ok(Request::End) => return Role::Ended(ExitCode::SUCCESS),
            Err(error) => return Role::Ended(super::refuse(&format!("cannot receive a request: {error}"))),
        };
        if let Some(hidden) = &hidden {
            kept.prepare(hidden);
        }
        let reply = match sys::fork_sibling() {
            Ok(Some(pid)) => pid,
            Ok(None) => {
                // Descriptor 0 is replaced, so it must not be closed.
                let _ = socket.into_raw_fd();
                let opened = kept.in_child(hidden);
                sys::close_ranges(&[(3, FIRST_OWN - 1)]);
                return match sys::install(&given) {
                    Ok(()) => Role::Shim(opened),
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

/// Waits for the next request as long as places are kept open, and closes them if none comes.
fn wait(socket: &OwnedFd, kept: &mut KeptPlaces) {
    if !kept.is_empty() {
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(KEEP_MS)) != Ok(1) {
            kept.clear();
        }
    }
}

/// Waits for the next request: the number of descriptors, their numbers in the shim, and its hidden
/// places.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Request> {
    let (length, received) = sys::receive_descriptors(socket, buffer)?;
    let Some((&count, tail)) = buffer[..length].split_first() else {
        return Ok(Request::End);
    };
    let numbers = tail.split_at_checked(usize::from(count));
    let Some((numbers, hidden)) = numbers.filter(|(numbers, _)| numbers.len() == received.len()) else {
        return Err(Errno::EBADMSG.into());
    };
    let numbers = numbers.iter().map(|&number| RawFd::from(number));
    Ok(Request::Fork {
        given: received.into_iter().zip(numbers).collect(),
        hidden: HiddenList::parse(hidden),
    })
}
