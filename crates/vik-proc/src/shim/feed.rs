//! Standard input of the agent: a pipe that the shim fills as fast as the agent reads, and then closes.
//!
//! A file that is followed is one to which a daemon adds what the agent is told while it lives. It is a file and no pipe, so
//! that a daemon may die between two words, and the next one sees what was told. A NUL byte in it is the end.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::PollFlags;

use crate::sys::{self, Watch};

const CHUNK: usize = 64 * 1024;

/// Ends the input where it stands in a file that is followed. No text has it, and no JSON.
const END: u8 = 0;

/// How often a file is looked at that the system does not watch for us.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The shim's end of the agent's standard input. Dropping it closes the input.
pub(super) struct Feed {
    pipe: OwnedFd,
    source: File,
    chunk: Vec<u8>,
    written: usize,
    /// There was nothing more at the last look.
    idle: bool,
    more: More,
}

/// What the end of the source means.
enum More {
    /// The end of the input.
    None,
    /// Something may be added yet: the system tells when, where it can.
    Added(Option<Watch>),
    /// The end has been read, and what is before it is yet to be written.
    Ended,
}

impl Feed {
    /// Opens the source. Also gives the agent's end of the pipe.
    pub(super) fn open(path: &Path) -> io::Result<(OwnedFd, Self)> {
        Self::with(path, More::None)
    }

    /// [`open`](Self::open), for a source that is added to.
    pub(super) fn follow(path: &Path) -> io::Result<(OwnedFd, Self)> {
        // Watched before it is read: nothing is added unseen. A user may have only so many watches.
        Self::with(path, More::Added(Watch::new(path).ok()))
    }

    fn with(path: &Path, more: More) -> io::Result<(OwnedFd, Self)> {
        let source = File::open(path)?;
        if source.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let (read, pipe) = sys::pipe()?;
        // Only this end: the two ends are two open files, and the agent's reads must wait as usual.
        sys::set_nonblocking(&pipe, true)?;
        let feed = Self {
            pipe,
            source,
            chunk: Vec::new(),
            written: 0,
            idle: false,
            more,
        };
        Ok((read, feed))
    }

    /// What to wait on: until the pipe can be written to, or until something is added. `None`: look again at
    /// [`look_at`](Self::look_at).
    pub(super) fn poll(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match &self.more {
            More::Added(watch) if self.idle => watch.as_ref().map(|watch| (watch.as_fd(), PollFlags::POLLIN)),
            _ => Some((self.pipe.as_fd(), PollFlags::POLLOUT)),
        }
    }

    /// When to look at the source again, where nothing tells.
    pub(super) fn poll_at(&self) -> Option<Instant> {
        self.poll().is_none().then(|| Instant::now() + POLL_INTERVAL)
    }

    /// Writes what fits now. `false`: there is nothing more to write, or nobody to read it.
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

    /// Reads on. `false`: there is nothing now.
    fn refill(&mut self) -> bool {
        self.chunk.clear();
        self.written = 0;
        if matches!(self.more, More::Ended) {
            return false;
        }
        self.chunk.resize(CHUNK, 0);
        // An unreadable rest ends the input as its end would: the agent sees what there was.
        let read = self.source.read(&mut self.chunk).unwrap_or_else(|_| {
            self.more = More::None;
            0
        });
        self.chunk.truncate(read);
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
        /// The agent reads what was added until the end, whether the system tells of it or not, and nothing behind the end.
        #[test]
        fn what_is_added_is_fed_until_the_end(
            pieces in prop::collection::vec(prop::collection::vec(1..=255_u8, 0..50), 0..8),
            watched in any::<bool>(),
            rest in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("stdin");
            let mut file = File::create(&path).unwrap();
            let watch = watched.then(|| Watch::new(&path).unwrap());
            let (agent, mut feed) = Feed::with(&path, More::Added(watch)).unwrap();
            for piece in &pieces {
                prop_assert!(feed.pump());
                prop_assert_eq!(feed.poll().is_some(), watched);
                prop_assert_eq!(feed.poll_at().is_some(), !watched);
                file.write_all(piece).unwrap();
            }
            file.write_all(&[END]).unwrap();
            file.write_all(&rest).unwrap();
            prop_assert!(!feed.pump());
            drop(feed);
            let mut read = Vec::new();
            File::from(agent).read_to_end(&mut read).unwrap();
            prop_assert_eq!(read, pieces.concat());
        }
    }
}
