//! The stop ladder: SIGINT to the agent's group, SIGTERM to every descendant, then SIGKILL to every
//! descendant until none is left. Processes that remain when an agent ends by itself get the last
//! two steps.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::libc;

use super::Shim;
use crate::identity::ProcessId;
use crate::spec::{Cause, Proof};
use crate::tree::{Found, Survey};
use crate::{sys, tree};

/// The time between two searches for new descendants, between SIGTERM and SIGKILL.
const RESCAN: Duration = Duration::from_millis(100);
/// The longest pause between two rounds of SIGKILL.
const MAX_PAUSE: Duration = Duration::from_millis(50);
/// How long rounds of SIGKILL follow each other without a pause while each finds processes that are
/// new.
const BURST: Duration = Duration::from_millis(250);
/// How many rounds over the shim's children precede one over the whole tree.
const QUICK_ROUNDS: usize = 32;
/// The most killed processes that are remembered.
const MAX_REMEMBERED: usize = 1000;
/// The most survivors that a record names.
const MAX_SURVIVORS: usize = 64;

/// The step of the ladder that a shim has reached.
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

/// The processes that were signalled so far.
#[derive(Debug, Default)]
pub(super) struct Step {
    terminated: HashSet<ProcessId>,
    killed: HashSet<ProcessId>,
    /// The children found by the last quick round.
    children: HashSet<i32>,
}

impl Shim {
    /// Starts the ladder, unless it has started or the agent has ended.
    pub(super) fn stop(&mut self, cause: Cause) {
        // If the agent has ended by itself before, that is the cause.
        self.reap();
        if self.ended.is_some() || self.phase != Phase::Running {
            return;
        }
        self.cause = Some(cause);
        self.record_members(self.members());
        if let Some(agent) = self.agent {
            interrupt(agent);
        }
        self.phase = Phase::Interrupted {
            until: Instant::now() + self.spec.graces.int,
        };
    }

    /// Passes on a stop that was requested before the agent ran.
    #[cfg(target_os = "linux")]
    pub(super) fn interrupt_late(&self, agent: ProcessId) {
        if matches!(self.phase, Phase::Interrupted { .. }) {
            interrupt(agent);
        }
    }

    /// Goes to the last step at once. The cause is recorded unless the agent has ended.
    pub(super) fn kill(&mut self, cause: Cause) {
        self.reap();
        if matches!(self.phase, Phase::Killing { .. }) {
            return;
        }
        if self.ended.is_none() {
            self.cause = Some(cause);
        }
        self.start_killing();
    }

    /// Takes the step that is due. Returns a proof when the end is reached.
    pub(super) fn advance(&mut self, now: Instant, childless: bool) -> Option<Proof> {
        if self.ended.is_some() {
            let by_itself = self.cause.is_none();
            self.cause.get_or_insert(Cause::Exited);
            if let Some(proof) = self.proof(childless) {
                return Some(proof);
            }
            if matches!(self.phase, Phase::Running | Phase::Interrupted { .. }) {
                let graces = &self.spec.graces;
                self.start_terminating(if by_itself { graces.leftover } else { graces.term });
            }
        }
        match self.phase {
            Phase::Interrupted { until } if now >= until => self.start_terminating(self.spec.graces.term),
            Phase::Terminating { until, .. } if now >= until => self.start_killing(),
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

    /// Returns when [`advance`](Self::advance) has something to do again if nothing else happens.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => None,
            Phase::Interrupted { until } => Some(until),
            Phase::Terminating { until, rescan } => Some(until.min(rescan)),
            Phase::Killing { again, .. } => Some(again),
        }
    }

    fn start_terminating(&mut self, grace: Duration) {
        let now = Instant::now();
        #[cfg(target_os = "linux")]
        self.end_servers();
        self.record_members(self.members());
        self.terminate_members();
        self.phase = Phase::Terminating {
            until: now + grace,
            rescan: now + RESCAN,
        };
    }

    fn start_killing(&mut self) {
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
        #[cfg(target_os = "linux")]
        let spared = self.server_processes();
        #[cfg(not(target_os = "linux"))]
        let spared: HashSet<ProcessId> = HashSet::new();
        for member in self.agent_processes() {
            if !spared.contains(&member) && self.step.terminated.insert(member) {
                member.signal(libc::SIGTERM);
                member.signal(libc::SIGCONT);
            }
        }
    }

    /// Kills all members, and repeats that without a pause while there are new ones: a tree may
    /// fork faster than it dies.
    fn kill_members(&mut self) {
        let until = Instant::now() + BURST;
        loop {
            self.kill_known_groups();
            for _ in 0..QUICK_ROUNDS {
                let anything_new = self.kill_children();
                // Unreaped children make the list long.
                while !self.reap() && self.unreaped && Instant::now() < until {}
                if self.reap() {
                    return;
                }
                if !anything_new || Instant::now() >= until {
                    break;
                }
            }
            let anything_new = self.kill_descendants();
            if self.reap() || !anything_new || Instant::now() >= until {
                return;
            }
        }
    }

