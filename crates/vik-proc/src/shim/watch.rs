//! Holds the tree to the limits of its sandbox, and to its share of what tasks this system has room for: what is over
//! one is killed at once.

use std::time::{Duration, Instant};

use super::Shim;
use super::disk::Disk;
#[cfg(target_os = "linux")]
use super::memory::SharedMemory;
use crate::identity::ProcessId;
#[cfg(target_os = "linux")]
use crate::sandbox::{Backend, bubblewrap};
use crate::sandbox::{DiskLimit, Overrun, SandboxLimits};
use crate::sys;
use crate::task_group::TaskGroup;
use crate::tree::Survey;

/// Between two looks at a tree that is far from its limits.
const CALM: Duration = Duration::from_millis(500);
/// Between two looks at one that has used a quarter of one.
const CLOSE: Duration = Duration::from_millis(50);
/// Looking at the tree may take this part of the time at most.
const SHARE: u32 = 4;

impl Shim {
    pub(super) fn limits(&self) -> SandboxLimits {
        let sandbox = self.spec.sandbox.as_ref();
        sandbox.map(|sandbox| sandbox.limits).unwrap_or_default()
    }

    /// Before the agent starts: what is free then counts.
    pub(super) fn begin_disk_watch(&mut self) {
        let sandbox = self.spec.sandbox.as_ref();
        let limit = sandbox.and_then(|sandbox| sandbox.limits.disk);
        let places = sandbox.filter(|_| limit.is_some());
        let places = places.map_or(&[][..], |sandbox| &sandbox.write);
        let kept = &self.spec.kept;
        if limit.is_some() || !kept.is_empty() {
            let limit = limit.unwrap_or(DiskLimit::HalfOfFree);
            self.disk = Some(Disk::watch(places, kept, limit));
        }
        #[cfg(target_os = "linux")]
        if let Some(sandbox) = sandbox.filter(|sandbox| sandbox.limits.memory.is_some()) {
            self.memory = Some(match sandbox.backend {
                Backend::Landlock => SharedMemory::watch(&[]),
                Backend::Bubblewrap => SharedMemory::watch(&bubblewrap::PRIVATE),
            });
        }
    }

    pub(super) fn begin_watch(&mut self) {
        let now = Instant::now();
        self.look_at = Some(now + CLOSE.min(self.tasks.pause()));
        self.disk_look_at = self.disk.as_ref().map(|_| now);
    }

    /// Looks at the tree when it is time, and sooner where the system suddenly has fewer tasks left.
    pub(super) fn watch_limits(&mut self, now: Instant) {
        if let Some(overrun) = self.look_at_members(now).or_else(|| self.look_at_disk(now)) {
            self.look_at = None;
            self.disk_look_at = None;
            self.overrun = Some(overrun);
            if let Some(cgroup) = &self.cgroup {
                // All at once: a storm of forks has no time to go on.
                cgroup.kill();
            }
            self.kill();
        }
    }

    fn look_at_members(&mut self, now: Instant) -> Option<Overrun> {
        if self.look_at.is_none_or(|at| now < at) {
            return None;
        }
        let lost = self.tasks.lost();
        let allowed = self.tasks.limit().min(self.limits().tasks());
        let processes = self.limits().processes.map_or(u64::MAX, u64::from);
        let has_grown = lost > self.lost_at_survey.saturating_add(allowed.min(processes) / 2);
        self.lost_at_survey = self.lost_at_survey.min(lost);
        let is_due = has_grown || self.survey_at.is_none_or(|at| now >= at);
        let overrun = is_due.then(|| self.survey_limits(now, allowed, lost)).flatten();
        let pause = Instant::now() + self.tasks.pause();
        self.look_at = Some(self.survey_at.map_or(pause, |at| at.min(pause)));
        overrun
    }

    fn look_at_disk(&mut self, now: Instant) -> Option<Overrun> {
        if self.disk_look_at.is_none_or(|at| now < at) {
            return None;
        }
        let mut disk = self.disk.take()?;
        let overrun = disk.look(now, || self.inmates());
        self.disk_look_at = Some(now + disk.pause());
        self.disk = Some(disk);
        overrun
    }

    /// Compares the tree with its limits, and sets the time of the next comparison.
    fn survey_limits(&mut self, now: Instant, allowed: u64, lost: u64) -> Option<Overrun> {
        let limits = self.limits();
        let survey = self.survey(allowed);
        let (mut overrun, mut close) = over_processes(limits, &survey);
        if let (None, Some(limit)) = (overrun, limits.memory) {
            let (over, near) = self.over_memory(now, &survey.alive, limit);
            overrun = over;
            close |= near;
        }
        if survey.tasks > allowed {
            let (used, limit) = (survey.tasks, allowed);
            overrun = overrun.or(Some(Overrun::Tasks { used, limit }));
        }
        close |= survey.tasks > allowed / 4;
        overrun = overrun.or_else(|| self.refused_by_kernel());
        let end = Instant::now();
        let pause = if close { CLOSE } else { CALM };
        self.survey_at = Some(end + pause.max(end.saturating_duration_since(now) * SHARE));
        self.lost_at_survey = lost;
        overrun
    }

    /// Whether a tree has too much memory, and whether it comes close to that.
    fn over_memory(&mut self, now: Instant, members: &[ProcessId], limit: u64) -> (Option<Overrun>, bool) {
        // Pages that processes share count once for each: cheap, and never too little.
        let resident: u64 = members.iter().map(|member| sys::resident_bytes(member.pid)).sum();
        if resident > limit {
            let used = members.iter().map(|member| sys::own_bytes(member.pid)).sum();
            if used > limit {
                return (Some(Overrun::Memory { used, limit }), true);
            }
        }
        let close = resident > limit / 4;
        #[cfg(target_os = "linux")]
        if let Some(memory) = &mut self.memory {
            let (over, near) = memory.look(now, members, resident, limit);
            return (over, close || near);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = now;
        (None, close)
    }

    /// Which limit the kernel had to uphold.
    pub(super) fn refused_by_kernel(&self) -> Option<Overrun> {
        let by_group = |group: &TaskGroup| {
            let limit = group.reached()?;
            Some(Overrun::Tasks { used: limit, limit })
        };
        let cgroup = self.cgroup.as_ref();
        cgroup
            .and_then(|cgroup| cgroup.overrun(self.limits()))
            .or_else(|| self.task_group.as_ref().and_then(by_group))
    }
}

/// Whether a tree has too many processes, and whether it comes close to that.
fn over_processes(limits: SandboxLimits, survey: &Survey) -> (Option<Overrun>, bool) {
    let Some(limit) = limits.processes else {
        return (None, false);
    };
    let used = u32::try_from(survey.processes).unwrap_or(u32::MAX);
    let overrun = (used > limit).then_some(Overrun::Processes { used, limit });
    (overrun, used > limit / 4)
}
