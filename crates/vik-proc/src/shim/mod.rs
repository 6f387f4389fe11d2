//! The parent of one agent: a small process of its own, with one thread and one loop, that owns the agent's process
//! tree, feeds its standard input, and ends only when nothing of the tree is left.
//!
//! Descriptors at its start: 0 the lifeline (first line a [`ShimSpec`], then one command a line; its end means that the
//! daemon is gone), 1 and 2 what the agent may inherit, 3 the status pipe to the daemon, 4 perhaps a lock to hold.

mod feed;
mod ladder;
mod launch;
mod lifeline;
mod record;

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use self::feed::Feed;
use self::ladder::{Phase, Step};
use self::lifeline::{Command, Lifeline};
use crate::identity::ProcessId;
use crate::spec::{Cause, ShimSpec, SpawnFailure, Status};
use crate::{census, sys};

/// Runs the shim to its end: what the hidden verb `vik __shim` does. Call it first thing in `main`, before threads,
/// logging and command line parsing: it takes over descriptors 0, 3 and 4 and all signals.
pub fn main() -> ExitCode {
    crate::shield();
    let _ = nix::unistd::setsid();
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(c"vik-shim");
    let (Some(lifeline), Some(status)) = (sys::inherited(0), sys::inherited(3)) else {
        return refuse("it is started by the daemon, with its pipes open");
    };
    // Nothing but 0, 1 and 2 may reach the agent: neither the status pipe nor the lock.
    sys::cloexec_from_3();
    let signals = match sys::signals_as_bytes(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT]) {
        Ok(signals) => signals,
        Err(error) => return refuse(&format!("cannot handle signals: {error}")),
    };
    let subreaper = sys::become_subreaper();
    let mut lifeline = Lifeline::new(lifeline);
    let spec = match lifeline.read_spec() {
        Ok(spec) => spec,
        // The daemon went away, or gave up, before it said anything: there is nothing to do and nobody to tell.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return ExitCode::SUCCESS,
        Err(error) => return refuse(&format!("cannot read what to start: {error}")),
    };
    let mut shim = Shim::new(spec, status, lifeline, signals, subreaper);
    shim.start();
    shim.run();
    ExitCode::SUCCESS
}

/// Only a daemon of another version or a person at a shell gets here.
fn refuse(why: &str) -> ExitCode {
    let _ = nix::unistd::write(std::io::stderr(), format!("vik shim: {why}\n").as_bytes());
    ExitCode::from(2)
}

/// Children of every kind: also those that do not tell of their end by SIGCHLD.
#[cfg(target_os = "linux")]
const ANY_CHILD: WaitPidFlag = WaitPidFlag::WNOHANG.union(WaitPidFlag::__WALL);
#[cfg(not(target_os = "linux"))]
const ANY_CHILD: WaitPidFlag = WaitPidFlag::WNOHANG;

struct Shim {
    spec: ShimSpec,
    status: OwnedFd,
    /// `None` once the daemon is gone.
    lifeline: Option<Lifeline>,
    signals: OwnedFd,
    subreaper: bool,
    agent: Option<ProcessId>,
    /// How the agent ended, once it is reaped.
    ended: Option<(Option<i32>, Option<i32>)>,
    /// Open until it is known whether `exec` succeeded.
    report: Option<OwnedFd>,
    feed: Option<Feed>,
    spawn_error: Option<SpawnFailure>,
    cause: Option<Cause>,
    phase: Phase,
    started_at: SystemTime,
    step: Step,
}

impl Shim {
    fn new(spec: ShimSpec, status: OwnedFd, lifeline: Lifeline, signals: OwnedFd, subreaper: bool) -> Self {
        Self {
            spec,
            status,
            lifeline: Some(lifeline),
            signals,
            subreaper,
            agent: None,
            ended: None,
            report: None,
            feed: None,
            spawn_error: None,
            cause: None,
            phase: Phase::Running,
            started_at: SystemTime::now(),
            step: Step::default(),
        }
    }

    fn start(&mut self) {
        match launch::launch(&self.spec) {
            Ok(launched) => {
                self.agent = ProcessId::of(launched.pid).or(Some(ProcessId {
                    pid: launched.pid,
                    start_time: 0,
                }));
                self.report = Some(launched.report);
                self.feed = launched.feed;
            }
            Err(failure) => {
                self.spawn_error = Some(failure);
                self.ended = Some((None, None));
            }
        }
        // The agent has its own copies; ours would keep the daemon's pipe open.
        release_output();
    }

