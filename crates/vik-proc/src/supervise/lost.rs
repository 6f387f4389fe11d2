//! What the daemon does for a shim that died without a word: it ends the tree itself.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::libc;

use crate::census::read_census;
use crate::identity::{ProcessId, boot_id};
use crate::spec::{ExitRecord, Proof, ShimSpec};
use crate::{reap, tree};

/// A shim died without an exit record. Its tree was looked for and ended; [`proof`](Self::proof) says how sure that is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the shim {} ended without an exit record ({how})", shim.pid)]
pub struct ShimLost {
    /// The shim.
    pub shim: ProcessId,
    /// Its agent, if one was started.
    pub agent: Option<ProcessId>,
    /// How the shim ended, in words.
    pub how: String,
    /// What was found alive and killed.
    pub found: Vec<ProcessId>,
    pub(super) proof: Proof,
}

impl ShimLost {
    /// How the end of the tree is known.
    pub fn proof(&self) -> &Proof {
        &self.proof
    }

    /// Nothing is known, not even what was left: the runtime went away under the task.
    pub(super) fn unknown(shim: ProcessId, agent: Option<ProcessId>) -> Self {
        let proof = Proof::Unproven {
            survivors: Vec::new(),
        };
        Self {
            shim,
            agent,
            how: "no longer watched".to_owned(),
            found: Vec::new(),
            proof,
        }
    }
}

/// Reads the exit record that a shim wrote.
pub fn read_exit_record(path: &Path) -> io::Result<ExitRecord> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Ends what the shim left. It may have died just after it wrote its record: then that stands.
pub(super) async fn clean_up(
    spec: &ShimSpec,
    shim: ProcessId,
    agent: Option<ProcessId>,
    how: String,
) -> Result<ExitRecord, ShimLost> {
    let written = spec
        .exit_record
        .as_deref()
        .and_then(|path| read_exit_record(path).ok());
    if let Some(record) = written.filter(|record| record.agent == agent && record.boot_id == boot_id()) {
        return Ok(record);
    }
    let spec = spec.clone();
    let ended = tokio::task::spawn_blocking(move || end_tree(&spec, agent)).await;
    let Ok((found, proof)) = ended else {
        return Err(ShimLost::unknown(shim, agent));
    };
    Err(ShimLost {
        shim,
        agent,
        how,
        found,
        proof,
    })
}

/// Kills by census and mark until neither finds anything.
fn end_tree(spec: &ShimSpec, agent: Option<ProcessId>) -> (Vec<ProcessId>, Proof) {
    let deadline = Instant::now() + spec.graces.kill;
    let mut known: HashSet<ProcessId> = spec
        .census
        .as_deref()
        .map(read_census)
        .unwrap_or_default()
        .into_iter()
        .collect();
    let had_census = !known.is_empty();
    known.extend(agent);
    let mut found = HashSet::new();
    let mut quiet_rounds = 0;
    loop {
        if let Some(mark) = &spec.mark {
            known.extend(tree::marked(mark));
        }
        if reap::adopts() {
            known.extend(reap::orphans());
        }
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
        if alive.is_empty() {
            // One look may have missed a process that was just being made.
            quiet_rounds += 1;
            if quiet_rounds == 2 {
                reap::reap_orphans(&known);
                let proof = match (&spec.mark, had_census) {
                    // What the shim could not inherit any more has come to us.
                    _ if reap::adopts() => Proof::Subreaper,
                    (Some(_), _) if cfg!(target_os = "linux") => Proof::Mark,
                    (_, true) => Proof::Census,
                    _ => Proof::Unproven {
                        survivors: Vec::new(),
                    },
                };
                if proof.is_proven()
                    && let Some(census) = &spec.census
                {
                    let _ = fs::remove_file(census);
                }
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
