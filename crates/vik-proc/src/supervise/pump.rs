//! The task of one shim: it forwards requests to the shim, reads its status, and reaps it.

use std::future::pending;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::adopt;
use super::link::Link;
use super::lost::{self, Lost, ShimLost};
use super::shims;
use crate::boot_time::BootTime;
use crate::identity::ProcessId;
use crate::lease::Lease;
use crate::spec::{ExitRecord, ShimSpec, Status};
#[cfg(target_os = "linux")]
use crate::sys;

/// How much longer than its ladder a shim may take before it counts as hung (for example because a
/// signal stopped it).
const SLACK: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Stop,
    Kill,
    Renew(BootTime),
    Detach,
}

/// The known state of one shim.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) agent: Option<ProcessId>,
    pub(super) end: Option<Result<ExitRecord, ShimLost>>,
}

/// One shim, as its task sees it.
pub(super) struct Shim {
    pub(super) id: ProcessId,
    pub(super) boot_id: String,
    /// Whether this task must reap the shim.
    pub(super) reaps: bool,
    /// Whether this process started the shim, and so inherits its orphans.
    pub(super) started: bool,
    /// `None` once the connection is closed, which leaves the shim without a daemon.
    pub(super) link: Option<Link>,
    pub(super) spec: ShimSpec,
    /// `None` also once it is lost.
    pub(super) lease: Option<Lease>,
    pub(super) inbox: mpsc::UnboundedReceiver<Request>,
    pub(super) publish: watch::Sender<State>,
}

/// The source of the status of a shim.
pub(super) enum StatusSource {
    /// The status pipe; the spec is the first line that the shim reads.
    Pipe {
        line: Vec<u8>,
        status: Lines<BufReader<pipe::Receiver>>,
    },
    /// The end of the process, and the census while the agent is unknown.
    Watch {
        shim: ProcessId,
        census: Option<PathBuf>,
        end: Pin<Box<dyn Future<Output = ()> + Send>>,
    },
}

impl StatusSource {
    pub(super) fn pipe(line: Vec<u8>, status: pipe::Receiver) -> Self {
        let status = BufReader::with_capacity(1024, status).lines();
        Self::Pipe { line, status }
    }

    pub(super) fn watch(shim: ProcessId, census: Option<PathBuf>) -> Self {
        let end = Box::pin(adopt::ended(shim));
        Self::Watch { shim, census, end }
    }

    /// Returns the next status, or `None` if the shim has ended or is about to. It can be dropped
    /// at any await without loss.
    async fn next(&mut self) -> Option<Status> {
        match self {
            Self::Pipe { status, .. } => loop {
                // A shim of the same version writes no unreadable lines.
                if let Ok(status) = serde_json::from_str(&status.next_line().await.ok()??) {
                    return Some(status);
                }
            },
            Self::Watch { shim, census, end } => {
                let agent = async {
                    match census {
                        Some(path) => adopt::agent_of(*shim, path).await,
                        None => pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    agent = agent => {
                        *census = None;
                        Some(Status::Started(agent))
                    }
                    () = end => None,
                }
            }
        }
    }
}

/// The reason why the task of a shim ends.
enum Done {
    Ended(Box<Option<ExitRecord>>),
    Detached,
}

/// Starts the task of a shim.
pub(super) fn run(mut shim: Shim, mut source: StatusSource) {
    tokio::spawn(async move {
        if let (Some(Link::Pipe(lifeline)), StatusSource::Pipe { line, .. }) = (&mut shim.link, &mut source) {
            // If the shim has ended, the status pipe shows that.
            let _ = lifeline.write_all(&std::mem::take(line)).await;
        }
        let done = shim.follow(&mut source).await;
        drop(source);
        let agent = shim.publish.borrow().agent;
        let end = match done {
            Done::Detached => Err(ShimLost::detached(shim.id, agent)),
            Done::Ended(record) => shim.conclude(*record, agent).await,
        };
        let detached = end.as_ref().is_err_and(|lost| lost.detached);
        shim.publish.send_modify(|state| state.end = Some(end));
        if detached && shim.reaps {
            // The shim is still a child of this process, but not an orphan.
            reap(shim.id.pid).await;
            shims::forget(shim.id.pid);
        }
    });
}

impl Shim {
    async fn conclude(
        &self,
        record: Option<ExitRecord>,
        agent: Option<ProcessId>,
    ) -> Result<ExitRecord, ShimLost> {
        let how = if self.reaps {
            let how = reap(self.id.pid).await;
            shims::forget(self.id.pid);
            how
        } else {
            "while no daemon watched it, or by itself".to_owned()
        };
        if let Some(record) = record {
            return Ok(record);
        }
        let lost = Lost {
            shim: self.id,
            agent,
            boot_id: self.boot_id.clone(),
            orphans_are_ours: self.started,
            how,
        };
        lost::clean_up(&self.spec, lost).await
    }

