//! The stop ladder: SIGINT to the agent's group, SIGTERM to every descendant, SIGKILL to every descendant again and
//! again until none is left. What an agent leaves behind when it ends by itself gets the last two steps.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::libc;

use super::Shim;
use crate::identity::ProcessId;
use crate::spec::{Cause, Proof};
use crate::{sys, tree};

/// How often new descendants are looked for between SIGTERM and SIGKILL.
const RESCAN: Duration = Duration::from_millis(100);
/// The longest pause between two rounds of SIGKILL.
const MAX_PAUSE: Duration = Duration::from_millis(50);
/// How many rounds of SIGKILL follow each other without a pause while each finds processes that are new.
const ROUNDS: usize = 1000;
/// How many survivors a record names.
const MAX_SURVIVORS: usize = 64;

/// Where on the ladder a shim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Interrupted {
        until: Instant,
    },
    Terminating {
        until: Instant,
        rescan: Instant,
    },
    Killing {
        until: Instant,
        again: Instant,
        pause: Duration,
    },
}

/// Who was signalled so far.
#[derive(Debug, Default)]
pub(super) struct Step {
    terminated: HashSet<ProcessId>,
    killed: HashSet<ProcessId>,
}

impl Shim {
    /// Begins the ladder, unless it is begun or the agent has ended.
    pub(super) fn stop(&mut self, cause: Cause) {
        // An end of the agent's own that came first is its own end.
        self.reap();
        if self.ended.is_some() || self.phase != Phase::Running {
            return;
        }
        self.cause = Some(cause);
        self.note_census(self.members());
        if let Some(agent) = self.agent {
            interrupt(agent);
        }
        self.phase = Phase::Interrupted {
            until: Instant::now() + self.spec.graces.int,
        };
    }

    /// Hands on a stop that was asked for before the agent ran.
    #[cfg(target_os = "linux")]
    pub(super) fn interrupt_late(&self, agent: ProcessId) {
        if matches!(self.phase, Phase::Interrupted { .. }) {
            interrupt(agent);
        }
    }

    /// Goes to the last step at once.
    pub(super) fn kill(&mut self) {
        self.reap();
        if matches!(self.phase, Phase::Killing { .. }) {
            return;
        }
        if self.ended.is_none() {
            self.cause = Some(Cause::Killed);
        }
        self.begin_killing();
    }

    /// One turn of the ladder; a proof when the end is reached.
    pub(super) fn advance(&mut self, now: Instant, childless: bool) -> Option<Proof> {
        if self.ended.is_some() {
            let by_itself = self.cause.is_none();
            self.cause.get_or_insert(Cause::Exited);
            if let Some(proof) = self.proof(childless) {
                return Some(proof);
            }
            if matches!(self.phase, Phase::Running | Phase::Interrupted { .. }) {
                let graces = &self.spec.graces;
                self.begin_terminating(if by_itself { graces.leftover } else { graces.term });
            }
        }
        match self.phase {
            Phase::Interrupted { until } if now >= until => self.begin_terminating(self.spec.graces.term),
            Phase::Terminating { until, .. } if now >= until => self.begin_killing(),
            Phase::Terminating { until, rescan } if now >= rescan => {
                self.terminate_members();
                self.phase = Phase::Terminating {
                    until,
                    rescan: now + RESCAN,
                };
            }
            Phase::Killing { until, again, .. } if now >= until && now >= again => {
                let mut survivors = self.members();
                survivors.truncate(MAX_SURVIVORS);
                return Some(Proof::Unproven { survivors });
            }
            Phase::Killing { until, again, pause } if now >= again => {
                self.kill_members();
                let again = Instant::now() + pause;
                self.phase = Phase::Killing {
                    until,
                    again,
                    pause: (pause * 2).min(MAX_PAUSE),
                };
            }
            _ => {}
        }
        None
    }

