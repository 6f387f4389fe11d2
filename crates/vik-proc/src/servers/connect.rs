//! The side of the agent: copies between its standard streams and a server.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;

use super::{ACCEPTED, Direction, REQUESTS, Request};
use crate::identity::ProcessId;
use crate::sys;

/// Connects standard input and output to a server, until one of both ends: the hidden verb `vik
/// __connect FOLDER NAME`. It needs no secret of the server.
pub fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(2);
    let (Some(folder), Some(server), None) = (args.next(), args.next(), args.next()) else {
        return fail("only an agent can connect to a server");
    };
    let Some(server) = server.to_str() else {
        return fail("the name of the server is not text");
    };
    match run(Path::new(&folder), server) {
        Ok(0) => fail(&format!("the server {server} has ended without an answer")),
        Ok(_) => ExitCode::SUCCESS,
        Err((step, error)) => fail(&format!("cannot connect to the server {server}: {step}: {error}")),
    }
}

fn fail(why: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "vik: {why}");
    ExitCode::FAILURE
}

/// Returns how many bytes the server has sent.
///
/// # Errors
/// With the step that has failed.
fn run(folder: &Path, server: &str) -> Result<u64, (&'static str, io::Error)> {
    let failed = |step| move |error| (step, error);
    let me = ProcessId::current();
    let request = Request::new(server, format!("{}-{}", me.pid, me.start_time));
    // Opened for both directions, as there is no reader yet.
    let mut to_server =
        create(folder, &request, Direction::Input, true).map_err(failed("cannot create a pipe"))?;
    let mut from_server =
        create(folder, &request, Direction::Output, false).map_err(failed("cannot create a pipe"))?;
    send(folder, &request).map_err(failed("the attempt does not answer"))?;
    if !is_accepted(&mut from_server).map_err(failed("cannot read the answer"))? {
        return Err(("it was refused", io::Error::other("its log has the reason")));
    }
    let copy = move || {
        let _ = copy_all(&mut io::stdin().lock(), &mut to_server);
    };
    std::thread::Builder::new()
        .spawn(copy)
        .map_err(failed("cannot start a thread"))?;
    copy_all(&mut from_server, &mut io::stdout().lock()).map_err(failed("cannot copy"))
}

/// Waits until the shim has opened the pipes, and returns whether it starts the server. Before that,
/// the input would be lost if this process closed it.
fn is_accepted(from_server: &mut File) -> io::Result<bool> {
    // Until the shim has opened it, the pipe would look like one that has ended.
    let mut fds = [PollFd::new(from_server.as_fd(), PollFlags::POLLIN)];
    while poll(&mut fds, PollTimeout::NONE) == Err(Errno::EINTR) {}
    let mut answer = [0; ACCEPTED.len()];
    match from_server.read_exact(&mut answer) {
        Ok(()) => Ok(answer == ACCEPTED),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Creates a pipe of the connection and opens it.
fn create(folder: &Path, request: &Request, direction: Direction, write: bool) -> io::Result<File> {
    let path = folder.join(request.pipe(direction));
    nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
    let mut options = OpenOptions::new();
    options.read(true).write(write);
    let pipe: OwnedFd = options
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)?
        .into();
    sys::set_nonblocking(&pipe, false)?;
    Ok(pipe.into())
}

fn send(folder: &Path, request: &Request) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // This fails if no shim reads.
    let requests = options
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(folder.join(REQUESTS));
    // A line is short enough to be written as a whole.
    requests?.write_all(request.line().as_bytes())
}

/// Copies all bytes, each piece at once.
fn copy_all(from: &mut impl Read, to: &mut impl Write) -> io::Result<u64> {
    let mut bytes = vec![0; 64 * 1024];
    let mut sum = 0;
    loop {
        match from.read(&mut bytes) {
            Ok(0) => return Ok(sum),
            Ok(length) => {
                to.write_all(&bytes[..length])?;
                to.flush()?;
                sum += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
