//! The children of the shim: the report of the start, and their ends.

use std::time::SystemTime;

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::ladder::Phase;
use super::{Shim, identity, launch};
use crate::identity::ProcessId;
use crate::spec::Status;
use crate::sys;

#[cfg(target_os = "linux")]
use super::within::{self, Inside};

/// All kinds of children, including those that do not report their end by SIGCHLD.
#[cfg(target_os = "linux")]
const ANY_CHILD: WaitPidFlag = WaitPidFlag::WNOHANG.union(WaitPidFlag::__WALL);

#[cfg(not(target_os = "linux"))]
const ANY_CHILD: WaitPidFlag = WaitPidFlag::WNOHANG;

/// The most children that are reaped at a time.
const MAX_REAPED: usize = 1024;

impl Shim {
    /// Reaps children, at most [`MAX_REAPED`] at a time: a fork storm may create more than can be
    /// reaped. Returns `true` if no child is left, and none can come.
    pub(super) fn reap(&mut self) -> bool {
        self.unreaped = false;
        for _ in 0..MAX_REAPED {
            let status = match waitpid(Pid::from_raw(-1), Some(ANY_CHILD)) {
                Ok(WaitStatus::StillAlive) => return false,
                Ok(status) => status,
                Err(Errno::EINTR) => continue,
                Err(_) => return true,
            };
            self.census_is_old();
            #[cfg(target_os = "linux")]
            if let (Some(servers), Some(pid)) = (&mut self.servers, status.pid()) {
                servers.on_child_ended(pid.as_raw());
            }
            if status.pid().map(Pid::as_raw) == self.child {
                let ended = match status {
                    WaitStatus::Exited(_, code) => (Some(code), None),
                    WaitStatus::Signaled(_, signal, _) => (None, Some(signal as i32)),
                    _ => continue,
                };
                // The agent cannot read more input.
                self.feed = None;
                self.read_report();
                #[cfg(target_os = "linux")]
                self.on_inside_ended(ended);
                self.ended.get_or_insert(ended);
            }
        }
        self.unreaped = true;
        false
    }

    /// Reads the report of `exec` once it is complete, which shows whether the agent runs.
    pub(super) fn read_report(&mut self) {
        let Some(report) = self.report.take() else { return };
        let mut bytes = [0; sys::REPORT_LEN];
        let length = nix::unistd::read(&report, &mut bytes).unwrap_or(0);
        match (sys::parse_report(&bytes[..length]), self.agent) {
            (Some((step, errno)), _) => {
                self.spawn_error = Some(launch::failure(&self.spec, step, errno));
                self.feed = None;
            }
            (None, Some(agent)) => self.on_agent_started(agent),
            (None, None) => {}
        }
    }

    /// Records the start of the agent and reports it to the daemon.
    fn on_agent_started(&mut self, agent: ProcessId) {
        self.started_at = SystemTime::now();
        self.check_cgroup();
        self.record_agent(agent);
        self.start_limit_watch();
        self.send_status(&Status::Started(agent));
    }

    /// Handles the messages from within the namespaces.
    #[cfg(target_os = "linux")]
    pub(super) fn read_inside_messages(&mut self) {
        let messages = self
            .inside
            .as_mut()
            .map(Inside::take_messages)
            .unwrap_or_default();
        for message in messages {
            match message {
                within::InsideMessage::Runs(pid) => {
                    let outermost = self.child.unwrap_or(0);
                    let found = within::find_agent(outermost, pid);
                    // The agent is found, unless there is no /proc; then signals go to the whole
                    // tree.
                    let (agent, sandbox_parents) = found.unwrap_or((identity(outermost), Vec::new()));
                    self.agent = Some(agent);
                    self.sandbox_parents = sandbox_parents;
                    self.on_agent_started(agent);
                    self.interrupt_late(agent);
                    if let Some(inside) = &mut self.inside {
                        inside.answer();
                    }
                }
                within::InsideMessage::Failed(failure) => {
                    self.spawn_error = Some(failure);
                    self.feed = None;
                }
                within::InsideMessage::Ended { code, signal } => {
                    self.ended = Some((code, signal));
                    self.feed = None;
                }
            }
        }
    }

    /// Handles the end of `bwrap`, which follows the agent's end, or a failed start.
    #[cfg(target_os = "linux")]
    fn on_inside_ended(&mut self, ended: (Option<i32>, Option<i32>)) {
        self.read_inside_messages();
        let Some(inside) = self.inside.take() else { return };
        if self.ended.is_some() || self.spawn_error.is_some() {
            return;
        }
        if self.agent.is_none() && self.phase == Phase::Running {
            self.spawn_error = Some(launch::sandbox_failure(&inside.complaint()));
            return;
        }
        // The inside was killed before it reported the end; the exit code of `bwrap` contains the
        // signal.
        self.ended = Some(match ended {
            (Some(code @ 129..), None) => (None, Some(code - 128)),
            ended => ended,
        });
    }
}
