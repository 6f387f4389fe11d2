//! The stop ladder: SIGINT to the agent's group, SIGTERM to every descendant, SIGKILL to every descendant again and
//! again until none is left. What an agent leaves behind when it ends by itself gets the last two steps.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::libc;

use super::Shim;
use crate::identity::ProcessId;
use crate::spec::{Cause, Proof};
use crate::tree::{Found, Survey};
use crate::{sys, tree};

/// How often new descendants are looked for between SIGTERM and SIGKILL.
const RESCAN: Duration = Duration::from_millis(100);
/// The longest pause between two rounds of SIGKILL.
const MAX_PAUSE: Duration = Duration::from_millis(50);
/// How long rounds of SIGKILL follow each other without a pause while each finds processes that are new.
const BURST: Duration = Duration::from_millis(250);
/// How many rounds over the own children come before one over the whole tree.
const QUICK_ROUNDS: usize = 32;
/// How many of those that were killed are remembered.
const MAX_REMEMBERED: usize = 1000;
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
    /// The children that the last quick round has found.
    children: HashSet<i32>,
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

    /// Kills all that is there now, again and again for as long as there is something new: a tree that forks faster than
    /// it dies has to be followed without a pause.
    fn kill_members(&mut self) {
        let until = Instant::now() + BURST;
        loop {
            self.kill_known_groups();
            for _ in 0..QUICK_ROUNDS {
                let anything_new = self.kill_children();
                // The dead make the list of children long.
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

    /// Kills what needs no reading of the process table: all of it at once, what is just being made too.
    fn kill_known_groups(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        if let Some(agent) = self.agent.filter(|_| self.ended.is_none()) {
            let _ = sys::kill(-agent.pid, libc::SIGKILL);
        }
    }

    /// Kills the children of the shim and their groups, without a look at what they are: nobody else takes in their end,
    /// so their pids are theirs. Whoever orphans of the tree went to before, they come here once that is killed. Gives
    /// whether any is new.
    fn kill_children(&mut self) -> bool {
        let children = sys::children(me()).unwrap_or_default();
        // The newest stand last: they are killed before they have started the next.
        for &child in children.iter().rev() {
            let _ = sys::kill(child, libc::SIGKILL);
        }
        // A group is of a session that began below this shim: nobody else is in it.
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

    /// Kills everything below the shim, parents before what they have started. Gives whether any is new.
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
        tree::each_descendant(&[me()], |found| {
            if let Found::Process(stat) = found
                && !stat.dead
            {
                kill(stat.id());
            }
            true
        });
        if !self.subreaper {
            // Orphans have gone to another parent.
            let members = self.members();
            for member in members {
                anything_new |= self.step.killed.insert(member);
                member.signal(libc::SIGKILL);
            }
        }
        anything_new
    }

    /// Everything of the tree that is alive.
    pub(super) fn members(&self) -> Vec<ProcessId> {
        let mut members = tree::descendants(&[me()]);
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

    /// What the tree consists of, without what stands around the agent; not much more than `enough` tasks of it.
    pub(super) fn survey(&self, enough: u64) -> Survey {
        let wardens = self.wardens.len();
        let mut survey = tree::survey(&[me()], enough.saturating_add(wardens as u64));
        if !self.subreaper {
            survey.alive = self.members();
            survey.processes = survey.processes.max(survey.alive.len());
        }
        survey.alive.retain(|process| !self.wardens.contains(process));
        survey.processes = survey.processes.saturating_sub(wardens);
        survey.tasks = survey.tasks.saturating_sub(wardens as u64);
        survey
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

fn me() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(0)
}

/// The group of a process, or of this one.
fn group_of(pid: Option<i32>) -> Option<i32> {
    let group = nix::unistd::getpgid(pid.map(nix::unistd::Pid::from_raw));
    group.ok().map(nix::unistd::Pid::as_raw)
}

fn interrupt(agent: ProcessId) {
    // Before its setsid the child has no group yet.
    if sys::kill(-agent.pid, libc::SIGINT).is_err() {
        let _ = sys::kill(agent.pid, libc::SIGINT);
    }
    // What is stopped cannot end.
    let _ = sys::kill(-agent.pid, libc::SIGCONT);
}
