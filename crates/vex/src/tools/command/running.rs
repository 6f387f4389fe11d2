//! One running command: reads its output, enforces its time limit, and ends its whole process tree.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::stat::Mode;
use vik_proc::{Direct, DirectSpec, Fence, Graces, Mark};

/// The variable that marks the processes of a command.
pub(super) const MARK: &str = "VEX_COMMAND";
/// How long a tree may take to end after TERM.
pub(super) const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long KILL is repeated.
pub(super) const KILL_GRACE: Duration = Duration::from_millis(600);
/// How long processes left by a command may take to end by themselves: enough for the last stage of
/// a pipe, not for a server.
const LINGER: Duration = Duration::from_millis(100);
/// The interval between checks of a tree that is ending.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(4);
/// The interval between checks if the system does not report the end of a process.
const POLL_INTERVAL_WITHOUT_EVENTS: Duration = Duration::from_millis(20);

/// What to run and how.
pub(super) struct CommandSpec<'a> {
    pub(super) line: &'a str,
    pub(super) cwd: &'a Path,
    /// Variables hidden from the command.
    pub(super) hidden: &'a [OsString],
    pub(super) fence: Option<&'a Fence>,
    /// The stdin; empty if absent.
    pub(super) stdin: Option<Vec<u8>>,
    /// Whether it gets a terminal.
    pub(super) terminal: bool,
    /// Whether its standard error is part of its output.
    pub(super) errors: bool,
}

/// How a command ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandEnd {
    /// The exit code, 128 + n if a signal ended it.
    pub(crate) code: Option<i32>,
    /// Why it was stopped.
    pub(crate) cut: Option<StopCause>,
    /// The number of processes that could not be ended.
    pub(crate) survivors: usize,
}

/// Why a command was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopCause {
    TimedOut,
    /// The run was interrupted, or the model stopped it.
    Stopped,
}

pub(super) struct RunningCommand {
    direct: Direct,
    output: Option<OwnedFd>,
    stdin: Option<(OwnedFd, Vec<u8>)>,
}

#[derive(Clone, Copy)]
enum Phase {
    Running,
    Lingering { until: Instant },
    Ending,
}

