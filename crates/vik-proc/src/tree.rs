//! Which processes belong to a tree.

use std::collections::{HashMap, HashSet};

use crate::identity::ProcessId;
use crate::spec::Mark;
use crate::sys;

/// Everything alive below `roots` (not the roots themselves), as far as the chain of parents shows it.
pub(crate) fn descendants(roots: &[i32]) -> Vec<ProcessId> {
    walk(roots, sys::children).unwrap_or_else(|| {
        let table = parents_table();
        walk(roots, |pid| Some(table.get(&pid).cloned().unwrap_or_default())).unwrap_or_default()
    })
}

fn walk(roots: &[i32], children: impl Fn(i32) -> Option<Vec<i32>>) -> Option<Vec<ProcessId>> {
    let mut seen: HashSet<i32> = roots.iter().copied().collect();
    let mut queue = roots.to_vec();
    let mut found = Vec::new();
    while let Some(parent) = queue.pop() {
        for pid in children(parent)? {
            if !seen.insert(pid) {
                continue;
            }
            // A zombie has no children any more.
            if let Some(stat) = sys::stat(pid).filter(|stat| !stat.dead) {
                found.push(stat.id());
                queue.push(pid);
            }
        }
    }
    Some(found)
}

fn parents_table() -> HashMap<i32, Vec<i32>> {
    let mut table: HashMap<i32, Vec<i32>> = HashMap::new();
    for stat in sys::all_pids().into_iter().filter_map(sys::stat) {
        table.entry(stat.ppid).or_default().push(stat.pid);
    }
    table
}

/// Everything alive that was started with the mark in its environment, but for this process.
pub(crate) fn marked(mark: &Mark) -> Vec<ProcessId> {
    let entry = format!("{}={}", mark.name, mark.value);
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    sys::all_pids()
        .into_iter()
        .filter(|&pid| pid != me && sys::environment_holds(pid, entry.as_bytes()))
        .filter_map(|pid| sys::stat(pid).filter(|stat| !stat.dead).map(|stat| stat.id()))
        .collect()
}

/// Everything alive in the group of this leader.
pub(crate) fn group(leader: i32) -> Vec<ProcessId> {
    let in_group = |pid: i32| {
        nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(pid)))
            .is_ok_and(|group| group.as_raw() == leader)
    };
    sys::all_pids()
        .into_iter()
        .filter(|&pid| in_group(pid))
        .filter_map(ProcessId::of)
        .filter(|id| id.is_alive())
        .collect()
}
