//! Who is at the other end of a Unix socket.

use std::io;
use std::os::fd::AsFd;

use crate::identity::{ProcessId, ancestors};

/// The pid of the process that connected. An error where it is of a PID namespace that cannot be seen from here.
pub fn peer_pid(socket: &impl AsFd) -> io::Result<i32> {
    #[cfg(target_os = "linux")]
    let pid = nix::sys::socket::getsockopt(socket, nix::sys::socket::sockopt::PeerCredentials)?.pid();
    #[cfg(target_os = "macos")]
    let pid = nix::sys::socket::getsockopt(socket, nix::sys::socket::sockopt::LocalPeerPid)?;
    if pid > 0 {
        Ok(pid)
    } else {
        Err(io::Error::other("the peer is in another PID namespace"))
    }
}

/// Whether a process is one of these, or has one of them among its ancestors.
///
/// A process that is gone descends from nobody: ask while its connection is open, and refuse what cannot be told.
pub fn descends_from(pid: i32, of: &[ProcessId]) -> bool {
    ProcessId::of(pid)
        .into_iter()
        .chain(ancestors(pid))
        .any(|process| of.contains(&process))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_of_ones_own() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let me = ProcessId::current();
        assert_eq!(peer_pid(&one).unwrap(), me.pid);
        assert!(descends_from(me.pid, &[me]));
        assert!(descends_from(me.pid, &[me.parent().unwrap()]));
        assert!(!descends_from(
            me.pid,
            &[ProcessId {
                start_time: me.start_time + 1,
                ..me
            }]
        ));
        assert!(!descends_from(me.pid, &[]));
    }
}
