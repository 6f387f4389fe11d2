//! The parent of one agent: a small process with one thread and one loop that owns the agent's
//! process tree, feeds its standard input, and ends only when no process of the tree is left.
//!
//! Descriptors at its start:
//!
//! - 0: the lifeline. The first line is a [`ShimSpec`], then each line is a command. Its end means
//!   that the daemon has ended; then the shim stops the agent, or waits for a later daemon at the
//!   control FIFO.
//! - 1 and 2: the streams that the agent may inherit.
//! - 3: the status pipe to the daemon.
//! - 4: a lock to hold, if there is one.
//!
//! An agent of a worker has a lease, which the worker renews. The shim kills the tree when it ends.

mod census_writer;
mod children;
#[expect(clippy::disallowed_methods, reason = "opens files of Vik's own")]
mod control;
#[expect(
    clippy::disallowed_methods,
    reason = "lists folders; a link is not entered, and nothing is read"
)]
mod disk;
#[expect(clippy::disallowed_methods, reason = "opens files of Vik's own")]
mod feed;
mod ladder;
#[expect(clippy::disallowed_methods, reason = "opens files of Vik's own")]
mod launch;
mod lease;
mod lifeline;
#[cfg(target_os = "linux")]
#[expect(
    clippy::disallowed_methods,
    reason = "reads files of the kernel and lists shared memory"
)]
mod memory;
mod owner;
mod record;
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "opens a log of Vik's own")]
mod servers;
#[expect(clippy::disallowed_methods, reason = "reads files of the kernel")]
mod tasks;
#[cfg(target_os = "linux")]
pub(crate) mod template;
mod watch;
#[cfg(target_os = "linux")]
mod within;

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use self::census_writer::CensusWriter;
use self::control::{Control, Owner};
use self::disk::Disk;
use self::feed::StdinFeed;
use self::ladder::{Phase, Step};
use self::launch::{Bounds, Evidence};
use self::lease::LeaseTimer;
use self::lifeline::Lifeline;
use self::tasks::Tasks;
use crate::cgroup::{Cgroup, OwnGroups};
use crate::identity::ProcessId;
use crate::sandbox::{OpenedPlaces, Overrun};
use crate::spec::{Cause, ShimSpec, SpawnFailure, Status};
use crate::sys;
use crate::task_group::TaskGroup;

#[cfg(target_os = "linux")]
use self::memory::SharedMemory;
#[cfg(target_os = "linux")]
use self::servers::ServerHost;
#[cfg(target_os = "linux")]
use self::template::Role;
#[cfg(target_os = "linux")]
use self::within::Inside;

/// Runs the shim to its end: the hidden verb `vik __shim`. `main` must call it first, before
/// threads, logging and command line parsing: it takes over descriptors 0, 3 and 4 and all signals.
///
/// `vik __shim within` is the program that `bwrap` starts in the namespaces of a sandbox, `vik __shim
/// template` forks shims, and `vik __shim server` is the shim of a server of an agent.
pub fn main() -> ExitCode {
    #[cfg_attr(not(target_os = "linux"), expect(unused_mut, reason = "there is no template"))]
    let mut opened = None;
    #[cfg_attr(not(target_os = "linux"), expect(unused_mut, reason = "there are no servers"))]
    let mut spec_of_server: Option<OwnedFd> = None;
    #[cfg(target_os = "linux")]
    match std::env::args_os().nth(2) {
        Some(verb) if verb == within::VERB => return within::main(std::env::args().nth(3)),
        Some(verb) if verb == template::VERB => match template::serve() {
            Role::Shim(places) => opened = places,
            Role::Ended(code) => return code,
        },
        Some(verb) if verb == servers::VERB => {
            let number = std::env::args().nth(3).and_then(|number| number.parse().ok());
            spec_of_server = number.and_then(sys::inherited);
            if spec_of_server.is_none() {
                return refuse("only a shim can start it");
            }
            sys::reset_priority();
        }
        _ => {}
    }
    crate::set_non_dumpable();
    let _ = nix::unistd::setsid();
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(c"vik-shim");
    let status = sys::inherited(3).filter(|_| spec_of_server.is_none());
    let (Some(lifeline), true) = (sys::inherited(0), status.is_some() != spec_of_server.is_some()) else {
        return refuse("only the daemon can start it");
    };
    // Only 0, 1 and 2 may reach the agent: neither the status pipe nor the lock.
    sys::cloexec_from_3();
    let signals = match sys::signals_as_bytes(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT]) {
        Ok(signals) => signals,
        Err(error) => return refuse(&format!("cannot handle signals: {error}")),
    };
    let subreaper = sys::become_subreaper();
    let mut lifeline = Lifeline::new(lifeline);
    let read = match spec_of_server {
        Some(file) => serde_json::from_reader(BufReader::new(File::from(file))).map_err(io::Error::from),
        None => lifeline.read_spec(),
    };
    let spec = match read {
        Ok(spec) => spec,
        // The daemon ended, or cancelled the start, before it sent a spec: nothing was started, and
        // nobody waits for a result.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return ExitCode::SUCCESS,
        Err(error) => return refuse(&format!("cannot read the command to start: {error}")),
    };
    let own = OwnGroups::read();
    let mut shim = Shim::new(spec, &own, status, lifeline, signals, subreaper);
    shim.start(&own, opened);
    shim.run();
    ExitCode::SUCCESS
}