    /// When [`advance`](Self::advance) has something to do again if nothing else happens.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => None,
            Phase::Interrupted { until } => Some(until),
            Phase::Terminating { until, rescan } => Some(until.min(rescan)),
            Phase::Killing { again, .. } => Some(again),
        }
    }

    fn begin_terminating(&mut self, grace: Duration) {
        let now = Instant::now();
        self.note_census(self.members());
        self.terminate_members();
        self.phase = Phase::Terminating {
            until: now + grace,
            rescan: now + RESCAN,
        };
    }

    fn begin_killing(&mut self) {
        let now = Instant::now();
        self.kill_members();
        let pause = Duration::from_millis(1);
        self.phase = Phase::Killing {
            until: now + self.spec.graces.kill,
            again: now + pause,
            pause,
        };
    }

    fn terminate_members(&mut self) {
        for member in self.inmates() {
            if self.step.terminated.insert(member) {
                member.signal(libc::SIGTERM);
                member.signal(libc::SIGCONT);
            }
        }
    }

    fn kill_members(&mut self) {
        // A tree that forks faster than it dies is followed without a pause; the outer loop keeps the deadline.
        for _ in 0..ROUNDS {
            let mut anything_new = false;
            // Whole groups at once, before anybody: one by one, a storm of forks grows faster than it is read. Each is of a
            // session that began below this shim, so nobody else is in it. The agent's own needs no reading.
            if let Some(agent) = self.agent.filter(|_| self.ended.is_none()) {
                let _ = sys::kill(-agent.pid, libc::SIGKILL);
            }
            let members = self.members();
            for group in groups(&members) {
                let _ = sys::kill(-group, libc::SIGKILL);
            }
            for member in members {
                anything_new |= self.step.killed.insert(member);
                member.signal(libc::SIGKILL);
            }
            if self.reap() || !anything_new {
                return;
            }
        }
    }

    /// Everything of the tree that is alive.
    pub(super) fn members(&self) -> Vec<ProcessId> {
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        let mut members = tree::descendants(&[me]);
        if !self.subreaper {
            // Orphans have gone to another parent.
            if let Some(mark) = &self.spec.mark {
                let known: HashSet<ProcessId> = members.iter().copied().collect();
                let marked: Vec<ProcessId> = tree::marked(mark)
                    .into_iter()
                    .filter(|process| !known.contains(process))
                    .collect();
                let roots: Vec<i32> = marked.iter().map(|process| process.pid).collect();
                members.extend(
                    tree::descendants(&roots)
                        .into_iter()
                        .filter(|process| !known.contains(process)),
                );
                members.extend(marked);
            }
            if cfg!(target_os = "macos") {
                members.extend(
                    self.agent
                        .filter(|_| self.ended.is_some())
                        .into_iter()
                        .flat_map(|agent| tree::group(agent.pid)),
                );
            }
        }
        members
    }

    /// The same, without what stands around the agent.
    pub(super) fn inmates(&self) -> Vec<ProcessId> {
        let mut inmates = self.members();
        inmates.retain(|process| !self.wardens.contains(process));
        inmates
    }

    /// The proof that nothing is left, if nothing is.
    fn proof(&self, childless: bool) -> Option<Proof> {
        if !childless {
            return None;
        }
        if self.subreaper {
            return Some(Proof::Subreaper);
        }
        if !self.members().is_empty() {
            return None;
        }
        Some(if cfg!(target_os = "macos") {
            Proof::Group
        } else if self.spec.mark.is_some() {
            Proof::Mark
        } else {
            Proof::Unproven {
                survivors: Vec::new(),
            }
        })
    }

    /// How many processes other than the agent had to be ended.
    pub(super) fn leftovers(&self) -> u32 {
        let agent = self.agent;
        let signalled = self.step.terminated.union(&self.step.killed);
        let others = signalled.filter(|process| Some(**process) != agent && !self.wardens.contains(process));
        u32::try_from(others.count()).unwrap_or(u32::MAX)
    }
}

/// The groups of processes that these are in, but for the caller's own.
fn groups(members: &[ProcessId]) -> HashSet<i32> {
    let of = |pid: Option<i32>| {
        nix::unistd::getpgid(pid.map(nix::unistd::Pid::from_raw)).map(nix::unistd::Pid::as_raw)
    };
    let own = of(None);
    let groups = members.iter().filter_map(|member| of(Some(member.pid)).ok());
    groups.filter(|group| *group > 1 && Ok(*group) != own).collect()
}

fn interrupt(agent: ProcessId) {
    // Before its setsid the child has no group yet.
    if sys::kill(-agent.pid, libc::SIGINT).is_err() {
        let _ = sys::kill(agent.pid, libc::SIGINT);
    }
    // What is stopped cannot end.
    let _ = sys::kill(-agent.pid, libc::SIGCONT);
}
