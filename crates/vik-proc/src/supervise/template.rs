//! The daemon's side of the template of shims.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, recv, sendmsg, setsockopt, socketpair,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use crate::identity::ProcessId;
use crate::sandbox::HiddenList;
use crate::shim::template::MAX_DESCRIPTORS;
use crate::sys;

/// The longest time for a fork, in seconds.
const REPLY_TIMEOUT: i64 = 10;

/// A process that forks shims.
#[derive(Debug)]
struct Template {
    socket: OwnedFd,
    process: ProcessId,
}

/// The template of a supervisor. It is started for the second shim, so that a command that needs
/// only one does not start it.
#[derive(Debug, Default)]
pub(super) struct TemplateSlot(Mutex<Slot>);

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Unused,
    Wanted,
    Running(Template),
}

/// The result of asking the template for a shim.
pub(super) enum Forked {
    /// The pid of the shim, a child of this process.
    Shim(i32),
    /// There is no template, and the shim has to be started without it.
    NoTemplate,
}

impl TemplateSlot {
    /// Forks a shim with these descriptors, for a sandbox with these hidden places. `start` starts a
    /// template with this descriptor as number 0.
    ///
    /// # Errors
    /// When a request was made and its result is not known. A shim that was forked nevertheless
    /// ends as soon as its descriptors are closed here.
    pub(super) fn fork(
        &self,
        given: &[(OwnedFd, RawFd)],
        hidden: Option<&HiddenList>,
        start: impl FnOnce(OwnedFd) -> io::Result<i32>,
    ) -> io::Result<Forked> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let template = match std::mem::take(&mut *slot) {
            Slot::Unused => {
                *slot = Slot::Wanted;
                return Ok(Forked::NoTemplate);
            }
            Slot::Wanted => Template::start(start),
            Slot::Running(template) => Ok(template),
        };
        *slot = Slot::Wanted;
        let Ok(template) = template else {
            return Ok(Forked::NoTemplate);
        };
        if template.request(given, hidden).is_err() {
            // The next start gets a new one.
            return Ok(Forked::NoTemplate);
        }
        let pid = template.reply()?;
        *slot = Slot::Running(template);
        Ok(Forked::Shim(pid))
    }

    /// Ends the template and waits until it has exited.
    pub(super) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Slot::Unused;
    }
}

impl Template {
    fn start(start: impl FnOnce(OwnedFd) -> io::Result<i32>) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (socket, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(REPLY_TIMEOUT))?;
        let theirs = sys::duplicate_above_stdio(theirs.as_raw_fd())?;
        let pid = start(theirs)?;
        // The process was not waited for yet, so its pid cannot have been reused.
        let process = ProcessId::of(pid).unwrap_or(ProcessId { pid, start_time: 0 });
        Ok(Self { socket, process })
    }

    /// Sends the descriptors, their number, their numbers in the shim, and the hidden places.
    fn request(&self, given: &[(OwnedFd, RawFd)], hidden: Option<&HiddenList>) -> io::Result<()> {
        let numbers: Vec<u8> = given
            .iter()
            .filter_map(|(_, number)| u8::try_from(*number).ok())
            .collect();
        if numbers.len() != given.len() || numbers.len() > MAX_DESCRIPTORS {
            return Err(Errno::EINVAL.into());
        }
        let descriptors: Vec<RawFd> = given.iter().map(|(fd, _)| fd.as_raw_fd()).collect();
        let rights = [ControlMessage::ScmRights(&descriptors)];
        let count = [u8::try_from(numbers.len()).unwrap_or(0)];
        let hidden = hidden.map(HiddenList::as_bytes).unwrap_or_default();
        let parts = [&count[..], &numbers, hidden].map(IoSlice::new);
        loop {
            match sendmsg::<()>(
                self.socket.as_raw_fd(),
                &parts,
                &rights,
                MsgFlags::MSG_NOSIGNAL,
                None,
            ) {
                Err(Errno::EINTR) => {}
                result => return result.map(|_| ()).map_err(io::Error::from),
            }
        }
    }

    /// Waits for the pid of the shim.
    fn reply(&self) -> io::Result<i32> {
        let mut bytes = [0; size_of::<i32>()];
        loop {
            match recv(self.socket.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
                Ok(length) if length < bytes.len() => return Err(Errno::ECONNRESET.into()),
                Ok(_) => break,
            }
        }
        match i32::from_ne_bytes(bytes) {
            pid @ 1.. => Ok(pid),
            errno => Err(io::Error::from_raw_os_error(-errno)),
        }
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        // It would also end when its socket is closed, unless it is stopped.
        self.process.signal(libc::SIGKILL);
        let _ = waitpid(Pid::from_raw(self.process.pid), None);
    }
}
