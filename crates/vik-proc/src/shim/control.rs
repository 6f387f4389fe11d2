//! The FIFO through which a later daemon takes the shim over.
//!
//! Each line is `COMMAND OWNER`. The last sender of `hello` owns the shim, and only the commands of
//! the owner are carried out. The ownership ends when the owner's process ends, when it sends
//! `bye`, or when no process has the FIFO open for writing any more. A process that only holds the
//! FIFO open does not keep the agent alive.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use nix::libc;
use nix::sys::stat::Mode;

use super::lifeline::{Command, Lifeline};
use crate::identity::ProcessId;
use crate::sys;

/// A daemon that has taken the shim over.
pub(super) struct Owner {
    name: Vec<u8>,
    /// A descriptor that is readable when the daemon has ended; `None` if the system has no such
    /// handle.
    alive: Option<OwnedFd>,
}

impl Owner {
    /// Parses the name `PID.START_TIME.NUMBER`. Returns `None` for any other form, and if the
    /// process has ended.
    fn new(name: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(name).ok()?.splitn(3, '.');
        let process = ProcessId {
            pid: parts.next()?.parse().ok()?,
            start_time: parts.next()?.parse().ok()?,
        };
        // The handle is opened before the check, so it stays with the process that the check sees.
        let alive = sys::pidfd_open(process.pid).ok();
        process.is_alive().then(|| Self {
            name: name.to_vec(),
            alive,
        })
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.alive.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn is(&self, name: &[u8]) -> bool {
        self.name == name
    }
}

pub(super) enum ControlMessage {
    Hello(Owner),
    Bye(Vec<u8>),
    Command(Command, Vec<u8>),
}

impl ControlMessage {
    fn parse(line: &[u8]) -> Option<Self> {
        let space = line.iter().rposition(|&byte| byte == b' ')?;
        let (command, owner) = (&line[..space], &line[space + 1..]);
        match command {
            b"hello" => Owner::new(owner).map(Self::Hello),
            b"bye" => Some(Self::Bye(owner.to_vec())),
            _ => Command::parse(command).map(|command| Self::Command(command, owner.to_vec())),
        }
    }
}

pub(super) struct Control {
    path: PathBuf,
    lines: Lifeline,
}

impl Control {
    /// Creates the FIFO, and replaces an existing file.
    pub(super) fn make(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        Ok(Self {
            path: path.to_owned(),
            lines: Lifeline::new(open(path)?),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.lines.fd()
    }

    /// Reads once. Returns `false` if no process has the FIFO open for writing.
    pub(super) fn receive(&mut self) -> bool {
        self.lines.receive()
    }

    pub(super) fn take_messages(&mut self) -> Vec<ControlMessage> {
        let lines = self.lines.lines();
        lines
            .iter()
            .filter_map(|line| ControlMessage::parse(line))
            .collect()
    }

    /// Opens the FIFO again. After its last writer has closed it, a FIFO reports that until it is
    /// reopened. The new descriptor is opened before the old one is closed, so that a daemon that
    /// comes in between finds a reader.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.lines = Lifeline::new(open(&self.path)?);
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let fifo = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)?;
    if !fifo.metadata()?.file_type().is_fifo() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(fifo.into())
}
