//! The FIFO through which a later daemon takes the shim over.
//!
//! Each line is `WORD OWNER`. The last who said `hello` owns the shim, and only the owner's other words count. An owner is
//! gone when its process is, when it says `bye`, or when nobody has the FIFO open for writing any more; a stranger who
//! holds it open keeps nothing alive.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use nix::sys::stat::Mode;

use super::lifeline::{Command, Lifeline};
use crate::identity::ProcessId;
use crate::sys;

/// A daemon that has taken the shim over.
pub(super) struct Owner {
    name: Vec<u8>,
    /// Readable when it is gone; `None` where the system has no such handle.
    alive: Option<OwnedFd>,
}

impl Owner {
    /// The name is `PID.START_TIME.NUMBER`; nobody else is let in.
    fn new(name: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(name).ok()?.splitn(3, '.');
        let process = ProcessId {
            pid: parts.next()?.parse().ok()?,
            start_time: parts.next()?.parse().ok()?,
        };
        // The handle first: what has the pid afterwards is what the handle is for.
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

/// One line that means something.
pub(super) enum ControlMessage {
    Hello(Owner),
    Bye(Vec<u8>),
    Command(Command, Vec<u8>),
}

impl ControlMessage {
    fn parse(line: &[u8]) -> Option<Self> {
        let space = line.iter().position(|&byte| byte == b' ')?;
        let (word, owner) = (&line[..space], &line[space + 1..]);
        match word {
            b"hello" => Owner::new(owner).map(Self::Hello),
            b"bye" => Some(Self::Bye(owner.to_vec())),
            _ => Command::parse(word).map(|command| Self::Command(command, owner.to_vec())),
        }
    }
}

pub(super) struct Control {
    path: PathBuf,
    lines: Lifeline,
}

impl Control {
    /// Makes the FIFO, in the place of one that is there already.
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

    /// Reads once. `false`: nobody has it open for writing.
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

    /// After the last writer has gone a FIFO says so again and again, until it is opened anew. The new one is open before
    /// the old one closes: who comes in between finds a reader.
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
