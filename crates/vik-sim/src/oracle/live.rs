//! Checks live processes.

use vik_core::attempt::Start;
use vik_core::ids::{IssueId, StageName};
use vik_core::machine::Phase;
use vik_core::scheduler::Scheduler;
use vik_core::time::Now;

use super::{Held, Oracle, ensure};
use crate::disk::Disk;
use crate::host::{Host, Tree};

/// Checks that a start which waits for an answer is held, and ends with its time limit.
fn awaits_answers(scheduler: &Scheduler, now: Now) -> Held {
    for (issue, run) in scheduler.runs() {
        let Phase::Awaiting { until, .. } = &run.phase else {
            continue;
        };
        let wakeup = scheduler.next_wakeup(now);
        // The limit applies again when the person hands the issue back.
        let machine = scheduler.machine(issue);
        let is_taken_over = machine.is_some_and(|machine| machine.taken_over().is_some());
        ensure(
            is_taken_over || wakeup.is_some_and(|wait| wait <= now.mono.until(*until)),
            "the time limit of an approval is not slept through",
            || format!("issue {issue}: wakes in {wakeup:?}, but the limit is {until:?}"),
        )?;
        ensure(
            is_held(scheduler, issue, &run.stage, now),
            "no attempt starts until a person approves the current text",
            || {
                format!(
                    "issue {issue}, stage {} waits for an answer, but is not held",
                    run.stage
                )
            },
        )?;
    }
    Ok(())
}

/// Returns whether `explain` gives a hold for a stage, and no attempt.
pub(super) fn is_held(scheduler: &Scheduler, issue: &IssueId, stage: &StageName, now: Now) -> bool {
    let explained = scheduler.explain(issue, now).into_iter();
    let mut stages = explained.flat_map(|explanation| explanation.stages);
    stages.all(|one| one.stage != *stage || (one.hold.is_some() && one.attempt_id.is_none()))
}

impl Oracle {
    /// Checks what must hold at every instant.
    pub(crate) fn standing(&self, host: &Host, disk: &Disk, scheduler: Option<&Scheduler>, now: Now) -> Held {
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
        self.messages.standing(disk)?;
        scheduler.map_or(Ok(()), |scheduler| {
            awaits_answers(scheduler, now)?;
            super::questions::awaits_answers(scheduler, now)
        })
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

    /// Returns whether the last successful pull returned the issue, and no lookup found since then
    /// that the tracker does not have it.
    pub(crate) fn is_listed(&self, issue: usize) -> bool {
        self.pulled[issue].is_some() && !self.known[issue].missing
    }

    /// Checks the removal of files of an issue.
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
        ensure(
            !self.is_taken_over(issue),
            "nothing of an issue that a person has taken over is removed",
            || format!("issue {issue}"),
        )?;
        let active =
            self.books.active.values().any(|active| active.issue == issue) || self.is_handing_over(issue);
        ensure(
            !active,
            "1: no workspace is removed while an attempt uses it",
            || format!("issue {issue}"),
        )
    }
}