    /// Kills the cgroup and the agent's process group. This needs no process table, and includes
    /// processes that are just being created.
    fn kill_known_groups(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        if let Some(agent) = self.agent.filter(|_| self.ended.is_none()) {
            let _ = sys::kill(-agent.pid, libc::SIGKILL);
        }
    }

    /// Kills the children of the shim and their groups without reading `/proc`: only the shim reaps
    /// them, so their pids cannot be reused. Orphans of a killed subreaper become children of the
    /// shim. Returns whether any child is new.
    fn kill_children(&mut self) -> bool {
        let children = sys::children(own_pid()).unwrap_or_default();
        // The newest are last in the list: they are killed first, before they can fork.
        for &child in children.iter().rev() {
            let _ = sys::kill(child, libc::SIGKILL);
        }
        // Each group belongs to a session below this shim, so it has no other members.
        let own = group_of(None);
        let groups = children.iter().filter_map(|child| group_of(Some(*child)));
        let groups: HashSet<i32> = groups.filter(|group| *group > 1 && Some(*group) != own).collect();
        for group in groups {
            let _ = sys::kill(-group, libc::SIGKILL);
        }
        let children: HashSet<i32> = children.into_iter().collect();
        let anything_new = !children.is_subset(&self.step.children);
        for &child in children.difference(&self.step.children) {
            if self.step.killed.len() < MAX_REMEMBERED {
                self.step.killed.extend(ProcessId::of(child));
            }
        }
        self.step.children = children;
        anything_new
    }

    /// Kills every descendant of the shim, parents first. Returns whether any is new.
    fn kill_descendants(&mut self) -> bool {
        let killed = &mut self.step.killed;
        let mut anything_new = false;
        let mut kill = |process: ProcessId| {
            anything_new |= !killed.contains(&process);
            if killed.len() < MAX_REMEMBERED {
                killed.insert(process);
            }
            process.signal(libc::SIGKILL);
        };
        tree::each_descendant(&[own_pid()], |found| {
            if let Found::Process(stat) = found
                && !stat.dead
            {
                kill(stat.id());
            }
            true
        });
        if !self.subreaper {
            // Orphans have another parent.
            let members = self.members();
            for member in members {
                anything_new |= self.step.killed.insert(member);
                member.signal(libc::SIGKILL);
            }
        }
        anything_new
    }

    /// Returns every process of the tree that is alive.
    pub(super) fn members(&self) -> Vec<ProcessId> {
        let mut members = tree::descendants(&[own_pid()]);
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

    /// Returns [`members`](Self::members) without the processes of the sandbox above the agent.
    pub(super) fn agent_processes(&self) -> Vec<ProcessId> {
        let mut agent_processes = self.members();
        agent_processes.retain(|process| !self.sandbox_parents.contains(process));
        agent_processes
    }

    /// Counts the tree without the processes of the sandbox above the agent; stops soon after
    /// `enough` tasks.
    pub(super) fn survey(&self, enough: u64) -> Survey {
        let sandbox_parents = self.sandbox_parents.len();
        let mut survey = tree::survey(own_pid(), enough.saturating_add(sandbox_parents as u64));
        if !self.subreaper {
            survey.alive = self.members();
            survey.processes = survey.processes.max(survey.alive.len());
        }
        survey
            .alive
            .retain(|process| !self.sandbox_parents.contains(process));
        survey.processes = survey.processes.saturating_sub(sandbox_parents);
        survey.tasks = survey.tasks.saturating_sub(sandbox_parents as u64);
        survey
    }

    /// Returns the proof that no process is left, unless one is.
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

    /// Returns how many processes other than the agent were signalled.
    pub(super) fn leftovers(&self) -> u32 {
        let agent = self.agent;
        let signalled = self.step.terminated.union(&self.step.killed);
        let others =
            signalled.filter(|process| Some(**process) != agent && !self.sandbox_parents.contains(process));
        u32::try_from(others.count()).unwrap_or(u32::MAX)
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(0)
}

/// Returns the process group of a process, or of this one.
fn group_of(pid: Option<i32>) -> Option<i32> {
    let group = nix::unistd::getpgid(pid.map(nix::unistd::Pid::from_raw));
    group.ok().map(nix::unistd::Pid::as_raw)
}

fn interrupt(agent: ProcessId) {
    // Before its setsid the child has no group yet.
    if sys::kill(-agent.pid, libc::SIGINT).is_err() {
        let _ = sys::kill(agent.pid, libc::SIGINT);
    }
    // A stopped process does not handle signals.
    let _ = sys::kill(-agent.pid, libc::SIGCONT);
}
