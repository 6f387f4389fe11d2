//! The servers of the agent: the shim starts one for each connection, under a shim of its own, which
//! applies the sandbox of the server, reaps its processes, and ends them when its lifeline to this
//! shim closes.
//!
//! All of it is below this shim: the tree, its cgroup, its census and its limits include the servers.

use std::collections::{BTreeMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::libc;
use nix::poll::{PollFd, PollFlags};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::lifeline::Lifeline;
use super::{Shim, launch, within};
use crate::identity::ProcessId;
use crate::servers::{ACCEPTED, Direction, REQUESTS, Request, ServerSpec, Servers};
use crate::spec::{Graces, Output, SHIM_VERB, ShimSpec, SpawnFailure, Stdin};
use crate::sys::{self, Image};
use crate::tree;

/// The argument after [`SHIM_VERB`] for the shim of a server: `vik __shim server DESCRIPTOR`, which
/// holds its spec.
pub(super) const VERB: &str = "server";

/// The most processes of one server at a time.
const MAX_LIVE: usize = 8;
/// The most starts of one server.
const MAX_STARTS: u32 = 50;
/// The most refusals that are logged.
const MAX_LOGGED: u32 = 100;
/// How long a server may live after its client has gone.
const CLIENT_GRACE: Duration = Duration::from_secs(2);
/// The time between the steps of the end of a server. All together take less than the graces of an
/// agent.
const STEP: Duration = Duration::from_millis(500);

/// The servers of an agent, and its connections to them.
pub(super) struct ServerHost {
    servers: Servers,
    folder: OwnedFd,
    /// The pipe of requests, while the agent may connect.
    requests: Lifeline,
    connections: Vec<Connection>,
    starts: BTreeMap<String, u32>,
    refusals: u32,
}

/// A connection, and the shim of its server.
struct Connection {
    server: String,
    shim: i32,
    /// The server is ended when this is closed.
    lifeline: Option<OwnedFd>,
    /// The pipe to the client, which reports an error once the client has gone; `None` after that.
    output: Option<OwnedFd>,
    /// The deadline after the client has gone.
    end_at: Option<Instant>,
}

impl ServerHost {
    /// Creates the pipe of requests.
    pub(super) fn open(servers: Servers) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let folder = open(&servers.folder, flags, Mode::empty())?;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        nix::unistd::mkfifoat(&folder, REQUESTS, mode)?;
        // Opened for both directions, it never reports that its last writer has gone.
        let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let requests = openat(&folder, REQUESTS, flags, Mode::empty())?;
        Ok(Self {
            servers,
            folder,
            requests: Lifeline::new(requests),
            connections: Vec::new(),
            starts: BTreeMap::new(),
            refusals: 0,
        })
    }

    /// Returns what to wait for: requests, and the ends of clients.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let clients = self.connections.iter().filter_map(|it| it.output.as_ref());
        // An error is always reported.
        let clients = clients.map(|output| PollFd::new(output.as_fd(), PollFlags::empty()));
        std::iter::once(PollFd::new(self.requests.fd(), PollFlags::POLLIN)).chain(clients)
    }

    /// Notes the ends of clients, and returns whether there are requests. `ready` has an entry for each
    /// of [`poll_fds`](Self::poll_fds).
    pub(super) fn on_events(&mut self, ready: &[bool]) -> bool {
        let open = self.connections.iter_mut().filter(|it| it.output.is_some());
        for (connection, _) in open.zip(ready.iter().skip(1)).filter(|(_, ready)| **ready) {
            connection.output = None;
            connection.end_at = Some(Instant::now() + CLIENT_GRACE);
        }
        ready.first().is_some_and(|ready| *ready)
    }

    /// Ends the servers whose clients have gone. Returns when that is to be done next.
    fn end_unused(&mut self, now: Instant) -> Option<Instant> {
        for connection in &mut self.connections {
            if connection.end_at.take_if(|at| now >= *at).is_some() {
                connection.lifeline = None;
            }
        }
        self.connections.iter().filter_map(|it| it.end_at).min()
    }

    /// Forgets the connection whose shim has ended.
    pub(super) fn on_child_ended(&mut self, shim: i32) {
        self.connections.retain(|connection| connection.shim != shim);
    }

    /// Returns why a server must not be started; `None` if it may.
    fn refusal(&self, server: &str) -> Option<String> {
        if self.servers.programs.is_empty() {
            return Some("the agent is ending".to_owned());
        }
        if !self.servers.programs.contains_key(server) {
            return Some("there is no such server".to_owned());
        }
        let live = self.connections.iter().filter(|it| it.server == server).count();
        if live >= MAX_LIVE {
            return Some(format!("{MAX_LIVE} of it run already"));
        }
        let starts = self.starts.get(server).copied().unwrap_or(0);
        (starts >= MAX_STARTS).then(|| format!("it was started {MAX_STARTS} times already"))
    }

    /// Opens and removes the pipes of a connection.
    fn take_pipes(&self, request: &Request) -> io::Result<[File; 2]> {
        let take = |direction| {
            let name = request.pipe(direction);
            let access = match direction {
                Direction::Input => OFlag::O_RDONLY,
                // Without a reader the client has gone.
                Direction::Output => OFlag::O_WRONLY,
            };
            let flags = access | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let pipe = openat(&self.folder, name.as_str(), flags, Mode::empty());
            let _ = unlinkat(&self.folder, name.as_str(), UnlinkatFlags::NoRemoveDir);
            let pipe = pipe?;
            let facts = fstat(&pipe)?;
            let kind = SFlag::from_bits_truncate(facts.st_mode & SFlag::S_IFMT.bits());
            if kind != SFlag::S_IFIFO || facts.st_uid != geteuid().as_raw() {
                return Err(Errno::EINVAL.into());
            }
            sys::duplicate_above_stdio(pipe.as_raw_fd()).map(File::from)
        };
        // The output comes last: closing it ends the connection for the client.
        let input = take(Direction::Input);
        let output = take(Direction::Output);
        Ok([input?, output?])
    }

    fn log(&self) -> io::Result<OwnedFd> {
        let mut options = File::options();
        options
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NOCTTY);
        let log = options.open(&self.servers.log)?;
        sys::duplicate_above_stdio(log.as_raw_fd())
    }

    fn log_refusal(&mut self, server: &str, why: &str) {
        self.refusals += 1;
        if self.refusals > MAX_LOGGED {
            return;
        }
        // An agent has chosen the name.
        let server: String = server.chars().filter(|c| !c.is_control()).take(64).collect();
        if let Ok(log) = self.log() {
            let _ = File::from(log).write_all(format!("vik: refused to start {server}: {why}\n").as_bytes());
        }
    }
}

