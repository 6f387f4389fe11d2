//! Finds the processes of a tree.

use std::collections::{HashMap, HashSet};

use crate::identity::ProcessId;
use crate::spec::Mark;
use crate::sys::{self, Stat};

/// The result of a search below some processes.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) alive: Vec<ProcessId>,
    /// The number of processes, including zombies.
    pub(crate) processes: usize,
    /// The number of their threads. Each takes one of the system's pids.
    pub(crate) tasks: u64,
}

/// Returns the living descendants of `roots`, without the roots, as far as the chain of parents
/// shows them.
pub(crate) fn descendants(roots: &[i32]) -> Vec<ProcessId> {
    let mut alive = Vec::new();
    each_descendant(roots, |found| {
        if let Found::Process(stat) = found
            && !stat.dead
        {
            alive.push(stat.id());
        }
        true
    });
    alive
}

/// Counts the descendants of `root` until there are more than `enough` tasks. The root starts
/// processes only on its first thread, as a shim does.
pub(crate) fn survey(root: i32, enough: u64) -> Survey {
    let mut survey = Survey::default();
    each_below(&[(root, true)], |found| {
        match found {
            // Each child has at least one thread. If their number alone exceeds the limit, the
            // children need not be read.
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

/// A step of a walk over a tree.
pub(crate) enum Found<'a> {
    /// The number of children of one process, which the walk visits next.
    Children(usize),
    /// One of these children.
    Process(&'a Stat),
}

/// Calls `visit` for the descendants of `roots`, a parent before its children, until it returns
/// `false`.
pub(crate) fn each_descendant(roots: &[i32], visit: impl FnMut(Found<'_>) -> bool) {
    let roots: Vec<(i32, bool)> = roots.iter().map(|root| (*root, false)).collect();
    each_below(&roots, visit);
}

/// Like [`each_descendant`]; each root comes with whether only its first thread has children.
fn each_below(roots: &[(i32, bool)], mut visit: impl FnMut(Found<'_>) -> bool) {
    // The kernel keeps these lists for all processes or for none.
    let children = |pid, on_first_thread| match on_first_thread {
        true => sys::children_of_thread(pid),
        false => sys::children(pid),
    };
    if walk(roots, children, &mut visit).is_none() {
        let table = parents_table();
        walk(
            roots,
            |pid, _| Some(table.get(&pid).cloned().unwrap_or_default()),
            &mut visit,
        );
    }
}

/// `children` gets a process, and whether only its first thread has children.
fn walk(
    roots: &[(i32, bool)],
    children: impl Fn(i32, bool) -> Option<Vec<i32>>,
    visit: &mut impl FnMut(Found<'_>) -> bool,
) -> Option<()> {
    let mut seen: HashSet<i32> = roots.iter().map(|(root, _)| *root).collect();
    let mut queue = roots.to_vec();
    while let Some((parent, on_first_thread)) = queue.pop() {
        let mut children = children(parent, on_first_thread)?;
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
                queue.push((pid, stat.threads == 1));
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

/// Returns the living processes that were started with the mark in their environment, except this
/// one.
pub(crate) fn marked(mark: &Mark) -> Vec<ProcessId> {
    let entry = format!("{}={}", mark.name, mark.value);
    living(|pid| sys::environment_holds(pid, entry.as_bytes()))
}

/// Returns the living processes that are selected by their pid, except this one.
pub(crate) fn living(is_selected: impl Fn(i32) -> bool) -> Vec<ProcessId> {
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    sys::all_pids()
        .into_iter()
        .filter(|&pid| pid != me && is_selected(pid))
        .filter_map(|pid| sys::stat(pid).filter(|stat| !stat.dead).map(|stat| stat.id()))
        .collect()
}

/// Returns the living processes in the group of this leader.
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
