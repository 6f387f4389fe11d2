//! Checks live processes.

use vik_core::attempt::Start;
use vik_core::scheduler::Scheduler;

use super::{Broken, Oracle, ensure};
use crate::disk::Disk;
use crate::host::{Host, Tree};

type Held = Result<(), Broken>;

impl Oracle {
    /// Checks what must hold at every instant.
    pub(crate) fn standing(&self, host: &Host, disk: &Disk, scheduler: Option<&Scheduler>) -> Held {
        for (attempt_id, tree) in host.trees.iter().filter(|(_, tree)| !tree.given_up) {
            const CLAIM: &str = "1: a claim exists while its process tree is running";
            ensure(disk.claims.contains_key(attempt_id), CLAIM, || {
                format!("{attempt_id} is running, but the ledger has no claim")
            })?;
            if let Some(scheduler) = scheduler {
                let machine = scheduler.machine(&tree.start.issue.id);
                let claims = machine.is_some_and(|machine| machine.active(*attempt_id).is_some());
                ensure(claims, CLAIM, || {
                    format!("{attempt_id} is running, but the scheduler has no claim")
                })?;
            }
        }
        Ok(())
    }

    /// Checks the start of a shim.
    pub(crate) fn spawns(&self, issue: usize, start: &Start, host: &Host, disk: &Disk) -> Held {
        let attempt_id = start.attempt_id;
        ensure(
            disk.claims.contains_key(&attempt_id),
            "3: an attempt is recorded before it starts",
            || format!("{attempt_id} is spawned, but its claim is not durable"),
        )?;
        let same = |tree: &&Tree| tree.issue == issue && !tree.given_up;
        for tree in host.trees.values().filter(same) {
            let beside = tree.start.stage.name != start.stage.name
                && (tree.start.stage.parallel || start.stage.parallel);
            ensure(
                beside,
                "1: at most one running process tree per (issue, stage), and one stage at a time per workspace",
                || format!("{attempt_id} is spawned beside {}", tree.start.attempt_id),
            )?;
        }
        Ok(())
    }

    /// Checks the removal of a workspace.
    pub(crate) fn removes(&self, issue: usize, host: &Host) -> Held {
        let lives = host
            .trees
            .values()
            .find(|tree| tree.issue == issue && !tree.given_up);
        ensure(
            lives.is_none(),
            "1: no workspace is removed while an agent runs in it",
            || {
                format!(
                    "issue {issue}: {}",
                    lives.map_or_else(String::new, |tree| tree.start.attempt_id.to_string())
                )
            },
        )?;
        let active = self.books.active.values().any(|active| active.issue == issue);
        ensure(
            !active,
            "1: no workspace is removed while an attempt uses it",
            || format!("issue {issue}"),
        )
    }
}
