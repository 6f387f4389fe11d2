//! Finds and ends processes that carry a mark, if their shim no longer does it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::libc;

use crate::identity::{ProcessId, ancestors};
use crate::spec::{Graces, Mark};
use crate::{sys, tree};

/// The time between two checks.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns every living process that was started with `name=value` in its environment, except this
/// process, its ancestors, and the pids in `except`. Only Linux supports this; other systems return
/// an empty list.
pub fn sweep(name: &str, value: &str, except: &[i32]) -> Vec<ProcessId> {
    let spared = protected_processes();
    tree::marked(&Mark::new(name, value))
        .into_iter()
        .filter(|process| !spared.contains(process) && !except.contains(&process.pid))
        .collect()
}

/// Returns every living process that was started with another value of this variable, except those that
/// [`sweep`] leaves out. Only Linux supports this; other systems return an empty list.
pub fn sweep_others(name: &str, value: &str) -> Vec<ProcessId> {
    let spared = protected_processes();
    let is_other = |pid| sys::mark_value(pid, name).is_some_and(|found| found != value);
    let mut others = tree::living(is_other);
    others.retain(|process| !spared.contains(process));
    others
}

/// Returns this process and its ancestors.
pub(crate) fn protected_processes() -> HashSet<ProcessId> {
    let me = ProcessId::current();
    ancestors(me.pid).into_iter().chain([me]).collect()
}

/// Ends these processes and all their descendants: SIGTERM, [`Graces::term`], then SIGKILL until
/// none is left or [`Graces::kill`] has passed. Returns the survivors. Never signals this process
/// or its ancestors.
pub async fn end_all(found: Vec<ProcessId>, graces: &Graces) -> Vec<ProcessId> {
    end_found(move || found.clone(), graces).await
}

/// Combines [`sweep`] and [`end_all`], and repeats the search until no new process appears. Returns
/// the processes that it found, and the survivors.
pub async fn end_marked(
    name: &str,
    value: &str,
    except: &[i32],
    graces: &Graces,
) -> (Vec<ProcessId>, Vec<ProcessId>) {
    let mut all: HashSet<ProcessId> = HashSet::new();
    let survivors = end_found(
        || {
            all.extend(sweep(name, value, except));
            all.iter().copied().collect()
        },
        graces,
    )
    .await;
    let mut all: Vec<ProcessId> = all.into_iter().collect();
    all.sort_unstable();
    (all, survivors)
}

async fn end_found(mut find: impl FnMut() -> Vec<ProcessId>, graces: &Graces) -> Vec<ProcessId> {
    let mut ending = Ending::start(*graces);
    loop {
        if let Some(survivors) = ending.step(find()) {
            return survivors;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The last two steps of the ladder for processes without a shim: SIGTERM, then SIGKILL, each for
/// its grace.
pub(crate) struct Ending {
    spared: HashSet<ProcessId>,
    known: HashSet<ProcessId>,
    terminated: HashSet<ProcessId>,
    graces: Graces,
    started: Instant,
}

impl Ending {
    pub(crate) fn start(graces: Graces) -> Self {
        Self {
            spared: protected_processes(),
            known: HashSet::new(),
            terminated: HashSet::new(),
            graces,
            started: Instant::now(),
        }
    }

    /// Signals the found processes and all their descendants. Returns the survivors once no process
    /// lives or the time is up. After `None` the caller repeats the call soon.
    pub(crate) fn step(&mut self, found: Vec<ProcessId>) -> Option<Vec<ProcessId>> {
        // The descendants of spared processes are not part of the tree, unless they were found
        // themselves.
        let spared = &self.spared;
        self.known
            .extend(found.into_iter().filter(|process| !spared.contains(process)));
        let roots: Vec<i32> = self
            .known
            .iter()
            .filter(|process| process.is_alive())
            .map(|process| process.pid)
            .collect();
        self.known.extend(tree::descendants(&roots));
        // The second check is necessary: a root may have died, and its pid been reused, while its
        // children were read.
        self.known
            .retain(|process| !spared.contains(process) && process.is_alive());
        if self.known.is_empty() {
            return Some(Vec::new());
        }
        let elapsed = self.started.elapsed();
        if elapsed >= self.graces.term + self.graces.kill {
            let mut survivors: Vec<ProcessId> = self.known.drain().collect();
            survivors.sort_unstable();
            return Some(survivors);
        }
        for process in &self.known {
            if elapsed >= self.graces.term {
                process.signal(libc::SIGKILL);
            } else if self.terminated.insert(*process) {
                process.signal(libc::SIGTERM);
                process.signal(libc::SIGCONT);
            }
        }
        None
    }
}