impl Shim {
    /// Opens the servers of the spec, if it has any.
    pub(super) fn open_servers(&mut self) -> Result<(), SpawnFailure> {
        if let Some(servers) = self.spec.servers.take() {
            let opened = ServerHost::open(servers);
            let opened = opened
                .map_err(|error| launch::os_failure("cannot create the pipe for its servers", &error))?;
            self.servers = Some(opened);
        }
        Ok(())
    }

    /// Ends the servers whose clients have gone. Returns when that is to be done next.
    pub(super) fn end_unused_servers(&mut self, now: Instant) -> Option<Instant> {
        self.servers.as_mut()?.end_unused(now)
    }

    /// Starts what the agent has requested.
    pub(super) fn take_requests(&mut self) {
        let Some(host) = &mut self.servers else { return };
        host.requests.receive();
        for line in host.requests.lines() {
            if let Some(request) = Request::parse(&line) {
                self.serve(&request);
            }
        }
    }

    /// Starts a server for a request, or closes its pipes.
    fn serve(&mut self, request: &Request) {
        let Some(host) = &mut self.servers else { return };
        let Ok([input, mut output]) = host.take_pipes(request) else {
            // The client has gone, or named something else.
            return;
        };
        if let Some(why) = host.refusal(&request.server) {
            host.log_refusal(&request.server, &why);
            return;
        }
        // The pipe does not block yet: an agent could have filled it.
        if output.write_all(&ACCEPTED).is_err() {
            return;
        }
        *host.starts.entry(request.server.clone()).or_default() += 1;
        match self.start_server(&request.server, [input.into(), output.into()]) {
            Ok(connection) => {
                if let Some(host) = &mut self.servers {
                    host.connections.push(connection);
                }
            }
            Err(error) => {
                if let Some(host) = &mut self.servers {
                    host.log_refusal(&request.server, &error.to_string());
                }
            }
        }
    }

