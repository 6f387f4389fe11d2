//! The daemon's connection to a shim: the pipe to one that it started, the FIFO to one that it
//! adopted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::libc;
use tokio::net::unix::pipe;

use crate::identity::ProcessId;

/// The number of the next adoption, which is part of the owner's name.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The connection to a shim. The shim keeps its agent alive while it is open.
pub(super) enum Link {
    Pipe(pipe::Sender),
    Fifo(Fifo),
}

impl Link {
    /// Sends one command. Returns `false` if that fails.
    pub(super) fn send(&mut self, command: &str) -> bool {
        match self {
            Self::Pipe(pipe) => pipe.try_write(format!("{command}\n").as_bytes()).is_ok(),
            Self::Fifo(fifo) => fifo.send(command).is_ok(),
        }
    }
}

pub(super) struct Fifo {
    file: File,
    owner: String,
}

impl Fifo {
    /// Opens the FIFO of a shim and sends `hello`. An error of the kind `NotFound`, or ENXIO, means
    /// that no shim reads it yet, or any more.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // The check comes first, as opening another kind of file may have side effects.
        if !fs::symlink_metadata(path)?.file_type().is_fifo() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = fs::OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
            .open(path)?;
        let me = ProcessId::current();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut fifo = Self {
            file,
            owner: format!("{}.{}.{number}", me.pid, me.start_time),
        };
        fifo.send("hello")?;
        Ok(fifo)
    }

    /// Sends a line in one write, which a FIFO does not split. The leading newline ends a line that
    /// another writer left unfinished.
    fn send(&mut self, command: &str) -> io::Result<()> {
        self.file
            .write_all(format!("\n{command} {}\n", self.owner).as_bytes())
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        // Other processes may hold the FIFO open, so closing this file alone does not end the
        // ownership.
        let _ = self.send("bye");
    }
}