/// Prints an error. Only a daemon of another version or a person at a shell gets it.
fn refuse(why: &str) -> ExitCode {
    let _ = nix::unistd::write(io::stderr(), format!("vik shim: {why}\n").as_bytes());
    ExitCode::from(2)
}

struct Shim {
    spec: ShimSpec,
    /// The pipe to the daemon; `None` for the shim of a server.
    status: Option<OwnedFd>,
    /// `None` once the daemon that started this shim has ended.
    lifeline: Option<Lifeline>,
    /// The FIFO for a later daemon; `None` if none may take over.
    control: Option<Control>,
    /// The later daemon that has taken over.
    owner: Option<Owner>,
    /// The deadline for a later daemon, while there is none.
    orphan_until: Option<Instant>,
    /// `None` once it has ended, too.
    lease: Option<LeaseTimer>,
    census_writer: Option<CensusWriter>,
    /// The tree's own cgroup, if one could be created.
    cgroup: Option<Cgroup>,
    signals: OwnedFd,
    subreaper: bool,
    /// The forked process: the agent, or the sandbox program around it.
    child: Option<i32>,
    agent: Option<ProcessId>,
    /// The processes of the sandbox above the agent: they get no signal, and end after it.
    sandbox_parents: Vec<ProcessId>,
    /// How the agent ended, once that is known.
    ended: Option<(Option<i32>, Option<i32>)>,
    /// Open until it is known whether `exec` succeeded.
    report: Option<File>,
    /// The messages of the process that was started within namespaces.
    #[cfg(target_os = "linux")]
    inside: Option<Inside>,
    feed: Option<StdinFeed>,
    #[cfg(target_os = "linux")]
    servers: Option<ServerHost>,
    spawn_error: Option<SpawnFailure>,
    cause: Option<Cause>,
    phase: Phase,
    started_at: SystemTime,
    step: Step,
    check_at: Option<Instant>,
    /// The latest time of the next comparison of the tree with its limits.
    survey_at: Option<Instant>,
    survey_pause: Duration,
    /// The number of tasks of the tree at the last comparison.
    surveyed_tasks: u64,
    /// How many fewer tasks the system had free at the last comparison.
    lost_at_survey: u64,
    tasks: Tasks,
    /// The cgroup that limits the tasks of the tree, if one could be created.
    task_group: Option<TaskGroup>,
    /// Whether the kernel refuses more tasks than the tree may have.
    kernel_limits_tasks: bool,
    /// Whether there may be zombies that were not reaped yet.
    unreaped: bool,
    disk_check_at: Option<Instant>,
    disk: Option<Disk>,
    /// The memory that the tree holds beside resident memory, if memory is limited.
    #[cfg(target_os = "linux")]
    memory: Option<SharedMemory>,
    overrun: Option<Overrun>,
}

