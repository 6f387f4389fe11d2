//! Enforces the limits of the sandbox, and a limit on tasks that depends on the free tasks of this
//! system. A tree that exceeds one is killed at once.

use std::time::{Duration, Instant};

use super::Shim;
use super::disk::Disk;
#[cfg(target_os = "linux")]
use super::memory::SharedMemory;
use crate::cgroup::Cgroup;
use crate::identity::ProcessId;
#[cfg(target_os = "linux")]
use crate::sandbox::{Backend, bubblewrap};
use crate::sandbox::{DiskLimit, Overrun, SandboxLimits};
use crate::spec::Cause;
use crate::sys;
use crate::task_group::TaskGroup;
use crate::tree::Survey;

/// The time between two checks of a tree that is far from its limits.
const FAR_INTERVAL: Duration = Duration::from_millis(500);
/// The longest time between two checks of a tree that is far from its limits and does not change,
/// where the kernel refuses too many tasks.
const STEADY_INTERVAL: Duration = Duration::from_secs(10);
/// A check that is due in at most 1/`EARLY_SHARE` of its interval is made together with another
/// one, so that silent trees wake up less often.
const EARLY_SHARE: u32 = 3;
/// The time between two checks of a tree that has used a quarter of a limit.
const NEAR_INTERVAL: Duration = Duration::from_millis(50);
/// Checks take at most 1/`CHECK_SHARE` of the time.
const CHECK_SHARE: u32 = 4;

impl Shim {
    pub(super) fn limits(&self) -> SandboxLimits {
        let sandbox = self.spec.sandbox.as_ref();
        sandbox.map(|sandbox| sandbox.limits).unwrap_or_default()
    }

    /// Starts to watch disk and shared memory. Called before the agent starts, as the limits follow
    /// from what is free then.
    pub(super) fn start_disk_watch(&mut self) {
        let sandbox = self.spec.sandbox.as_ref();
        let limit = sandbox.and_then(|sandbox| sandbox.limits.disk);
        let places = sandbox.filter(|_| limit.is_some());
        let places = places.map_or(&[][..], |sandbox| &sandbox.write);
        let kept = &self.spec.kept;
        if limit.is_some() || !kept.is_empty() {
            let limit = limit.unwrap_or(DiskLimit::HalfOfFree);
            self.disk = Some(Disk::watch(places, kept, limit).discounted_by(self.spec.kept_discount.clone()));
        }
        #[cfg(target_os = "linux")]
        if let Some(sandbox) = sandbox.filter(|sandbox| sandbox.limits.memory.is_some()) {
            self.memory = Some(match sandbox.backend {
                Backend::Landlock => SharedMemory::watch(&[]),
                Backend::Bubblewrap => SharedMemory::watch(&bubblewrap::PRIVATE),
            });
        }
    }

    pub(super) fn start_limit_watch(&mut self) {
        let now = Instant::now();
        self.kernel_limits_tasks =
            self.task_group.is_some() || self.cgroup.as_ref().is_some_and(Cgroup::limits_tasks);
        self.check_at = Some(now + NEAR_INTERVAL.min(self.count_pause().unwrap_or(NEAR_INTERVAL)));
        self.disk_check_at = self.disk.as_ref().map(|_| now);
    }

    /// Returns the time between two counts of the free tasks, which are more frequent than checks
    /// of the tree; `None` where the kernel limits the tasks of the tree.
    fn count_pause(&self) -> Option<Duration> {
        (!self.kernel_limits_tasks).then(|| self.tasks.pause())
    }

    /// Checks the tree when a check is due, and sooner when the system suddenly has fewer tasks
    /// left.
    pub(super) fn watch_limits(&mut self, now: Instant) {
        let mut checks = [self.check_at, self.disk_check_at].into_iter().flatten();
        if !checks.any(|at| now >= at) {
            return;
        }
        if let Some(overrun) = self.check_members(now).or_else(|| self.check_disk(now)) {
            self.check_at = None;
            self.disk_check_at = None;
            self.overrun = Some(overrun);
            if let Some(cgroup) = &self.cgroup {
                // This kills all processes at once, so that none can fork meanwhile.
                cgroup.kill();
            }
            self.kill(Cause::Killed);
        }
    }

