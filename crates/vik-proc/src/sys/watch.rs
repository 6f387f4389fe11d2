//! Hears from the system that a file has grown.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

#[cfg(target_os = "linux")]
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// Readable when something was written to the file.
#[cfg(target_os = "linux")]
pub(crate) struct Watch(Inotify);

#[cfg(target_os = "linux")]
impl Watch {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        inotify.add_watch(path, AddWatchFlags::IN_MODIFY)?;
        Ok(Self(inotify))
    }

    /// Forgets what was told so far: look at the file after this.
    pub(crate) fn clear(&self) {
        while self.0.read_events().is_ok_and(|events| !events.is_empty()) {}
    }
}

#[cfg(target_os = "linux")]
impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// There is none here: look at the file now and then.
#[cfg(not(target_os = "linux"))]
pub(crate) enum Watch {}

#[cfg(not(target_os = "linux"))]
impl Watch {
    pub(crate) fn new(_: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn clear(&self) {
        match *self {}
    }
}

#[cfg(not(target_os = "linux"))]
impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