impl RunningCommand {
    pub(super) fn start(job: CommandSpec<'_>) -> io::Result<Self> {
        let mut env = environment(job.hidden);
        let (output, fed, stdio) = if job.terminal {
            let size = Winsize {
                ws_row: 24,
                ws_col: 80,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            let pty = openpty(&size, None)?;
            close_on_exec(&pty.master)?;
            close_on_exec(&pty.slave)?;
            set(&mut env, "TERM", "xterm");
            // A reader sees the end of its input.
            nix::unistd::write(&pty.master, b"\x04")?;
            let stdio = [pty.slave.try_clone()?, pty.slave.try_clone()?, pty.slave];
            (pty.master, None, stdio)
        } else {
            // One pipe for both streams keeps their order.
            let (reader, writer) = io::pipe()?;
            let (stdin, fed) = match &job.stdin {
                Some(_) => {
                    let (read, write) = io::pipe()?;
                    (read.into(), Some(OwnedFd::from(write)))
                }
                None => (null(OFlag::O_RDONLY)?, None),
            };
            let stderr = if job.errors {
                writer.try_clone()?.into()
            } else {
                null(OFlag::O_WRONLY)?
            };
            (reader.into(), fed, [stdin, writer.into(), stderr])
        };
        nonblocking(&output)?;
        if let Some(fed) = &fed {
            nonblocking(fed)?;
        }
        let mark = Mark::new(MARK, uuid::Uuid::now_v7().to_string());
        let spec = DirectSpec {
            program: Path::new("/bin/sh"),
            args: &[OsStr::new("-c"), OsStr::new(job.line)],
            cwd: job.cwd,
            env,
            // The writers would keep the pipe open; the start closes them.
            stdio,
            fence: job.fence,
            terminal: job.terminal,
        };
        let direct = Direct::spawn(spec, mark)?;
        Ok(Self {
            direct,
            output: Some(output),
            stdin: fed.zip(job.stdin),
        })
    }

    /// Waits for the end of the command, and stops it on timeout or when `wake` is readable. Passes
    /// its output to `take`. Afterwards none of its processes is alive except for the counted
    /// survivors.
    pub(super) fn watch(
        mut self,
        deadline: Option<Instant>,
        wake: BorrowedFd<'_>,
        take: &mut dyn FnMut(&[u8]),
    ) -> CommandEnd {
        let mut ended = CommandEnd::default();
        let mut phase = Phase::Running;
        loop {
            let now = Instant::now();
            // If the exit code is unknown, the command is ended.
            let code = self.direct.try_code().unwrap_or(Some(1));
            match phase {
                Phase::Running | Phase::Lingering { .. } if self.direct.has_exited() => {
                    ended.code = code;
                    break;
                }
                Phase::Running if code.is_some() => phase = Phase::Lingering { until: now + LINGER },
                Phase::Running if deadline.is_some_and(|deadline| now >= deadline) => {
                    ended.cut = Some(StopCause::TimedOut);
                    phase = self.end();
                }
                Phase::Lingering { until } if now >= until => phase = self.end(),
                Phase::Ending => {
                    if let Some(survivors) = self.direct.step() {
                        ended.code = self.direct.try_code().ok().flatten();
                        ended.survivors = survivors.len();
                        break;
                    }
                }
                _ => {}
            }
            let wait = match phase {
                Phase::Running => {
                    let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
                    let blind = self
                        .direct
                        .ended_fd()
                        .is_none()
                        .then_some(POLL_INTERVAL_WITHOUT_EVENTS);
                    [left, blind].into_iter().flatten().min()
                }
                Phase::Lingering { .. } | Phase::Ending => Some(POLL_INTERVAL),
            };
            if self.wait(
                wait,
                wake,
                matches!(phase, Phase::Running),
                ended.cut.is_some(),
                take,
            ) {
                ended.cut = Some(StopCause::Stopped);
                phase = self.end();
            }
        }
        self.drain(take);
        ended
    }

    fn end(&mut self) -> Phase {
        self.direct.start_ending(Graces {
            int: Duration::ZERO,
            term: TERM_GRACE,
            leftover: TERM_GRACE,
            kill: KILL_GRACE,
        });
        Phase::Ending
    }

    /// Waits for an event and handles it. Returns `true` if the command is to be stopped.
    fn wait(
        &mut self,
        wait: Option<Duration>,
        wake: BorrowedFd<'_>,
        running: bool,
        stopped: bool,
        take: &mut dyn FnMut(&[u8]),
    ) -> bool {
        let watched = [
            ((!stopped).then_some(wake), PollFlags::POLLIN),
            (self.output.as_ref().map(AsFd::as_fd), PollFlags::POLLIN),
            (self.stdin.as_ref().map(|(fd, _)| fd.as_fd()), PollFlags::POLLOUT),
            (self.direct.ended_fd().filter(|_| running), PollFlags::POLLIN),
        ];
        let mut fds = Vec::with_capacity(watched.len());
        let places = watched.map(|(fd, flags)| {
            fd.map(|fd| {
                fds.push(PollFd::new(fd, flags));
                fds.len() - 1
            })
        });
        let timeout = wait.map_or(PollTimeout::NONE, |wait| {
            // Rounded up, so that a deadline has passed when it wakes up for it.
            PollTimeout::try_from(wait.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX)
        });
        if poll(&mut fds, timeout).is_err() {
            return false;
        }
        let ready = |place: Option<usize>| place.is_some_and(|place| fds[place].any().unwrap_or(true));
        let [woken, output, stdin, _] = places.map(ready);
        if output {
            self.read(16, take);
        }
        if stdin {
            self.feed();
        }
        woken
    }

    /// Reads available output, at most `times` times.
    fn read(&mut self, times: usize, take: &mut dyn FnMut(&[u8])) {
        let mut buffer = [0; 16 * 1024];
        for _ in 0..times {
            let Some(output) = &self.output else { return };
            match nix::unistd::read(output, &mut buffer) {
                Ok(length @ 1..) => take(&buffer[..length]),
                Err(nix::errno::Errno::EAGAIN) => return,
                Err(nix::errno::Errno::EINTR) => {}
                // A terminal reports its end by an error.
                Ok(0) | Err(_) => self.output = None,
            }
        }
    }

    /// Reads what is left in the pipe after the last writer ended. A pipe kept open by another
    /// process is not waited for.
    fn drain(&mut self, take: &mut dyn FnMut(&[u8])) {
        self.read(64, take);
    }

    fn feed(&mut self) {
        let Some((fd, input)) = &mut self.stdin else {
            return;
        };
        match nix::unistd::write(&*fd, input) {
            Ok(written) => drop(input.drain(..written)),
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => {}
            // A program that does not read it does not need it.
            Err(_) => input.clear(),
        }
        if input.is_empty() {
            self.stdin = None;
        }
    }
}

/// Returns the environment of commands: that of vex without the hidden variables, and without
/// programs that wait for a person.
pub(super) fn environment(hidden: &[OsString]) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, _)| !hidden.contains(name))
        .collect();
    set(&mut env, "PAGER", "cat");
    set(&mut env, "GIT_PAGER", "cat");
    set(&mut env, "GIT_EDITOR", "true");
    set(&mut env, "GIT_TERMINAL_PROMPT", "0");
    env
}

fn set(env: &mut Vec<(OsString, OsString)>, name: &str, value: &str) {
    env.retain(|(known, _)| known != name);
    env.push((name.into(), value.into()));
}

fn null(access: OFlag) -> nix::Result<OwnedFd> {
    open("/dev/null", access | OFlag::O_CLOEXEC, Mode::empty())
}

fn close_on_exec(fd: &OwnedFd) -> nix::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map(drop)
}

fn nonblocking(fd: &OwnedFd) -> nix::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}
