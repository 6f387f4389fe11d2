//! A terminal for one process tree, whose other side is the terminal of the person.
//!
//! The tree gets a pseudo-terminal of its own: in the person's terminal it could put text into the
//! input of the shell that runs after it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::ttyname;

/// The interval at which the size of the person's terminal is compared, in milliseconds.
const SIZE_INTERVAL: u16 = 250;

/// A pseudo-terminal, and the person's terminal in raw mode. Dropping it restores that.
#[derive(Debug)]
pub struct Terminal {
    main: OwnedFd,
    /// Held until the process has it open, so that reading does not fail before.
    inner: Option<OwnedFd>,
    path: PathBuf,
    before: Termios,
    size: (u16, u16),
}

impl Terminal {
    /// Opens a pseudo-terminal of the size of the terminal at standard input, which gets into raw
    /// mode.
    ///
    /// # Errors
    /// When standard input is no terminal, or there is no pseudo-terminal.
    pub fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin)?;
        let size = own_size()?;
        let OpenptyResult { master, slave } = openpty(&size, &before)?;
        let path = ttyname(&slave)?;
        for descriptor in [&master, &slave] {
            nix::fcntl::fcntl(
                descriptor,
                nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC),
            )?;
        }
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&stdin, SetArg::TCSADRAIN, &raw)?;
        Ok(Self {
            main: master,
            inner: Some(slave),
            path,
            before,
            size: (size.ws_row, size.ws_col),
        })
    }

    /// Returns the path of the pseudo-terminal.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies the input of the person to the process and its output to standard output, until no
    /// process has the pseudo-terminal open. Call it once the process has been started.
    ///
    /// # Errors
    /// When one of the terminals cannot be read or written.
    pub fn relay(&mut self) -> io::Result<()> {
        self.inner = None;
        let main = File::from(self.main.try_clone()?);
        let stdin = io::stdin();
        let mut stdout = io::stdout().lock();
        let mut buffer = [0; 16 * 1024];
        let mut has_input = true;
        loop {
            self.adopt_size();
            let mut sources = vec![PollFd::new(main.as_fd(), PollFlags::POLLIN)];
            if has_input {
                sources.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
            }
            match poll(&mut sources, PollTimeout::from(SIZE_INTERVAL)) {
                Err(Errno::EINTR) => continue,
                result => result?,
            };
            let is_ready =
                |source: Option<&PollFd<'_>>| source.is_some_and(|source| source.any() == Some(true));
            let (has_output, typed) = (is_ready(sources.first()), is_ready(sources.get(1)));
            if has_output {
                match (&main).read(&mut buffer) {
                    // On Linux the last close of the other side is this error.
                    Ok(0) => return Ok(()),
                    Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                    Ok(count) => stdout.write_all(&buffer[..count]).and_then(|()| stdout.flush())?,
                }
            }
            if typed {
                // Not through the buffer of the standard library, which may keep input.
                match nix::unistd::read(&stdin, &mut buffer) {
                    Ok(0) => has_input = false,
                    Err(Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                    Ok(count) => (&main).write_all(&buffer[..count])?,
                }
            }
        }
    }

    /// Gives the pseudo-terminal the size of the person's terminal, if that has changed.
    #[allow(unsafe_code)]
    fn adopt_size(&mut self) {
        let Ok(size) = own_size() else { return };
        if (size.ws_row, size.ws_col) != self.size {
            self.size = (size.ws_row, size.ws_col);
            // SAFETY: the descriptor is open, and the pointer is to a valid structure.
            unsafe { libc::ioctl(self.main.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &self.before);
    }
}

/// Returns the size of the terminal at standard input.
#[allow(unsafe_code)]
fn own_size() -> io::Result<Winsize> {
    let mut size = Winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the descriptor is open, and the pointer is to a valid structure.
    Errno::result(unsafe { libc::ioctl(libc::STDIN_FILENO, libc::TIOCGWINSZ, &raw mut size) })?;
    Ok(size)
}