impl Shim {
    fn new(
        spec: ShimSpec,
        own: &OwnGroups,
        status: Option<OwnedFd>,
        lifeline: Lifeline,
        signals: OwnedFd,
        subreaper: bool,
    ) -> Self {
        Self {
            lease: spec.lease.map(LeaseTimer::new),
            spec,
            status,
            lifeline: Some(lifeline),
            control: None,
            owner: None,
            orphan_until: None,
            census_writer: None,
            cgroup: None,
            signals,
            subreaper,
            child: None,
            agent: None,
            sandbox_parents: Vec::new(),
            ended: None,
            report: None,
            #[cfg(target_os = "linux")]
            inside: None,
            feed: None,
            #[cfg(target_os = "linux")]
            servers: None,
            spawn_error: None,
            cause: None,
            phase: Phase::Running,
            started_at: SystemTime::now(),
            step: Step::default(),
            check_at: None,
            survey_at: None,
            survey_pause: Duration::ZERO,
            surveyed_tasks: 0,
            lost_at_survey: 0,
            tasks: Tasks::watch(own),
            task_group: None,
            kernel_limits_tasks: false,
            unreaped: false,
            disk_check_at: None,
            disk: None,
            #[cfg(target_os = "linux")]
            memory: None,
            overrun: None,
        }
    }

    fn start(&mut self, own: &OwnGroups, opened: Option<OpenedPlaces>) {
        let me = ProcessId::current();
        if let Some(path) = self.spec.census.clone() {
            let mut roll = CensusWriter::create(path, me);
            // A later daemon finds the cgroup only through a census.
            self.cgroup = Cgroup::make(own, me);
            if let (Some(cgroup), Some(sandbox)) = (&self.cgroup, &self.spec.sandbox) {
                cgroup.limit(sandbox.limits, self.tasks.limit());
            }
            roll.set_cgroup(self.cgroup.as_ref());
            self.census_writer = Some(roll);
        }
        if !self.spec.orphan_grace.is_zero() {
            // Without the FIFO no daemon can take over, and the agent ends with its daemon.
            self.control = self
                .spec
                .control
                .as_deref()
                .and_then(|path| Control::make(path).ok());
        }
        self.start_disk_watch();
        let allowed = self.tasks.limit().min(self.limits().tasks());
        // A server is in the group of its agent.
        if self.status.is_some() {
            self.task_group = TaskGroup::create(own, me, allowed);
        }
        let group = self.task_group.as_ref();
        let bounds = Bounds {
            cgroup: self.cgroup.as_ref().and_then(|cgroup| cgroup.open().ok()),
            entrance: group.and_then(|group| group.open_procs().ok()),
            tasks: self.tasks.user_limit(allowed),
        };
        #[cfg(target_os = "linux")]
        let ready = self.open_servers();
        #[cfg(not(target_os = "linux"))]
        let ready = Ok(());
        if self.end_lease() {
            self.ended = Some((None, None));
            return;
        }
        match ready.and_then(|()| launch::launch(&self.spec, opened, bounds)) {
            Ok(launched) => {
                self.child = Some(launched.pid);
                self.feed = launched.feed;
                match launched.evidence {
                    Evidence::Exec(report) => {
                        self.agent = Some(identity(launched.pid));
                        self.report = Some(report);
                    }
                    #[cfg(target_os = "linux")]
                    Evidence::Inside(inside) => self.inside = Some(inside),
                }
            }
            Err(failure) => {
                self.spawn_error = Some(failure);
                self.ended = Some((None, None));
            }
        }
        // The agent has its own copies; the shim's copy would keep the daemon's pipe open.
        release_output();
        // The agent was forked before, so it does not inherit the priority. Without this privilege
        // the shim competes with the processes that it must end.
        sys::raise_priority();
    }