    fn start_server(&self, server: &str, [input, output]: [OwnedFd; 2]) -> io::Result<Connection> {
        let host = self.servers.as_ref().ok_or(Errno::EINVAL)?;
        for pipe in [&input, &output] {
            sys::set_nonblocking(pipe, false)?;
        }
        let program = host.servers.programs.get(server).ok_or(Errno::EINVAL)?;
        let spec = self.server_spec(program, &input);
        let spec = OwnedFd::from(within::nameless(&serde_json::to_vec(&spec)?)?);
        let spec = sys::duplicate_above_stdio(spec.as_raw_fd())?;
        let (lifeline_read, lifeline) = sys::pipe()?;
        let lifeline_read = sys::duplicate_above_stdio(lifeline_read.as_raw_fd())?;
        let log = host.log()?;
        let mark = self.spec.mark.as_ref();
        let mark = mark.map(|mark| CString::new(format!("{}={}", mark.name, mark.value)));
        let mark = mark.transpose()?;
        let args = ["vik", SHIM_VERB, VERB, &spec.as_raw_fd().to_string()].map(CString::new);
        // The mark is also an argument, as others may not read the environment of a shim.
        let args = args.into_iter().chain(mark.clone().map(Ok));
        let allowed = self.tasks.limit().min(self.limits().tasks());
        let image = Image {
            program: c"/proc/self/exe".to_owned(),
            args: args.collect::<Result<_, _>>()?,
            env: mark.into_iter().collect(),
            cwd: c"/".to_owned(),
            stdio: [lifeline_read.as_raw_fd(), output.as_raw_fd(), log.as_raw_fd()],
            tasks: self.tasks.user_limit(allowed),
            entrance: self.task_group.as_ref().and_then(|group| group.open_procs().ok()),
            passed: vec![spec.as_raw_fd(), input.as_raw_fd()],
            ..Image::default()
        };
        let cgroup = self.cgroup.as_ref().and_then(|cgroup| cgroup.open().ok());
        let (mut report, shim) =
            launch::fork(&image, cgroup.as_ref()).map_err(|failure| io::Error::other(failure.message))?;
        let mut bytes = Vec::new();
        // The pipe is closed when the shim of the server runs.
        let _ = report.read_to_end(&mut bytes);
        if let Some((_, errno)) = sys::parse_report(&bytes) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(Connection {
            server: server.to_owned(),
            shim,
            lifeline: Some(lifeline),
            output: Some(output),
            end_at: None,
        })
    }

    /// Returns the spec for the shim of a server, which gets the pipe under the same number.
    fn server_spec(&self, server: &ServerSpec, input: &OwnedFd) -> ShimSpec {
        ShimSpec {
            program: server.program.clone(),
            args: server.args.clone(),
            cwd: server.cwd.clone(),
            env: server.env.clone(),
            mark: self.spec.mark.clone(),
            stdin: Stdin::Descriptor(input.as_raw_fd()),
            stdout: Output::Inherit,
            stderr: Output::Inherit,
            graces: Graces {
                int: STEP,
                term: STEP,
                leftover: STEP,
                ..self.spec.graces
            },
            open_files: self.spec.open_files,
            umask: self.spec.umask,
            sandbox: Some(server.sandbox.clone()),
            refusals: self.spec.refusals.clone(),
            ..ShimSpec::default()
        }
    }

    /// Ends all servers, and starts no more.
    pub(super) fn end_servers(&mut self) {
        if let Some(host) = &mut self.servers {
            // Nothing can be started without a program.
            host.servers.programs.clear();
            for connection in &mut host.connections {
                connection.lifeline = None;
            }
        }
    }

    /// Returns the processes of servers, which their own shims end.
    pub(super) fn server_processes(&self) -> HashSet<ProcessId> {
        let connections = self.servers.iter().flat_map(|host| &host.connections);
        let shims: Vec<i32> = connections.map(|connection| connection.shim).collect();
        if shims.is_empty() {
            return HashSet::new();
        }
        let own = shims.iter().filter_map(|shim| ProcessId::of(*shim));
        own.chain(tree::descendants(&shims)).collect()
    }
}
