//! Identifies the process at the other end of a Unix socket.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::identity::ProcessId;
use crate::reap::is_orphan;
use crate::sys;

/// The number of attempts to walk a chain of ancestors that changes meanwhile.
const MAX_WALKS: usize = 10;
/// The longest possible chain of ancestors.
const MAX_DEPTH: usize = 4096;

/// Returns the pid of the process that connected. Returns an error if that process is in a PID
/// namespace that is not visible here.
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

/// Reads the first bytes that a peer sent, and leaves them in the socket.
///
/// # Errors
/// When the socket cannot be read, which includes a socket without data.
pub fn peek(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<usize> {
    use std::os::fd::AsRawFd;
    let flags = nix::sys::socket::MsgFlags::MSG_PEEK;
    Ok(nix::sys::socket::recv(socket.as_fd().as_raw_fd(), bytes, flags)?)
}

/// Returns whether a process is one of these, has one of them among its ancestors, or was left to
/// this process by a lost shim. Returns `None` if that cannot be determined because the process has
/// exited. Its connection may outlive it, so such a peer is not trusted.
pub fn descends_from(pid: i32, roots: &[ProcessId]) -> Option<bool> {
    // An ancestor may end during the walk, which gives its children another parent.
    (0..MAX_WALKS).find_map(|_| walk(pid, roots))
}

fn walk(pid: i32, roots: &[ProcessId]) -> Option<bool> {
    let mut current = ProcessId::of(pid)?;
    for _ in 0..MAX_DEPTH {
        if roots.contains(&current) {
            return Some(true);
        }
        let stat = sys::stat(current.pid).filter(|stat| stat.start_time == current.start_time)?;
        if stat.ppid == 0 {
            // The kernel also shows this of a process that ends during the read.
            return (ProcessId::of(current.pid) == Some(current)).then_some(false);
        }
        // Without a sandbox an agent can kill its shim, and this process inherits the tree.
        if stat.ppid.cast_unsigned() == std::process::id() && is_orphan(current.pid) {
            return Some(true);
        }
        current = match ProcessId::of(stat.ppid) {
            // Another process has got the parent's pid.
            Some(parent) if parent.start_time > current.start_time => return None,
            Some(parent) => parent,
            // Processes of other users may be hidden; the processes in question belong to this
            // user. The parent is still the same, so nobody else has got its pid.
            None if kill(Pid::from_raw(stat.ppid), None) == Err(Errno::EPERM) => {
                let is_same = sys::stat(current.pid).is_some_and(|now| now.ppid == stat.ppid);
                return is_same.then_some(false);
            }
            None => return None,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_of_the_same_process_is_identified() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let me = ProcessId::current();
        assert_eq!(peer_pid(&one).unwrap(), me.pid);
        assert_eq!(descends_from(me.pid, &[me]), Some(true));
        assert_eq!(descends_from(me.pid, &[me.parent().unwrap()]), Some(true));
        let other = ProcessId {
            start_time: me.start_time + 1,
            ..me
        };
        assert_eq!(descends_from(me.pid, &[other]), Some(false));
        assert_eq!(descends_from(me.pid, &[]), Some(false));
    }

    #[test]
    fn ended_process_has_no_known_ancestors() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        child.wait().unwrap();
        assert_eq!(descends_from(pid, &[]), None);
    }
}
