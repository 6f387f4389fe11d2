//! The standard input of the agent: a pipe that the shim fills as fast as the agent reads, and then
//! closes.
//!
//! A daemon appends messages for the running agent to a followed file. It is a file and not a pipe,
//! so that a daemon may die between two messages and the next one sees those that were sent. A NUL
//! byte ends the input.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::PollFlags;

use crate::sys::{self, Watch};

/// The sizes of the first read, which most prompts fit in, and of the largest.
const CHUNK: (usize, usize) = (4 * 1024, 64 * 1024);

/// The byte that ends a followed file. Neither text nor JSON contains it.
const END: u8 = 0;

/// The polling interval for a file that the system cannot watch.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The shim's end of the agent's standard input. Dropping it closes the input.
pub(super) struct StdinFeed {
    pipe: OwnedFd,
    source: File,
    chunk: Vec<u8>,
    /// The size of the next read.
    chunk_size: usize,
    written: usize,
    /// Whether the last read found no more data.
    idle: bool,
    more: More,
}

/// The meaning of the end of the source.
enum More {
    /// The end of the input.
    None,
    /// More data may be appended. The system reports that, if a watch is possible.
    Added(Option<Watch>),
    /// The end was read, and data before it must still be written.
    Ended,
}

impl StdinFeed {
    /// Opens the source. Also returns the agent's end of the pipe.
    pub(super) fn open(path: &Path) -> io::Result<(OwnedFd, Self)> {
        Self::with(path, More::None)
    }

    /// Opens a source like [`open`](Self::open), but one to which data is appended.
    pub(super) fn follow(path: &Path) -> io::Result<(OwnedFd, Self)> {
        // The watch starts before the first read, so that no data is missed. It may fail, as the
        // number of watches of a user is limited.
        Self::with(path, More::Added(Watch::new(path).ok()))
    }

    fn with(path: &Path, more: More) -> io::Result<(OwnedFd, Self)> {
        let source = File::open(path)?;
        if source.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let (read, pipe) = sys::pipe()?;
        // Only this end is non-blocking: the two ends are two open files, and reads of the agent
        // must wait as usual.
        sys::set_nonblocking(&pipe, true)?;
        let feed = Self {
            pipe,
            source,
            chunk: Vec::new(),
            chunk_size: CHUNK.0,
            written: 0,
            idle: false,
            more,
        };
        Ok((read, feed))
    }

    /// Returns the descriptor and the event to wait for: space in the pipe, or more data in the
    /// file. After `None` the caller reads again at [`poll_at`](Self::poll_at).
    pub(super) fn poll(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match &self.more {
            More::Added(watch) if self.idle => watch.as_ref().map(|watch| (watch.as_fd(), PollFlags::POLLIN)),
            _ => Some((self.pipe.as_fd(), PollFlags::POLLOUT)),
        }
    }

    /// Returns when to read the source again, if it has no watch.
    pub(super) fn poll_at(&self) -> Option<Instant> {
        self.poll().is_none().then(|| Instant::now() + POLL_INTERVAL)
    }

    /// Writes as much as fits now. Returns `false` if there is no more data to write, or no reader.
    pub(super) fn pump(&mut self) -> bool {
        if let More::Added(Some(watch)) = &self.more {
            watch.clear();
        }
        loop {
            if self.written == self.chunk.len() && !self.refill() {
                return matches!(self.more, More::Added(_));
            }
            match nix::unistd::write(&self.pipe, &self.chunk[self.written..]) {
                Ok(written) => self.written += written,
                Err(Errno::EAGAIN) => return true,
                Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Reads more data. Returns `false` if there is none now.
    fn refill(&mut self) -> bool {
        self.chunk.clear();
        self.written = 0;
        if matches!(self.more, More::Ended) {
            return false;
        }
        self.chunk.resize(self.chunk_size, 0);
        // A read error ends the input like its end: the agent gets the data before it.
        let read = self.source.read(&mut self.chunk).unwrap_or_else(|_| {
            self.more = More::None;
            0
        });
        self.chunk.truncate(read);
        if read == self.chunk_size {
            self.chunk_size = CHUNK.1;
        }
        if let More::Added(_) = self.more
            && let Some(end) = self.chunk.iter().position(|&byte| byte == END)
        {
            self.chunk.truncate(end);
            self.more = More::Ended;
        }
        self.idle = self.chunk.is_empty();
        !self.idle
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The agent reads what was appended before the end, with and without a watch, and nothing
        /// after the end.
        #[test]
        fn added_input_is_fed_until_the_end(
            pieces in prop::collection::vec(prop::collection::vec(1..=255_u8, 0..50), 0..8),
            watched in any::<bool>(),
            tail in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("stdin");
            let mut file = File::create(&path).unwrap();
            let watch = watched.then(|| Watch::new(&path).unwrap());
            let (agent, mut feed) = StdinFeed::with(&path, More::Added(watch)).unwrap();
            for piece in &pieces {
                prop_assert!(feed.pump());
                prop_assert_eq!(feed.poll().is_some(), watched);
                prop_assert_eq!(feed.poll_at().is_some(), !watched);
                file.write_all(piece).unwrap();
            }
            file.write_all(&[END]).unwrap();
            file.write_all(&tail).unwrap();
            prop_assert!(!feed.pump());
            drop(feed);
            let mut read = Vec::new();
            File::from(agent).read_to_end(&mut read).unwrap();
            prop_assert_eq!(read, pieces.concat());
        }
    }
}
