//! Finds the processes of this host that belong to Vik, and the shims that own them.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::census::Census;
use crate::cgroup::Cgroup;
use crate::identity::{ProcessId, ancestors, boot_id};
use crate::spec::Mark;
use crate::sys;

/// A process that carries a mark or is listed in a census.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited {
    pub process: ProcessId,
    /// The name that the system reports. The process can choose it.
    pub command: String,
    /// The marks that the process carries.
    pub marks: Vec<Mark>,
    /// The census that lists the process, or whose cgroup contains it.
    pub census: Option<PathBuf>,
    /// The living shim that owns the process: an ancestor, or the process itself. `None` means that
    /// no shim ends the process.
    pub shim: Option<ProcessId>,
}

/// Finds every living process, except this one, that carries one of these variables or is listed in
/// one of these censuses. Processes that this user cannot inspect are not found: without privileges
/// these are the processes of other users.
pub fn audit(names: &[&str], censuses: &[PathBuf]) -> Vec<Audited> {
    let me = ProcessId::current();
    let listed = Listed::read(censuses);
    let mut found: Vec<Audited> = sys::all_pids()
        .into_iter()
        .filter_map(sys::stat)
        .filter(|stat| !stat.dead && stat.id() != me)
        .filter_map(|stat| listed.inspect(stat.id(), names))
        .collect();
    found.sort_unstable_by_key(|audited| audited.process);
    found
}

/// The content of the censuses of this boot.
#[derive(Default)]
struct Listed {
    census: HashMap<ProcessId, PathBuf>,
    shims: Vec<ProcessId>,
}

impl Listed {
    fn read(censuses: &[PathBuf]) -> Self {
        let boot_id = boot_id();
        let mut listed = Self::default();
        for path in censuses {
            let Some(census) = Census::read(path).filter(|census| census.boot_id == boot_id) else {
                continue;
            };
            let cgroup = census.cgroup.as_deref().and_then(Cgroup::at);
            let all = census.members.into_iter().chain(census.agent).chain(census.shim);
            for process in all.chain(cgroup.iter().flat_map(Cgroup::members)) {
                listed.census.insert(process, path.clone());
            }
            listed.shims.extend(census.shim);
        }
        listed
    }

    fn inspect(&self, process: ProcessId, names: &[&str]) -> Option<Audited> {
        let mark = |name: &&str| sys::mark_value(process.pid, name).map(|value| Mark::new(*name, value));
        let marks: Vec<Mark> = names.iter().filter_map(mark).collect();
        let census = self.census.get(&process).cloned();
        if marks.is_empty() && census.is_none() {
            return None;
        }
        let is_shim = |one: &ProcessId| self.shims.contains(one) || sys::name(one.pid) == sys::SHIM_NAME;
        let shim = std::iter::once(process)
            .chain(ancestors(process.pid))
            .find(is_shim);
        Some(Audited {
            process,
            command: sys::name(process.pid),
            marks,
            census,
            shim,
        })
    }
}
