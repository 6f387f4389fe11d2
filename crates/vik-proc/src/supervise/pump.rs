//! The task that belongs to one shim: it carries requests to it, hears its status, reaps it.

use std::future::pending;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::lost::{self, ShimLost};
use super::shims;
use crate::identity::ProcessId;
use crate::spec::{ExitRecord, ShimSpec, Status};
#[cfg(target_os = "linux")]
use crate::sys;

/// How much longer than its ladder a shim may take before it counts as hung (stopped by a signal, say).
const SLACK: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Stop,
    Kill,
}

/// What is known about one shim.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) agent: Option<ProcessId>,
    pub(super) end: Option<Result<ExitRecord, ShimLost>>,
}

/// One shim from the side of its task.
pub(super) struct Shim {
    pub(super) id: ProcessId,
    /// `None` once it is closed, which stops the shim.
    pub(super) lifeline: Option<pipe::Sender>,
    pub(super) spec: ShimSpec,
    pub(super) inbox: mpsc::UnboundedReceiver<Request>,
    pub(super) publish: watch::Sender<State>,
}

/// Starts the task; `line` is the spec as the shim will read it.
pub(super) fn run(mut shim: Shim, line: Vec<u8>, status: pipe::Receiver) {
    let id = shim.id;
    tokio::spawn(async move {
        if let Some(lifeline) = &mut shim.lifeline {
            // A shim that is gone shows at the status pipe.
            let _ = lifeline.write_all(&line).await;
        }
        drop(line);
        let record = shim.follow(status).await;
        let how = reap(id.pid).await;
        shims::forget(id.pid);
        let agent = shim.publish.borrow().agent;
        let end = match record {
            Some(record) => Ok(record),
            None => lost::clean_up(&shim.spec, id, agent, how).await,
        };
        shim.publish.send_modify(|state| state.end = Some(end));
    });
}

impl Shim {
    /// Serves the shim until it closes its status pipe.
    async fn follow(&mut self, status: pipe::Receiver) -> Option<ExitRecord> {
        let mut lines = BufReader::with_capacity(1024, status).lines();
        let mut record = None;
        let mut hung_at: Option<Instant> = None;
        loop {
            tokio::select! {
                line = lines.next_line() => match line {
                    Ok(Some(line)) => match serde_json::from_str(&line) {
                        Ok(Status::Started(agent)) => self.publish.send_modify(|state| state.agent = Some(agent)),
                        Ok(Status::Ended(ended)) => record = Some(*ended),
                        // A shim of our own version writes no such line.
                        Err(_) => {}
                    },
                    Ok(None) | Err(_) => return record,
                },
                request = self.inbox.recv(), if self.lifeline.is_some() => {
                    self.ask(request);
                    hung_at.get_or_insert(Instant::now() + self.spec.graces.total() + SLACK);
                },
                () = until(hung_at) => {
                    self.id.signal(libc::SIGKILL);
                    hung_at = None;
                }
            }
        }
    }

    /// Hands a request on. `None`: nobody can ask for anything any more, which is like a daemon that died.
    fn ask(&mut self, request: Option<Request>) {
        let word: &[u8] = match request {
            Some(Request::Stop) => b"stop\n",
            Some(Request::Kill) => b"kill\n",
            None => {
                self.lifeline = None;
                b""
            }
        };
        if let Some(lifeline) = &self.lifeline {
            // A pipe that is full holds enough commands already.
            let _ = lifeline.try_write(word);
        }
        // It may have been stopped by a signal.
        self.id.signal(libc::SIGCONT);
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

/// Waits for the shim's own exit, which follows the end of its status pipe at once. Says how it ended.
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

/// Returns when the process has exited, or at once where the system cannot tell.
#[cfg(target_os = "linux")]
async fn exited(pid: i32) {
    if let Ok(pidfd) = sys::pidfd_open(pid).and_then(sys::watched) {
        // An error would show at the wait that follows.
        let _ = pidfd.readable().await;
    }
}

#[cfg(not(target_os = "linux"))]
async fn exited(_pid: i32) {}
