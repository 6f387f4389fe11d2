//! Holds the tree to the limits of its sandbox: what is over one is killed at once.

use std::time::{Duration, Instant};

use super::Shim;
use super::disk::Disk;
use crate::identity::ProcessId;
use crate::sandbox::{Overrun, SandboxLimits};
use crate::sys;

/// Between two looks at a tree that is far from its limits.
const CALM: Duration = Duration::from_millis(500);
/// Between two looks at one that has used a quarter of one.
const CLOSE: Duration = Duration::from_millis(50);

impl Shim {
    pub(super) fn limits(&self) -> SandboxLimits {
        let sandbox = self.spec.sandbox.as_ref();
        sandbox.map(|sandbox| sandbox.limits).unwrap_or_default()
    }

    /// Before the agent starts: what is free then counts.
    pub(super) fn begin_disk_watch(&mut self) {
        let sandbox = self.spec.sandbox.as_ref();
        let watched = sandbox.and_then(|sandbox| Some((&sandbox.write, sandbox.limits.disk?)));
        self.disk = watched.map(|(write, limit)| Disk::watch(write, limit));
    }

    pub(super) fn begin_watch(&mut self) {
        self.look_at = self.limits().any().then(|| Instant::now() + CLOSE);
    }

    pub(super) fn watch_limits(&mut self, now: Instant) {
        if self.look_at.is_none_or(|at| now < at) {
            return;
        }
        let members = self.inmates();
        let (mut overrun, mut close) = look(self.limits(), &members);
        if let Some(disk) = &mut self.disk {
            let (over, near) = disk.look(now, &members);
            overrun = overrun.or(over);
            close |= near;
        }
        if let Some(cgroup) = &self.cgroup {
            overrun = overrun.or_else(|| cgroup.overrun(self.limits()));
        }
        if overrun.is_none() {
            self.look_at = Some(now + if close { CLOSE } else { CALM });
            return;
        }
        self.look_at = None;
        self.overrun = overrun;
        if let Some(cgroup) = &self.cgroup {
            // All at once: a storm of forks has no time to go on.
            cgroup.kill();
        }
        self.kill();
    }
}

/// Whether a tree is over a limit, and whether it comes close to one.
fn look(limits: SandboxLimits, members: &[ProcessId]) -> (Option<Overrun>, bool) {
    let mut close = false;
    if let Some(limit) = limits.processes {
        let used = u32::try_from(members.len()).unwrap_or(u32::MAX);
        if used > limit {
            return (Some(Overrun::Processes { used, limit }), true);
        }
        close |= used > limit / 4;
    }
    if let Some(limit) = limits.memory {
        // Pages that processes share count once for each: cheap, and never too little.
        let resident: u64 = members.iter().map(|member| sys::resident_bytes(member.pid)).sum();
        if resident > limit {
            let used = members.iter().map(|member| sys::own_bytes(member.pid)).sum();
            if used > limit {
                return (Some(Overrun::Memory { used, limit }), true);
            }
        }
        close |= resident > limit / 4;
    }
    (None, close)
}
