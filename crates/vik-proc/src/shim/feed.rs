//! Standard input of the agent: a pipe that the shim fills as fast as the agent reads, and then closes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;

use crate::sys;

const CHUNK: usize = 64 * 1024;

/// The shim's end of the agent's standard input. Dropping it closes the input.
pub(super) struct Feed {
    pipe: OwnedFd,
    source: File,
    chunk: Vec<u8>,
    written: usize,
}

impl Feed {
    /// Opens the source. Also gives the agent's end of the pipe.
    pub(super) fn open(path: &Path) -> io::Result<(OwnedFd, Self)> {
        let source = File::open(path)?;
        if source.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let (read, pipe) = sys::pipe()?;
        // Only this end: the two ends are two open files, and the agent's reads must wait as usual.
        sys::set_nonblocking(&pipe, true)?;
        Ok((
            read,
            Self {
                pipe,
                source,
                chunk: Vec::new(),
                written: 0,
            },
        ))
    }

    /// The descriptor to wait on until it can be written to.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Writes what fits now. `false`: there is nothing more to write, or nobody to read it.
    pub(super) fn pump(&mut self) -> bool {
        loop {
            if self.written == self.chunk.len() {
                self.chunk.resize(CHUNK, 0);
                self.written = 0;
                // An unreadable rest ends the input as its end would: the agent sees what there was.
                let read = self.source.read(&mut self.chunk).unwrap_or(0);
                self.chunk.truncate(read);
                if read == 0 {
                    return false;
                }
            }
            match nix::unistd::write(&self.pipe, &self.chunk[self.written..]) {
                Ok(written) => self.written += written,
                Err(Errno::EAGAIN) => return true,
                Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
    }
}
