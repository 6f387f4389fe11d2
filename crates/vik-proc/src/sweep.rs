//! Finds and ends what carries a mark, when there is nobody else left to do it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::libc;

use crate::identity::{ProcessId, ancestors};
use crate::spec::{Graces, Mark};
use crate::tree;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Every live process that was started with `name=value` in its environment, but for this one, its ancestors, and the
/// pids in `except`. Only Linux can tell; elsewhere nothing is found.
pub fn sweep(name: &str, value: &str, except: &[i32]) -> Vec<ProcessId> {
    let spared = spared();
    tree::marked(&Mark::new(name, value))
        .into_iter()
        .filter(|process| !spared.contains(process) && !except.contains(&process.pid))
        .collect()
}

/// This process and its ancestors.
pub(crate) fn spared() -> HashSet<ProcessId> {
    let me = ProcessId::current();
    ancestors(me.pid).into_iter().chain([me]).collect()
}

/// Ends these processes and all their descendants: SIGTERM, [`Graces::term`], then SIGKILL until none is left or
/// [`Graces::kill`] has passed. Gives what still lives. Never touches this process or its ancestors.
pub async fn end_all(found: Vec<ProcessId>, graces: &Graces) -> Vec<ProcessId> {
    end_found(move || found.clone(), graces).await
}

/// [`sweep`] and [`end_all`] in one, looking again until nothing new appears. Gives what was found and what still lives.
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

/// The last two steps of the ladder for processes without a shim: SIGTERM, then SIGKILL, each for its grace.
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
            spared: spared(),
            known: HashSet::new(),
            terminated: HashSet::new(),
            graces,
            started: Instant::now(),
        }
    }

    /// Signals what was found and all below it. Gives what still lives once nothing does or time is up; else call it
    /// again soon.
    pub(crate) fn step(&mut self, found: Vec<ProcessId>) -> Option<Vec<ProcessId>> {
        // Nor may what is spared lead to its descendants, which are no part of this.
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
        // Looked at once more: a root may have died, and its pid been used again, while its children were read.
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
