//! Which processes belong to a tree.

use std::collections::{HashMap, HashSet};

use crate::identity::ProcessId;
use crate::spec::Mark;
use crate::sys::{self, Stat};

/// What there is below some processes.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Everything alive.
    pub(crate) alive: Vec<ProcessId>,
    /// How many processes there are, with those that have ended and nobody has waited for.
    pub(crate) processes: usize,
    /// How many threads they have together. Each takes one of the system's pids.
    pub(crate) tasks: u64,
}

/// Everything alive below `roots` (not the roots themselves), as far as the chain of parents shows it.
pub(crate) fn descendants(roots: &[i32]) -> Vec<ProcessId> {
    survey(roots, u64::MAX).alive
}

/// Counts what is below `roots` until there are more than `enough` tasks.
pub(crate) fn survey(roots: &[i32], enough: u64) -> Survey {
    let mut survey = Survey::default();
    each_descendant(roots, |found| {
        match found {
            // Each has a thread at least. A list that is too long by itself needs no look at everyone in it.
            Found::Children(count) => {
                let (processes, tasks) = (survey.processes + count, survey.tasks + count as u64);
                if tasks > enough {
                    (survey.processes, survey.tasks) = (processes, tasks);
                }
            }
            Found::Process(stat) => {
                survey.processes += 1;
                survey.tasks = survey.tasks.saturating_add(stat.threads.max(1));
                if !stat.dead {
                    survey.alive.push(stat.id());
                }
            }
        }
        survey.tasks <= enough
    });
    survey
}

/// What a walk over a tree comes to.
pub(crate) enum Found<'a> {
    /// So many children of one process, each of which it comes to next.
    Children(usize),
    /// One of them.
    Process(&'a Stat),
}

/// Shows what is below `roots` to `visit`, a parent before its children, until that returns `false`.
pub(crate) fn each_descendant(roots: &[i32], mut visit: impl FnMut(Found<'_>) -> bool) {
    // The kernel keeps lists of children, or none of any process.
    if walk(roots, sys::children, &mut visit).is_none() {
        let table = parents_table();
        walk(
            roots,
            |pid| Some(table.get(&pid).cloned().unwrap_or_default()),
            &mut visit,
        );
    }
}

fn walk(
    roots: &[i32],
    children: impl Fn(i32) -> Option<Vec<i32>>,
    visit: &mut impl FnMut(Found<'_>) -> bool,
) -> Option<()> {
    let mut seen: HashSet<i32> = roots.iter().copied().collect();
    let mut queue = roots.to_vec();
    while let Some(parent) = queue.pop() {
        let mut children = children(parent)?;
        children.retain(|pid| seen.insert(*pid));
        if !visit(Found::Children(children.len())) {
            return Some(());
        }
        for pid in children {
            let Some(stat) = sys::stat(pid) else { continue };
            if !visit(Found::Process(&stat)) {
                return Some(());
            }
            // A zombie has no children any more.
            if !stat.dead {
                queue.push(pid);
            }
        }
    }
    Some(())
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