    fn run(&mut self) {
        // A command may have arrived together with the spec.
        self.run_commands();
        loop {
            self.end_lease();
            let childless = self.reap();
            let now = Instant::now();
            self.end_orphan(now);
            self.refresh_census(now);
            self.watch_limits(now);
            if let Some(proof) = self.advance(now, childless) {
                self.finish(proof);
                return;
            }
            let feed_at = self.feed.as_ref().and_then(StdinFeed::poll_at);
            #[cfg(target_os = "linux")]
            let server_at = self.end_unused_servers(now);
            #[cfg(not(target_os = "linux"))]
            let server_at = None;
            let timeout = [
                self.unreaped.then(Instant::now),
                self.wake_at(),
                self.orphan_until,
                self.lease.as_ref().and_then(LeaseTimer::poll_at),
                self.census_at(),
                self.check_at,
                self.disk_check_at,
                feed_at,
                server_at,
            ]
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.saturating_duration_since(Instant::now()));
            self.wait(timeout);
        }
    }

    /// Drops the cgroup if the agent is not in it: the group would look empty while the agent
    /// lives.
    fn check_cgroup(&mut self) {
        if self
            .cgroup
            .as_ref()
            .is_some_and(|cgroup| !cgroup.is_populated().unwrap_or(false))
        {
            self.drop_cgroup();
            if let Some(roll) = &mut self.census_writer {
                roll.set_cgroup(None);
            }
        }
    }

    fn drop_cgroup(&mut self) {
        if let Some(cgroup) = self.cgroup.take() {
            cgroup.remove();
        }
    }

    fn send_status(&self, message: &Status) {
        let Some(status) = &self.status else { return };
        if let Ok(mut line) = serde_json::to_vec(message) {
            line.push(b'\n');
            let mut remaining = &line[..];
            while let Ok(written @ 1..) = nix::unistd::write(status, remaining) {
                remaining = &remaining[written..];
            }
        }
    }

    /// Waits for events and handles them.
    fn wait(&mut self, timeout: Option<Duration>) {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let mut watch = |fd: Option<_>, flags| {
            fd.map(|fd| {
                fds.push(PollFd::new(fd, flags));
                fds.len() - 1
            })
        };
        watch(self.lease.as_ref().and_then(LeaseTimer::fd), PollFlags::POLLIN);
        let lifeline = watch(self.lifeline.as_ref().map(Lifeline::fd), PollFlags::POLLIN);
        let control = watch(self.control.as_ref().map(Control::fd), PollFlags::POLLIN);
        let owner = watch(self.owner.as_ref().and_then(Owner::fd), PollFlags::POLLIN);
        let report = watch(self.report.as_ref().map(AsFd::as_fd), PollFlags::POLLIN);
        #[cfg(target_os = "linux")]
        let inside = watch(self.inside.as_ref().and_then(Inside::fd), PollFlags::POLLIN);
        let (feed, feed_for) = self.feed.as_ref().and_then(StdinFeed::poll).unzip();
        let feed = watch(feed, feed_for.unwrap_or(PollFlags::empty()));
        #[cfg(target_os = "linux")]
        let server_fds = fds.len();
        #[cfg(target_os = "linux")]
        fds.extend(self.servers.iter().flat_map(ServerHost::poll_fds));
        let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
            // The timeout is rounded up, so that the deadline has passed at the wakeup.
            PollTimeout::try_from(timeout.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX)
        });
        if poll(&mut fds, timeout).is_err() {
            return;
        }
        let ready = |index: Option<usize>| index.is_some_and(|index| fds[index].any().unwrap_or(true));
        let (signals, lifeline, report, feed) = (ready(Some(0)), ready(lifeline), ready(report), ready(feed));
        let (control, owner) = (ready(control), ready(owner));
        #[cfg(target_os = "linux")]
        let inside = ready(inside);
        #[cfg(target_os = "linux")]
        let servers: Vec<bool> = (fds[server_fds..].iter())
            .map(|fd| fd.any().unwrap_or(true))
            .collect();
        if self.end_lease() {
            return;
        }
        #[cfg(target_os = "linux")]
        let has_requests = (self.servers.as_mut()).is_some_and(|host| host.on_events(&servers));
        if report {
            self.read_report();
        }
        #[cfg(target_os = "linux")]
        if inside {
            self.read_inside_messages();
        }
        let unwatched = self.feed.as_ref().is_some_and(|feed| feed.poll().is_none());
        if (feed || unwatched) && !self.feed.as_mut().is_some_and(StdinFeed::pump) {
            self.feed = None;
        }
        if signals {
            self.take_signals();
        }
        if lifeline {
            self.take_commands();
        }
        if owner {
            self.owner = None;
        }
        if control {
            self.take_control_messages();
        }
        if lifeline || owner || control {
            self.update_orphan_deadline();
        }
        #[cfg(target_os = "linux")]
        if has_requests {
            self.take_requests();
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
}

fn identity(pid: i32) -> ProcessId {
    ProcessId::of(pid).unwrap_or(ProcessId { pid, start_time: 0 })
}

/// Replaces the inherited standard output by `/dev/null`.
fn release_output() {
    #[expect(clippy::disallowed_methods, reason = "opens /dev/null")]
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdout(null);
    }
}