    fn run(&mut self) {
        // A command may have come together with the spec.
        self.obey();
        loop {
            let childless = self.reap();
            let now = Instant::now();
            if let Some(proof) = self.advance(now, childless) {
                self.finish(proof);
                return;
            }
            let timeout = self
                .wake_at()
                .map(|at| at.saturating_duration_since(Instant::now()));
            self.wait(timeout);
        }
    }

    /// Takes what has ended. `true`: there is no child left, and none can come.
    fn reap(&mut self) -> bool {
        loop {
            let status = match waitpid(Pid::from_raw(-1), Some(ANY_CHILD)) {
                Ok(WaitStatus::StillAlive) => return false,
                Ok(status) => status,
                Err(Errno::EINTR) => continue,
                Err(_) => return true,
            };
            let agent = self.agent.map(|agent| agent.pid);
            if status.pid().map(Pid::as_raw) == agent {
                match status {
                    WaitStatus::Exited(_, code) => self.ended = Some((Some(code), None)),
                    WaitStatus::Signaled(_, signal, _) => self.ended = Some((None, Some(signal as i32))),
                    _ => continue,
                }
                // What was not read by now never will be.
                self.feed = None;
                self.read_report();
            }
        }
    }

    /// Learns whether the agent's `exec` succeeded, once the pipe says so.
    fn read_report(&mut self) {
        let Some(report) = self.report.take() else { return };
        let mut bytes = [0; sys::REPORT_LEN];
        let length = nix::unistd::read(&report, &mut bytes).unwrap_or(0);
        match (sys::parse_report(&bytes[..length]), self.agent) {
            (Some((step, errno)), _) => {
                self.spawn_error = Some(launch::failure(&self.spec, step, errno));
                self.feed = None;
            }
            (None, Some(agent)) => {
                self.started_at = SystemTime::now();
                self.note_census(&[agent]);
                self.tell(&Status::Started(agent));
            }
            (None, None) => {}
        }
    }

    fn note_census(&self, members: &[ProcessId]) {
        if let Some(path) = &self.spec.census {
            // A census that cannot be written weakens a later proof, never this attempt.
            let _ = census::write(path, members);
        }
    }

    fn tell(&self, status: &Status) {
        if let Ok(mut line) = serde_json::to_vec(status) {
            line.push(b'\n');
            let mut rest = &line[..];
            while let Ok(written @ 1..) = nix::unistd::write(&self.status, rest) {
                rest = &rest[written..];
            }
        }
    }

    /// Waits until something happens and takes it in.
    fn wait(&mut self, timeout: Option<Duration>) {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let mut watch = |fd: Option<_>, flags| {
            fd.map(|fd| {
                fds.push(PollFd::new(fd, flags));
                fds.len() - 1
            })
        };
        let lifeline = watch(self.lifeline.as_ref().map(Lifeline::fd), PollFlags::POLLIN);
        let report = watch(self.report.as_ref().map(AsFd::as_fd), PollFlags::POLLIN);
        let feed = watch(self.feed.as_ref().map(Feed::fd), PollFlags::POLLOUT);
        let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
            // Rounded up, so that a deadline has passed when we wake up for it.
            PollTimeout::try_from(timeout.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX)
        });
        if poll(&mut fds, timeout).is_err() {
            return;
        }
        let ready = |index: Option<usize>| index.is_some_and(|index| fds[index].any().unwrap_or(true));
        let (signals, lifeline, report, feed) = (ready(Some(0)), ready(lifeline), ready(report), ready(feed));
        if report {
            self.read_report();
        }
        if feed && !self.feed.as_mut().is_some_and(Feed::pump) {
            self.feed = None;
        }
        if signals {
            self.take_signals();
        }
        if lifeline {
            self.take_commands();
        }
    }

    fn take_signals(&mut self) {
        let mut bytes = [0; 256];
        while let Ok(length @ 1..) = nix::unistd::read(&self.signals, &mut bytes) {
            if bytes[..length]
                .iter()
                .any(|&byte| i32::from(byte) != libc::SIGCHLD)
            {
                self.stop(Cause::Stopped);
            }
        }
    }

    fn take_commands(&mut self) {
        let Some(lifeline) = &mut self.lifeline else {
            return;
        };
        let open = lifeline.receive();
        self.obey();
        if !open {
            self.lifeline = None;
            self.stop(Cause::LifelineLost);
        }
    }

    fn obey(&mut self) {
        for command in self.lifeline.as_mut().map(Lifeline::commands).unwrap_or_default() {
            match command {
                Command::Stop => self.stop(Cause::Stopped),
                Command::Kill => self.kill(),
            }
        }
    }
}

/// Lets go of the inherited standard output.
fn release_output() {
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdout(null);
    }
}
