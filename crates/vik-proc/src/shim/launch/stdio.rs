//! The standard streams of an agent.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc;

use super::failed;
use crate::shim::feed::StdinFeed;
use crate::spec::SpawnFailureKind as Kind;
use crate::spec::{Output, ShimSpec, SpawnFailure, Stdin};
use crate::sys;

/// The standard streams of the agent.
pub(super) struct Stdio {
    stdin: OwnedFd,
    stdout: (Option<OwnedFd>, RawFd),
    stderr: (Option<OwnedFd>, RawFd),
}

impl Stdio {
    pub(super) fn numbers(&self) -> [RawFd; 3] {
        [self.stdin.as_raw_fd(), self.stdout.1, self.stderr.1]
    }

    /// Returns the streams with numbers from 3 on.
    #[cfg(target_os = "linux")]
    pub(super) fn lifted(self) -> io::Result<[OwnedFd; 3]> {
        Ok([
            self.stdin,
            sys::duplicate_above_stdio(self.stdout.1)?,
            sys::duplicate_above_stdio(self.stderr.1)?,
        ])
    }
}

pub(super) fn open_stdio(spec: &ShimSpec) -> Result<(Stdio, Option<StdinFeed>), SpawnFailure> {
    if let Stdin::Terminal(path) = &spec.stdin {
        return Ok((open_terminal(path)?, None));
    }
    let (stdin, feed) = open_stdin(&spec.stdin)?;
    let stdout = open_output(&spec.stdout, 1, 1)?;
    let stderr = open_output(&spec.stderr, 2, stdout.1)?;
    Ok((
        Stdio {
            stdin,
            stdout,
            stderr,
        },
        feed,
    ))
}

fn open_terminal(path: &Path) -> Result<Stdio, SpawnFailure> {
    let mut options = fs::OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NOCTTY);
    let terminal = options.open(path).map_err(|error| {
        let path = path.display();
        failed(
            Kind::BadStdin,
            format!("cannot open the terminal {path}: {error}"),
        )
    })?;
    let number = terminal.as_raw_fd();
    Ok(Stdio {
        stdin: terminal.into(),
        stdout: (None, number),
        stderr: (None, number),
    })
}

fn open_stdin(stdin: &Stdin) -> Result<(OwnedFd, Option<StdinFeed>), SpawnFailure> {
    match stdin {
        // A terminal is opened for all streams at once.
        Stdin::Null | Stdin::Terminal(_) => match File::open("/dev/null") {
            Ok(null) => Ok((null.into(), None)),
            Err(error) => Err(failed(Kind::BadStdin, format!("cannot open /dev/null: {error}"))),
        },
        Stdin::Descriptor(number) => match sys::inherited(*number) {
            Some(descriptor) => Ok((descriptor, None)),
            None => Err(failed(Kind::BadStdin, "its input is not open".to_owned())),
        },
        Stdin::File(path) => fed(path, StdinFeed::open(path)),
        Stdin::Follow(path) => fed(path, StdinFeed::follow(path)),
    }
}

fn fed(
    path: &Path,
    feed: io::Result<(OwnedFd, StdinFeed)>,
) -> Result<(OwnedFd, Option<StdinFeed>), SpawnFailure> {
    feed.map(|(read, feed)| (read, Some(feed)))
        .map_err(|error| failed(Kind::BadStdin, format!("cannot read {}: {error}", path.display())))
}

/// Returns the file, if one had to be opened, and the descriptor to use.
fn open_output(
    output: &Output,
    inherited: RawFd,
    stdout: RawFd,
) -> Result<(Option<OwnedFd>, RawFd), SpawnFailure> {
    let mut options = fs::OpenOptions::new();
    let path = match output {
        Output::Inherit => return Ok((None, inherited)),
        Output::Stdout => return Ok((None, stdout)),
        Output::Null => {
            options.write(true);
            Path::new("/dev/null")
        }
        Output::Append(path) => {
            options
                .append(true)
                .create(true)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NOCTTY);
            path
        }
    };
    match options.open(path) {
        Ok(file) => {
            let fd = file.as_raw_fd();
            Ok((Some(file.into()), fd))
        }
        Err(error) => Err(failed(
            Kind::BadOutput,
            format!("cannot open {}: {error}", path.display()),
        )),
    }
}
