//! Ends the tree of a shim that died without an exit record.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use nix::libc;

use crate::census::Census;
use crate::cgroup::Cgroup;
use crate::identity::{ProcessId, boot_id};
use crate::spec::{ExitRecord, Proof, ShimSpec};
use crate::{reap, sweep, task_group, tree};

/// A shim died without an exit record, or was detached. Its tree was searched and ended;
/// [`proof`](Self::proof) is the evidence for that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shim {} ended without an exit record ({how})", shim.pid)]
pub struct ShimLost {
    pub shim: ProcessId,
    /// The agent, if one was started.
    pub agent: Option<ProcessId>,
    /// A description of how the shim ended.
    pub how: String,
    /// The processes that were found alive and killed.
    pub found: Vec<ProcessId>,
    /// Whether the shim was not lost but [left alone](crate::Handle::detach): it lives, and nothing
    /// was searched.
    pub detached: bool,
    proof: Proof,
}

impl ShimLost {
    /// Returns the evidence for the end of the tree.
    pub fn proof(&self) -> &Proof {
        &self.proof
    }

    /// Creates an error without any knowledge about the tree: the runtime has ended the task.
    pub(super) fn unknown(shim: ProcessId, agent: Option<ProcessId>) -> Self {
        let proof = Proof::Unproven {
            survivors: Vec::new(),
        };
        Self {
            shim,
            agent,
            how: "no longer watched".to_owned(),
            found: Vec::new(),
            detached: false,
            proof,
        }
    }

    pub(super) fn detached(shim: ProcessId, agent: Option<ProcessId>) -> Self {
        Self {
            how: "left to its orphan grace".to_owned(),
            detached: true,
            ..Self::unknown(shim, agent)
        }
    }
}

/// Reads the exit record that a shim wrote.
pub fn read_exit_record(path: &Path) -> io::Result<ExitRecord> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Finishes a shim of an earlier daemon without taking it over. It is for a shim that has ended, or
/// cannot be [adopted](crate::Supervisor::adopt); the latter is killed with its whole tree.
///
/// `boot_id` is the boot in which the shim was started. In another boot none of its processes can
/// live, and nothing is searched. The same fields of the spec are used as by `adopt`.
pub async fn recover(
    spec: &ShimSpec,
    shim: ProcessId,
    agent: Option<ProcessId>,
    boot_id: &str,
) -> Result<ExitRecord, ShimLost> {
    let lost = Lost {
        shim,
        agent,
        boot_id: boot_id.to_owned(),
        orphans_are_ours: false,
        how: "without a daemon".to_owned(),
    };
    clean_up(spec, lost).await
}

/// A shim that has ended, or must be ended.
#[derive(Clone)]
pub(super) struct Lost {
    pub(super) shim: ProcessId,
    pub(super) agent: Option<ProcessId>,
    pub(super) boot_id: String,
    /// Whether this process inherits the orphans of the shim.
    pub(super) orphans_are_ours: bool,
    pub(super) how: String,
}

/// Ends the tree that the shim left. If the shim wrote its record before it died, that record is
/// the result.
pub(super) async fn clean_up(spec: &ShimSpec, lost: Lost) -> Result<ExitRecord, ShimLost> {
    let census = spec.census.as_deref().and_then(Census::read);
    let census = census.filter(|census| census.shim.is_none_or(|shim| shim == lost.shim));
    let agent = lost.agent.or(census.as_ref().and_then(|census| census.agent));
    let written = spec
        .exit_record
        .as_deref()
        .and_then(|path| read_exit_record(path).ok());
    let belongs =
        |record: &ExitRecord| record.boot_id == lost.boot_id && (record.agent == agent || agent.is_none());
    // A living shim still has processes to end, whatever it has written.
    if let Some(record) = written.filter(|record| belongs(record) && !lost.shim.is_alive()) {
        if record.proof.is_proven() {
            remove_traces(spec);
        }
        return Ok(record);
    }
    let (found, proof) = if lost.boot_id == boot_id() {
        let owned = (spec.clone(), lost.clone());
        let ended = tokio::task::spawn_blocking(move || end_tree(&owned.0, &owned.1, agent, census)).await;
        let Ok(ended) = ended else {
            return Err(ShimLost::unknown(lost.shim, agent));
        };
        ended
    } else {
        (Vec::new(), Proof::Reboot)
    };
    if proof.is_proven() {
        remove_traces(spec);
    }
    Err(ShimLost {
        agent,
        found,
        proof,
        how: lost.how,
        ..ShimLost::unknown(lost.shim, agent)
    })
}

