//! The daemon's end of what it says to a shim: the pipe to one that it started, the FIFO to one that it adopted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::libc;
use tokio::net::unix::pipe;

use crate::identity::ProcessId;

/// The name of the next adoption.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// While it is open, the agent lives.
pub(super) enum Link {
    Pipe(pipe::Sender),
    Fifo(Fifo),
}

impl Link {
    /// Says one word. `false`: it cannot be said.
    pub(super) fn send(&mut self, word: &str) -> bool {
        match self {
            Self::Pipe(pipe) => pipe.try_write(format!("{word}\n").as_bytes()).is_ok(),
            Self::Fifo(fifo) => fifo.send(word).is_ok(),
        }
    }
}

pub(super) struct Fifo {
    file: File,
    owner: String,
}

impl Fifo {
    /// Opens the FIFO of a shim and says hello. An error of the kind `NotFound`, or ENXIO, means that no shim listens yet, or
    /// none any more.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // Looked at first: to open what is no FIFO may do anything.
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

    /// One write, which a FIFO keeps together. It begins a line of its own, whatever others have left unfinished.
    fn send(&mut self, word: &str) -> io::Result<()> {
        self.file
            .write_all(format!("\n{word} {}\n", self.owner).as_bytes())
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        // Others may hold it open: the end of this file alone says nothing.
        let _ = self.send("bye");
    }
}
