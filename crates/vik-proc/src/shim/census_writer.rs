//! Keeps the census up to date while the agent runs. If the shim and the daemon die together, the
//! census identifies the tree.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Shim;
use super::ladder::Phase;
use crate::census::Census;
use crate::cgroup::Cgroup;
use crate::identity::{ProcessId, boot_id};

/// The time before the first check: an agent starts its helpers soon.
const FIRST: Duration = Duration::from_millis(250);
/// The time between two checks while the tree changes.
const CHANGING: Duration = Duration::from_secs(1);
/// The longest time between two checks while nothing changes.
const QUIET: Duration = Duration::from_secs(10);

pub(super) struct CensusWriter {
    path: PathBuf,
    census: Census,
    next_check_at: Instant,
    pause: Duration,
}

impl CensusWriter {
    /// Creates a writer for a census that contains this shim.
    pub(super) fn create(path: PathBuf, shim: ProcessId) -> Self {
        let census = Census {
            boot_id: boot_id(),
            shim: Some(shim),
            ..Census::default()
        };
        Self {
            path,
            census,
            next_check_at: Instant::now(),
            pause: FIRST,
        }
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Records the cgroup. This happens before any process is in it.
    pub(super) fn set_cgroup(&mut self, cgroup: Option<&Cgroup>) {
        self.census.cgroup = cgroup.map(|cgroup| cgroup.folder().to_owned());
        self.write();
    }

    fn write(&self) {
        // A census that cannot be written weakens a later proof, but must not fail this attempt.
        let _ = self.census.write(&self.path);
    }

    /// Records the members. Returns whether they have changed.
    fn set_members(&mut self, mut members: Vec<ProcessId>) -> bool {
        members.sort_unstable();
        let changed = self.census.members != members;
        if changed {
            self.census.members = members;
            self.write();
        }
        changed
    }
}

impl Shim {
    /// Records the agent once it runs.
    pub(super) fn record_agent(&mut self, agent: ProcessId) {
        let members = [&[agent], self.sandbox_parents.as_slice()].concat();
        if let Some(roll) = &mut self.census_writer {
            roll.census.agent = Some(agent);
            roll.set_members(members);
            (roll.next_check_at, roll.pause) = (Instant::now() + FIRST, FIRST);
        }
    }

    pub(super) fn record_members(&mut self, members: Vec<ProcessId>) {
        if let Some(roll) = &mut self.census_writer {
            roll.set_members(members);
        }
    }

    /// Checks the tree again when that is due: soon after a change, less and less often while
    /// nothing changes.
    pub(super) fn refresh_census(&mut self, now: Instant) {
        if self.census_at().is_none_or(|at| now < at) {
            return;
        }
        self.update_census(now, self.members());
    }

    /// Checks the census, if that will be due soon, with members of the tree that another check has
    /// just found.
    pub(super) fn refresh_census_with(&mut self, now: Instant, agent_processes: &[ProcessId]) {
        let pause = self.census_writer.as_ref().map_or(QUIET, |roll| roll.pause);
        if self.census_at().is_some_and(|at| now + pause / 2 >= at) {
            self.update_census(now, [agent_processes, &self.sandbox_parents].concat());
        }
    }

    fn update_census(&mut self, now: Instant, members: Vec<ProcessId>) {
        if let Some(roll) = &mut self.census_writer {
            let changed = roll.set_members(members);
            roll.pause = if changed {
                CHANGING
            } else {
                (roll.pause * 2).min(QUIET)
            };
            roll.next_check_at = now + roll.pause;
        }
    }

    /// Schedules a check soon: a process of the tree was reaped, so other processes may have
    /// changed too.
    pub(super) fn census_is_old(&mut self) {
        if let Some(roll) = &mut self.census_writer {
            roll.pause = CHANGING;
            roll.next_check_at = roll.next_check_at.min(Instant::now() + CHANGING);
        }
    }

    /// Returns when [`refresh_census`](Self::refresh_census) is due.
    pub(super) fn census_at(&self) -> Option<Instant> {
        let running = self.phase == Phase::Running
            && self.report.is_none()
            && self.agent.is_some()
            && self.ended.is_none();
        self.census_writer
            .as_ref()
            .filter(|_| running)
            .map(|roll| roll.next_check_at)
    }
}