    fn check_members(&mut self, now: Instant) -> Option<Overrun> {
        let count_pause = self.count_pause();
        if !is_due(now, self.check_at?, count_pause.unwrap_or(self.survey_pause)) {
            return None;
        }
        let lost = self.tasks.lost();
        let allowed = self.tasks.limit().min(self.limits().tasks());
        let processes = self.limits().processes.map_or(u64::MAX, u64::from);
        let has_grown = lost > self.lost_at_survey.saturating_add(allowed.min(processes) / 2);
        self.lost_at_survey = self.lost_at_survey.min(lost);
        let survey_is_due = |at| is_due(now, at, self.survey_pause);
        let overrun = if has_grown || self.survey_at.is_none_or(survey_is_due) {
            self.survey_limits(now, allowed, lost)
        } else {
            None
        };
        let count_at = count_pause.map(|pause| Instant::now() + pause);
        self.check_at = self.survey_at.into_iter().chain(count_at).min();
        overrun
    }

    fn check_disk(&mut self, now: Instant) -> Option<Overrun> {
        let at = self.disk_check_at?;
        let mut disk = self.disk.take_if(|disk| is_due(now, at, disk.pause()))?;
        let overrun = disk.check(now, || self.agent_processes());
        self.disk_check_at = Some(now + disk.pause());
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
        if overrun.is_none() {
            self.refresh_census_with(now, &survey.alive);
        }
        overrun = overrun.or_else(|| self.refused_by_kernel());
        let end = Instant::now();
        self.survey_pause = if close {
            NEAR_INTERVAL
        } else if self.kernel_limits_tasks && limits.memory.is_none() && survey.tasks == self.surveyed_tasks {
            (self.survey_pause * 2).clamp(FAR_INTERVAL, STEADY_INTERVAL)
        } else {
            FAR_INTERVAL
        };
        self.surveyed_tasks = survey.tasks;
        self.survey_at = Some(
            end + self
                .survey_pause
                .max(end.saturating_duration_since(now) * CHECK_SHARE),
        );
        self.lost_at_survey = lost;
        overrun
    }

    /// Returns whether the tree has too much memory, and whether it is close to its limit.
    fn over_memory(&mut self, now: Instant, members: &[ProcessId], limit: u64) -> (Option<Overrun>, bool) {
        // Shared pages count once for each process: cheap to read, and never too low.
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
            let (over, near) = memory.check(now, members, resident, limit);
            return (over, close || near);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = now;
        (None, close)
    }

    /// Returns the limit at which the kernel has refused a request.
    pub(super) fn refused_by_kernel(&self) -> Option<Overrun> {
        let by_group = |group: &TaskGroup| {
            let limit = group.reached()?;
            Some(Overrun::Tasks { used: limit, limit })
        };
        let mut limits = self.limits();
        if self.task_group.is_some() {
            // The cgroup cannot limit tasks.
            limits.processes = None;
        }
        let cgroup = self.cgroup.as_ref();
        cgroup
            .and_then(|cgroup| cgroup.overrun(limits))
            .or_else(|| self.task_group.as_ref().and_then(by_group))
    }
}

/// Returns whether a check is due, or nearly.
fn is_due(now: Instant, at: Instant, pause: Duration) -> bool {
    now + pause / EARLY_SHARE >= at
}

/// Returns whether the tree has too many processes, and whether it is close to its limit.
fn over_processes(limits: SandboxLimits, survey: &Survey) -> (Option<Overrun>, bool) {
    let Some(limit) = limits.processes else {
        return (None, false);
    };
    let used = u32::try_from(survey.processes).unwrap_or(u32::MAX);
    let overrun = (used > limit).then_some(Overrun::Processes { used, limit });
    (overrun, used > limit / 4)
}
