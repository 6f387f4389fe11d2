//! Starts the process of a shim.

use std::ffi::{CString, OsStr};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal};
use tokio::net::unix::pipe;

#[cfg(target_os = "linux")]
use super::template::Forked;
use super::{SpawnError, StdoutMode, Supervisor, shims};
use crate::identity::ProcessId;
#[cfg(target_os = "linux")]
use crate::sandbox::HiddenList;
#[cfg(target_os = "linux")]
use crate::shim::template;
#[cfg(target_os = "linux")]
use crate::spec::SHIM_VERB;
use crate::spec::ShimSpec;
use crate::sys;

/// A flag that nix does not define: start in a new session.
#[cfg(target_os = "linux")]
const SETSID: i32 = nix::libc::POSIX_SPAWN_SETSID as i32;
/// A flag that libc does not define either (`spawn.h` of macOS 10.15 and later).
#[cfg(target_os = "macos")]
const SETSID: i32 = 0x0400;

/// A shim that was started and has not received its spec yet.
pub(super) struct Started {
    pub(super) shim: ProcessId,
    pub(super) lifeline: pipe::Sender,
    pub(super) status: pipe::Receiver,
    pub(super) stdout: Option<pipe::Receiver>,
}

/// The pipes of a shim that is not started yet.
pub(super) struct Prepared {
    lifeline: pipe::Sender,
    status: pipe::Receiver,
    stdout: Option<pipe::Receiver>,
    given: Given,
}

/// What a shim is started with.
struct Given {
    /// The descriptors, each with its number in the shim.
    descriptors: Vec<(OwnedFd, RawFd)>,
    /// The hidden places of its sandbox.
    #[cfg(target_os = "linux")]
    hidden: Option<HiddenList>,
}

impl Prepared {
    pub(super) fn new(
        spec: &ShimSpec,
        lock: Option<BorrowedFd<'_>>,
        stdout: StdoutMode,
    ) -> Result<Self, SpawnError> {
        Self::try_new(spec, lock, stdout).map_err(SpawnError::Pipe)
    }

    #[cfg_attr(
        not(target_os = "linux"),
        expect(unused_variables, reason = "there is no template")
    )]
    fn try_new(spec: &ShimSpec, lock: Option<BorrowedFd<'_>>, stdout: StdoutMode) -> io::Result<Self> {
        let (lifeline_read, lifeline) = sys::pipe()?;
        let (status, status_write) = sys::pipe()?;
        let (stdout, stdout_write) = match stdout {
            StdoutMode::Pipe => sys::pipe().map(|(read, write)| (Some(read), write))?,
            StdoutMode::Null => (None, OpenOptions::new().write(true).open("/dev/null")?.into()),
        };
        let mut descriptors = vec![
            (sys::duplicate_above_stdio(lifeline_read.as_raw_fd())?, 0),
            (sys::duplicate_above_stdio(stdout_write.as_raw_fd())?, 1),
            (sys::duplicate_above_stdio(status_write.as_raw_fd())?, 3),
        ];
        if let Some(lock) = lock {
            descriptors.push((sys::duplicate_above_stdio(lock.as_raw_fd())?, 4));
        }
        Ok(Self {
            lifeline: pipe::Sender::from_owned_fd(lifeline)?,
            status: pipe::Receiver::from_owned_fd(status)?,
            stdout: stdout.map(pipe::Receiver::from_owned_fd).transpose()?,
            given: Given {
                descriptors,
                #[cfg(target_os = "linux")]
                hidden: spec.sandbox.as_ref().and_then(HiddenList::of),
            },
        })
    }
}

impl Supervisor {
    pub(super) async fn start_shim(&self, prepared: Prepared) -> Result<Started, SpawnError> {
        let Prepared {
            lifeline,
            status,
            stdout,
            given,
        } = prepared;
        let this = self.clone();
        // The call blocks until the new process has executed its program, so it must not run on the
        // runtime's own threads.
        let spawned = tokio::task::spawn_blocking(move || shims::start(|| this.fork_or_spawn(&given))).await;
        let pid = match spawned {
            Ok(result) => result,
            Err(_) => Err(io::Error::other("the runtime is shutting down")),
        }
        .map_err(|source| self.start_error(source))?;
        // The process was not waited for yet, so its pid cannot have been reused.
        let shim = ProcessId::of(pid).unwrap_or(ProcessId { pid, start_time: 0 });
        Ok(Started {
            shim,
            lifeline,
            status,
            stdout,
        })
    }

    pub(super) fn start_error(&self, source: io::Error) -> SpawnError {
        SpawnError::Start {
            program: OsStr::from_bytes(self.program.as_bytes()).into(),
            source,
        }
    }

    /// Starts the shim as a copy of the template, or with the program where that is not possible.
    fn fork_or_spawn(&self, given: &Given) -> io::Result<i32> {
        let descriptors = &given.descriptors;
        #[cfg(target_os = "linux")]
        {
            let start = |socket| self.spawn_template(socket);
            if let Forked::Shim(pid) = self.template.fork(descriptors, given.hidden.as_ref(), start)? {
                return Ok(pid);
            }
        }
        // The shim has a session of its own from the start: Ctrl-C at the daemon's terminal must
        // not end it.
        let session = PosixSpawnFlags::from_bits_retain(SETSID);
        self.posix_spawn(descriptors, &self.args, session)
    }

    /// Starts the template in the session of this process: a child in another session counts as an
    /// orphan of a lost shim. Its shims leave the session.
    #[cfg(target_os = "linux")]
    fn spawn_template(&self, socket: OwnedFd) -> io::Result<i32> {
        let mut args = self.args.to_vec();
        let verb = args.iter().position(|arg| arg.as_bytes() == SHIM_VERB.as_bytes());
        let verb = verb.ok_or(io::ErrorKind::Unsupported)?;
        args.insert(verb + 1, CString::new(template::VERB)?);
        self.posix_spawn(&[(socket, 0)], &args, PosixSpawnFlags::empty())
    }

    /// Starts the program with `posix_spawn`, which shares the parent's memory until `exec`: its cost
    /// does not grow with the daemon.
    fn posix_spawn(
        &self,
        given: &[(OwnedFd, RawFd)],
        args: &[CString],
        session: PosixSpawnFlags,
    ) -> io::Result<i32> {
        let mut actions = PosixSpawnFileActions::init()?;
        for (fd, target) in given {
            actions.add_dup2(fd.as_raw_fd(), *target)?;
        }
        let mut attributes = PosixSpawnAttr::init()?;
        // A shim blocks these signals until it handles them; the template never handles them.
        let mut held = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            held.add(signal);
        }
        attributes.set_sigmask(&held)?;
        attributes.set_sigdefault(&SigSet::all())?;
        attributes.set_flags(
            PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | session,
        )?;
        let pid = posix_spawn(
            self.program.as_c_str(),
            &actions,
            &attributes,
            args,
            &self.environment,
        )?;
        Ok(pid.as_raw())
    }
}
