//! Lines from the daemon, either through the pipe that the shim was started with (the spec, then
//! commands, then end of file) or through the control FIFO.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

use crate::boot_time::BootTime;
use crate::spec::ShimSpec;

/// The size limit of a spec: a larger environment and arguments could not be executed anyway.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// A command of the daemon. Unknown lines are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Stop,
    Kill,
    /// Replaces the end of the lease.
    Renew(BootTime),
}

impl Command {
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        match line {
            b"stop" => Some(Self::Stop),
            b"kill" => Some(Self::Kill),
            _ => {
                let end = std::str::from_utf8(line.strip_prefix(b"renew ")?).ok()?;
                Some(Self::Renew(BootTime::from_nanos(end.parse().ok()?)))
            }
        }
    }
}

pub(super) struct Lifeline {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl Lifeline {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            buffer: Vec::new(),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Waits for the first line.
    pub(super) fn read_spec(&mut self) -> io::Result<ShimSpec> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|&byte| byte == b'\n') {
                let tail = self.buffer.split_off(searched + end + 1);
                let line = std::mem::replace(&mut self.buffer, tail);
                return Ok(serde_json::from_slice(&line)?);
            }
            searched = self.buffer.len();
            if searched > MAX_LINE {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            if !self.read()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads once, which does not block after `poll` has reported data. Returns `false` if no more
    /// data can come.
    pub(super) fn receive(&mut self) -> bool {
        self.read().unwrap_or(false)
    }

    /// Returns the complete lines.
    pub(super) fn lines(&mut self) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        while let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
            lines.push(self.buffer[..end].trim_ascii().to_vec());
            self.buffer.drain(..=end);
        }
        // Commands are short, so a long line without an end is not a command.
        if self.buffer.len() > 64 * 1024 {
            self.buffer = Vec::new();
        }
        lines
    }

    fn read(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        loop {
            match nix::unistd::read(&self.fd, &mut chunk) {
                Ok(0) => return Ok(false),
                Ok(length) => {
                    self.buffer.extend_from_slice(&chunk[..length]);
                    return Ok(true);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