    /// Serves the shim until it ends.
    async fn follow(&mut self, source: &mut StatusSource) -> Done {
        let mut record = None;
        let mut hung_at: Option<Instant> = None;
        loop {
            tokio::select! {
                status = source.next() => match status {
                    Some(Status::Started(agent)) => self.publish.send_modify(|state| state.agent = Some(agent)),
                    Some(Status::Ended(ended)) => record = Some(*ended),
                    None => return Done::Ended(Box::new(record)),
                },
                request = self.inbox.recv(), if self.link.is_some() => match request {
                    Some(Request::Detach) => {
                        self.link = None;
                        return Done::Detached;
                    }
                    Some(Request::Renew(end)) => self.renew(end),
                    request => {
                        self.forward(request);
                        hung_at.get_or_insert(Instant::now() + self.spec.graces.total() + SLACK);
                    }
                },
                end = renewed(&mut self.lease), if self.link.is_some() => match end {
                    Some(end) => self.renew(end),
                    None => {
                        self.lose_lease();
                        hung_at.get_or_insert(Instant::now() + self.spec.graces.total() + SLACK);
                    }
                },
                () = until(hung_at) => {
                    self.id.signal(libc::SIGKILL);
                    hung_at = None;
                }
            }
        }
    }

    /// Forwards a renewal of the lease. If that fails, the lease ends.
    fn renew(&mut self, end: BootTime) {
        if let Some(link) = &mut self.link {
            link.send(&format!("renew {}", end.as_nanos()));
        }
        // A stopped shim cannot end its tree.
        self.id.signal(libc::SIGCONT);
    }

    /// Ends the tree because its lease is lost. The shim does so by itself, but a stopped one has to be
    /// continued, and one that hangs is killed.
    fn lose_lease(&mut self) {
        if let Some(lease) = self.lease.take() {
            // The shim then records that its lease has ended.
            self.renew(lease.end());
        }
        self.forward(Some(Request::Kill));
    }

    /// Forwards a request. `None` means that all handles were dropped, which ends the agent.
    fn forward(&mut self, request: Option<Request>) {
        let command = if matches!(request, Some(Request::Kill)) {
            "kill"
        } else {
            "stop"
        };
        // For an agent without an orphan grace the closed lifeline is the stop, so no command is
        // needed.
        let sends = request.is_some() || !self.spec.orphan_grace.is_zero();
        let sent = self
            .link
            .as_mut()
            .is_some_and(|link| !sends || link.send(command));
        // A full pipe contains enough commands already, but a FIFO may be full of lines of other
        // processes.
        if !sent {
            self.id.signal(libc::SIGTERM);
        }
        if request.is_none() {
            self.link = None;
        }
        // A signal may have stopped the shim.
        self.id.signal(libc::SIGCONT);
    }
}

/// Waits for a renewal of the lease; `None` means that it is lost. Never returns without a lease.
async fn renewed(lease: &mut Option<Lease>) -> Option<BootTime> {
    match lease {
        // Most shims have no lease, and their tasks no memory for it.
        Some(lease) => Box::pin(lease.renewed()).await,
        None => pending().await,
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

/// Waits for the shim's own exit, which follows the end of its status pipe at once. Returns a
/// description of it.
async fn reap(pid: i32) -> String {
    exited(pid).await;
    let mut pause = Duration::from_millis(1);
    loop {
        match waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => return format!("exit code {code}"),
            Ok(WaitStatus::Signaled(_, signal, _)) => return format!("signal {}", signal as i32),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return "reaped by someone else".to_owned(),
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Returns when the process has exited, or at once if the system does not report that.
#[cfg(target_os = "linux")]
async fn exited(pid: i32) {
    if let Ok(pidfd) = sys::pidfd_open(pid).and_then(sys::watched) {
        // The wait below notices an exit after an error.
        let _ = pidfd.readable().await;
    }
}

#[cfg(not(target_os = "linux"))]
async fn exited(_pid: i32) {}
