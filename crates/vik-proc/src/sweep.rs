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
    let spared = spared();
    let begin = Instant::now();
    let mut known: HashSet<ProcessId> = HashSet::new();
    let mut terminated: HashSet<ProcessId> = HashSet::new();
    loop {
        // Nor may what is spared lead to its descendants, which are no part of this.
        known.extend(find().into_iter().filter(|process| !spared.contains(process)));
        let roots: Vec<i32> = known
            .iter()
            .filter(|process| process.is_alive())
            .map(|process| process.pid)
            .collect();
        known.extend(tree::descendants(&roots));
        // Looked at once more: a root may have died, and its pid been used again, while its children were read.
        known.retain(|process| !spared.contains(process) && process.is_alive());
        if known.is_empty() {
            return Vec::new();
        }
        let elapsed = begin.elapsed();
        if elapsed >= graces.term + graces.kill {
            let mut survivors: Vec<ProcessId> = known.into_iter().collect();
            survivors.sort_unstable();
            return survivors;
        }
        for process in &known {
            if elapsed >= graces.term {
                process.signal(libc::SIGKILL);
            } else if terminated.insert(*process) {
                process.signal(libc::SIGTERM);
                process.signal(libc::SIGCONT);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
