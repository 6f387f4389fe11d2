//! Keeps the census true while the agent runs: should the shim and the daemon die together, it is what names the tree.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Shim;
use super::ladder::Phase;
use crate::census::Census;
use crate::cgroup::Cgroup;
use crate::identity::{ProcessId, boot_id};

/// An agent starts its helpers soon.
const FIRST: Duration = Duration::from_millis(250);
/// Between two looks while the tree changes.
const CHANGING: Duration = Duration::from_secs(1);
/// The longest pause while nothing changes.
const QUIET: Duration = Duration::from_secs(10);

pub(super) struct CensusWriter {
    path: PathBuf,
    census: Census,
    again: Instant,
    pause: Duration,
}

impl CensusWriter {
    /// Knows who the shim is.
    pub(super) fn create(path: PathBuf) -> Self {
        let census = Census {
            boot_id: boot_id(),
            shim: Some(ProcessId::current()),
            ..Census::default()
        };
        Self {
            path,
            census,
            again: Instant::now(),
            pause: FIRST,
        }
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The cgroup is noted before anything is in it.
    pub(super) fn set_cgroup(&mut self, cgroup: Option<&Cgroup>) {
        self.census.cgroup = cgroup.map(|cgroup| cgroup.folder().to_owned());
        self.write();
    }

    fn write(&self) {
        // A census that cannot be written weakens a later proof, never this attempt.
        let _ = self.census.write(&self.path);
    }

    /// Notes the members; `true` if they are others than before.
    fn note(&mut self, mut members: Vec<ProcessId>) -> bool {
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
    /// The agent runs.
    pub(super) fn note_agent(&mut self, agent: ProcessId) {
        let members = [&[agent], self.sandbox_parents.as_slice()].concat();
        if let Some(roll) = &mut self.roll {
            roll.census.agent = Some(agent);
            roll.note(members);
            (roll.again, roll.pause) = (Instant::now() + FIRST, FIRST);
        }
    }

    pub(super) fn note_census(&mut self, members: Vec<ProcessId>) {
        if let Some(roll) = &mut self.roll {
            roll.note(members);
        }
    }

    /// Looks at the tree again when it is time: soon after a change, less and less often while nothing changes.
    pub(super) fn refresh_census(&mut self, now: Instant) {
        if self.census_at().is_none_or(|at| now < at) {
            return;
        }
        let members = self.members();
        if let Some(roll) = &mut self.roll {
            let changed = roll.note(members);
            roll.pause = if changed {
                CHANGING
            } else {
                (roll.pause * 2).min(QUIET)
            };
            roll.again = now + roll.pause;
        }
    }

    /// Something of the tree was reaped: more may have changed.
    pub(super) fn census_is_old(&mut self) {
        if let Some(roll) = &mut self.roll {
            roll.pause = CHANGING;
            roll.again = roll.again.min(Instant::now() + CHANGING);
        }
    }

    /// When [`refresh_census`](Self::refresh_census) has something to do.
    pub(super) fn census_at(&self) -> Option<Instant> {
        let running = self.phase == Phase::Running
            && self.report.is_none()
            && self.agent.is_some()
            && self.ended.is_none();
        self.roll.as_ref().filter(|_| running).map(|roll| roll.again)
    }
}