/// Removes the files that a shim that died could not remove itself.
fn remove_traces(spec: &ShimSpec) {
    for path in [&spec.census, &spec.control].into_iter().flatten() {
        let _ = fs::remove_file(path);
    }
}

/// Kills processes by census and mark until neither names a living one.
fn end_tree(
    spec: &ShimSpec,
    lost: &Lost,
    agent: Option<ProcessId>,
    census: Option<Census>,
) -> (Vec<ProcessId>, Proof) {
    let deadline = Instant::now() + spec.graces.kill;
    let census = census.filter(|census| census.boot_id == lost.boot_id);
    // A census that was written before the agent ran lists no process that identifies the tree.
    let had_census = census.as_ref().is_some_and(|census| census.agent.is_some());
    let inherits = lost.orphans_are_ours && reap::adopts();
    // The files can be manipulated; their content must never cause a signal to this process or its
    // ancestors.
    let spared = sweep::protected_processes();
    let cgroup = census
        .as_ref()
        .and_then(|census| Cgroup::at(census.cgroup.as_deref()?))
        .filter(|cgroup| !cgroup.members().iter().any(|member| spared.contains(member)));
    let mut known: HashSet<ProcessId> = census.into_iter().flat_map(|census| census.members).collect();
    known.extend(agent);
    known.insert(lost.shim);
    let mut found = HashSet::new();
    let mut quiet_rounds = 0;
    loop {
        if let Some(mark) = &spec.mark {
            known.extend(tree::marked(mark));
        }
        if inherits {
            known.extend(reap::orphans());
        }
        if let Some(cgroup) = &cgroup {
            known.extend(cgroup.members());
        }
        known.retain(|process| !spared.contains(process));
        let mut alive: HashSet<ProcessId> = known
            .iter()
            .copied()
            .filter(|process| process.is_alive())
            .collect();
        let roots: Vec<i32> = alive.iter().map(|process| process.pid).collect();
        alive.extend(tree::descendants(&roots));
        known.extend(&alive);
        found.extend(&alive);
        for process in &alive {
            process.signal(libc::SIGKILL);
        }
        if let Some(cgroup) = &cgroup {
            cgroup.kill();
        }
        let emptied = cgroup
            .as_ref()
            .is_none_or(|cgroup| !cgroup.is_populated().unwrap_or(false));
        // Without a free descriptor, no process is seen, not even this one.
        let sees_processes = ProcessId::current().is_alive();
        if alive.is_empty() && emptied && sees_processes {
            // One check may have missed a process that was just being created.
            quiet_rounds += 1;
            if quiet_rounds == 2 {
                reap::reap_orphans(&known);
                if let Some(cgroup) = &cgroup {
                    cgroup.remove();
                }
                task_group::remove_of(lost.shim);
                let proof = match (&spec.mark, had_census) {
                    // This process has inherited all orphans that the shim could not inherit any
                    // more.
                    _ if inherits => Proof::Subreaper,
                    _ if cgroup.is_some() => Proof::Cgroup,
                    (Some(_), _) if cfg!(target_os = "linux") => Proof::Mark,
                    (_, true) => Proof::Census,
                    _ => Proof::Unproven {
                        survivors: Vec::new(),
                    },
                };
                return (sorted(found), proof);
            }
        } else {
            quiet_rounds = 0;
            if Instant::now() >= deadline {
                return (
                    sorted(found),
                    Proof::Unproven {
                        survivors: sorted(alive),
                    },
                );
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn sorted(processes: HashSet<ProcessId>) -> Vec<ProcessId> {
    let mut processes: Vec<ProcessId> = processes.into_iter().collect();
    processes.sort_unstable();
    processes
}
