//! Reports that a file has grown.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

#[cfg(target_os = "linux")]
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// A descriptor that is readable after the file was written to.
#[cfg(target_os = "linux")]
pub(crate) struct Watch(Inotify);

#[cfg(target_os = "linux")]
impl Watch {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        inotify.add_watch(path, AddWatchFlags::IN_MODIFY)?;
        Ok(Self(inotify))
    }

    /// Discards the events so far. The caller reads the file afterwards.
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

/// macOS has no such watch, so the caller polls the file.
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
