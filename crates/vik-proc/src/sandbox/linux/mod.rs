//! Landlock for files, signals and abstract sockets; seccomp for calls.

mod calls;
mod changes;
mod files;
mod opened;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;

use super::{Sandbox, SandboxError};
use crate::sys::{self, CallFilter};
pub(crate) use opened::{HiddenList, KeptPlaces, MAX_LIST, OpenedPlaces};

/// The rules that are applied to a child.
#[derive(Debug)]
pub(super) struct Walls {
    files: OwnedFd,
    calls: Option<CallFilter>,
}

impl Walls {
    /// Creates the rules of a sandbox on this system, with the readable places that are open
    /// already, and returns them with the system's version of Landlock.
    pub(super) fn of(sandbox: &Sandbox, opened: Option<&OpenedPlaces>) -> Result<(Self, i64), SandboxError> {
        let abi = sys::landlock_abi().map_err(|error| {
            SandboxError::Unsupported(match error.raw_os_error() {
                Some(libc::EOPNOTSUPP) => "Landlock is disabled in this kernel",
                Some(libc::ENOSYS) => "this kernel has no Landlock (requires Linux 5.13)",
                _ => "Landlock is not permitted here",
            })
        })?;
        let files = files::rules(sandbox, opened)?.ok_or(SandboxError::Unsupported(
            "unknown version of Landlock in this kernel",
        ))?;
        let calls = sandbox.calls.as_ref().map(|calls| calls::filter(calls, abi));
        let calls = calls.transpose()?;
        Ok((Self { files, calls }, abi))
    }

    /// Confines the calling thread. Allocates nothing.
    pub(super) fn enforce(&self) -> io::Result<()> {
        if self.calls.is_some() {
            sys::drop_capabilities();
        }
        sys::landlock_restrict(self.files.as_raw_fd())?;
        self.calls.as_ref().map_or(Ok(()), CallFilter::enforce)
    }
}
