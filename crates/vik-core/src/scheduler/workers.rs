//! Decides on which worker an attempt runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::dispatch::Slots;
use super::{DecisionSubject, Hold, NoWorker, Scheduler};
use crate::decision_kind::DecisionKind;
use crate::machine::{IssueMachine, Run};
use crate::time::Now;
use crate::worker::{Worker, WorkerLabel, WorkerName, WorkerState, Workers};
use crate::workflow::{Stage, Workflow};

/// The number of workers that a decision names.
const MAX_NAMED: usize = 5;

/// The number of attempts on each worker.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkerLoad(HashMap<WorkerName, u32>);

impl WorkerLoad {
    pub(super) fn take(&mut self, worker: Option<&WorkerName>) {
        if let Some(worker) = worker {
            *self.0.entry(worker.clone()).or_default() += 1;
        }
    }

    fn free(&self, worker: &Worker) -> u32 {
        let taken = self.0.get(&worker.name).copied().unwrap_or_default();
        worker.capacity.get().saturating_sub(taken)
    }
}

/// Returns the worker of an attempt that needs these labels: the one that has the workspace, if it
/// fits, else the one with the most free places.
fn choose<'w>(
    workers: &'w Workers,
    labels: BTreeSet<WorkerLabel>,
    workspace: Option<&WorkerName>,
    load: &WorkerLoad,
) -> Result<&'w WorkerName, NoWorker> {
    let mut ready = workers.ready().peekable();
    if ready.peek().is_none() {
        return Err(NoWorker::NoneReady);
    }
    let fitting: Vec<_> = ready.filter(|worker| worker.has_labels(&labels)).collect();
    if fitting.is_empty() {
        return Err(NoWorker::MissingLabels { labels });
    }
    if let Some(worker) = fitting.iter().find(|worker| Some(&worker.name) == workspace) {
        return match load.free(worker) {
            0 => Err(NoWorker::WorkspaceFull {
                worker: worker.name.clone(),
            }),
            _ => Ok(&worker.name),
        };
    }
    // Of equal ones the first by name.
    let freest = fitting
        .into_iter()
        .min_by_key(|worker| Reverse(load.free(worker)));
    freest
        .filter(|worker| load.free(worker) > 0)
        .map(|worker| &worker.name)
        .ok_or(NoWorker::AllFull)
}

/// Returns the labels that a worker of a stage needs.
fn demanded(workflow: &Workflow, stage: &Stage) -> BTreeSet<WorkerLabel> {
    let profile = workflow.agents.get(&stage.agent);
    let of_profile = profile.into_iter().flat_map(|profile| &profile.worker_labels);
    stage.worker_labels.iter().chain(of_profile).cloned().collect()
}

impl Scheduler {
    /// Returns the worker on which an attempt of a stage would run; `None` if attempts run on this
    /// machine.
    ///
    /// # Errors
    ///
    /// Returns the hold if no worker may run it now.
    pub(super) fn place(
        &self,
        machine: &IssueMachine,
        stage: &Stage,
        slots: &Slots,
    ) -> Result<Option<WorkerName>, Hold> {
        let Some(workers) = &self.workers else {
            return Ok(None);
        };
        let labels = demanded(&self.workflow, stage);
        let running = machine.runs().iter().find_map(Run::active);
        let workspace = running.map_or(machine.worker(), |start| start.worker.as_ref());
        let chosen = choose(workers, labels, workspace, &slots.workers);
        match (chosen, running) {
            // Another worker would not have what the running attempt does.
            (Ok(worker), Some(running)) if Some(worker) != workspace => Err(Hold::OtherStage {
                stage: running.stage.name.clone(),
            }),
            (Ok(worker), _) => Ok(Some(worker.clone())),
            (Err(reason), _) => Err(Hold::NoWorker { reason }),
        }
    }

    /// Returns whether all workers are full, so that nothing can start.
    pub(super) fn all_workers_full(&self, slots: &Slots) -> bool {
        let is_free = |worker: &Worker| slots.workers.free(worker) > 0;
        self.workers
            .as_ref()
            .is_some_and(|workers| !workers.ready().any(is_free))
    }

    pub(super) fn on_workers(&mut self, workers: Workers, now: Now) {
        let known = self.workers.take();
        let state_before = |name: &WorkerName| {
            let known = known.as_ref();
            known.map_or(WorkerState::Lost, |known| known.state(name))
        };
        let names: BTreeSet<_> = known
            .iter()
            .chain([&workers])
            .flat_map(Workers::iter)
            .map(|(worker, _)| &worker.name)
            .collect();
        let mut changed: BTreeMap<WorkerState, Vec<&WorkerName>> = BTreeMap::new();
        for name in names {
            let state = workers.state(name);
            if state != state_before(name) {
                changed.entry(state).or_default().push(name);
            }
        }
        let decisions = changed.iter().map(|(state, names)| announced(*state, names));
        let decisions: Vec<_> = decisions.collect();
        self.workers = Some(workers);
        for (kind, detail) in decisions {
            self.decide(now, kind, DecisionSubject::default(), detail);
        }
    }
}

/// Returns the decision about workers that are in a new state.
fn announced(state: WorkerState, names: &[&WorkerName]) -> (DecisionKind, String) {
    let (kind, one, many) = match state {
        WorkerState::Ready => (DecisionKind::WorkerReady, "is ready", "are ready"),
        WorkerState::Draining => (
            DecisionKind::WorkerDraining,
            "is draining: it gets nothing new, and its attempts continue",
            "are draining: they get nothing new, and their attempts continue",
        ),
        WorkerState::MismatchedVersion => (
            DecisionKind::WorkerMismatched,
            "gets nothing: its version is not that of the hub",
            "get nothing: their version is not that of the hub",
        ),
        WorkerState::MismatchedWorkflow => (
            DecisionKind::WorkerMismatched,
            "gets nothing: its workflow file is not that of the hub",
            "get nothing: their workflow file is not that of the hub",
        ),
        WorkerState::Lost => (DecisionKind::WorkerLost, "is lost", "are lost"),
    };
    let named: Vec<_> = names
        .iter()
        .take(MAX_NAMED)
        .map(|name| format!("`{name}`"))
        .collect();
    let named = named.join(", ");
    let detail = match names.len() {
        1 => format!("the worker {named} {one}"),
        count if count > MAX_NAMED => {
            format!("the workers {named} and {} more {many}", count - MAX_NAMED)
        }
        _ => format!("the workers {named} {many}"),
    };
    (kind, detail)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::worker::{Presence, Revision};

    fn revision(workflow: &str) -> Revision {
        Revision {
            version: "1".to_owned(),
            workflow_digest: workflow.to_owned(),
        }
    }

    fn labels(labels: &[&str]) -> BTreeSet<WorkerLabel> {
        labels.iter().map(|label| label.parse().unwrap()).collect()
    }

    fn worker(name: &str, capacity: u32, has: &[&str]) -> Worker {
        Worker {
            name: name.parse().unwrap(),
            labels: labels(has),
            capacity: NonZeroU32::new(capacity).unwrap(),
            revision: revision("x"),
            presence: Presence::Available,
        }
    }

    /// Chooses one of these workers; each name in `taken` is an attempt on it.
    fn chosen(
        workers: &[Worker],
        needs: &[&str],
        workspace: Option<&str>,
        taken: &[&str],
    ) -> Result<String, NoWorker> {
        let workers = Workers::new(revision("x"), workers.iter().cloned());
        let mut load = WorkerLoad::default();
        for name in taken {
            load.take(Some(&name.parse().unwrap()));
        }
        let workspace = workspace.map(|name| name.parse().unwrap());
        choose(&workers, labels(needs), workspace.as_ref(), &load).map(ToString::to_string)
    }

    #[test]
    fn choose_takes_the_fitting_worker_with_most_free_places() {
        let all = [
            worker("c", 2, &[]),
            worker("b", 2, &["gpu"]),
            worker("a", 1, &["gpu", "linux"]),
        ];
        let on = |needs, taken| chosen(&all, needs, None, taken);
        assert_eq!(on(&[], &[]), Ok("b".to_owned()), "the first of equal ones");
        assert_eq!(on(&[], &["b"]), Ok("c".to_owned()));
        assert_eq!(on(&[], &["b", "c"]), Ok("a".to_owned()), "one place each");
        assert_eq!(on(&["linux", "gpu"], &[]), Ok("a".to_owned()));
        assert_eq!(on(&["gpu"], &["b", "b", "a"]), Err(NoWorker::AllFull));
        let missing = NoWorker::MissingLabels {
            labels: labels(&["arm", "gpu"]),
        };
        assert_eq!(on(&["gpu", "arm"], &[]), Err(missing));
        assert_eq!(chosen(&[], &[], None, &[]), Err(NoWorker::NoneReady));
    }

    #[test]
    fn choose_prefers_the_worker_of_the_workspace_and_waits_for_it() {
        let all = [worker("a", 9, &[]), worker("b", 1, &["gpu"])];
        assert_eq!(chosen(&all, &[], Some("b"), &[]), Ok("b".to_owned()));
        let full = NoWorker::WorkspaceFull {
            worker: "b".parse().unwrap(),
        };
        assert_eq!(chosen(&all, &[], Some("b"), &["b"]), Err(full));
        assert_eq!(chosen(&all, &["gpu"], Some("a"), &[]), Ok("b".to_owned()));
        assert_eq!(chosen(&all, &[], Some("removed"), &[]), Ok("a".to_owned()));
        for presence in [Presence::Draining, Presence::Lost] {
            let mut all = all.clone();
            all[1].presence = presence;
            assert_eq!(chosen(&all, &[], Some("b"), &[]), Ok("a".to_owned()));
            assert_eq!(chosen(&all[1..], &[], Some("b"), &[]), Err(NoWorker::NoneReady));
        }
        let mut all = all;
        all[1].revision = revision("y");
        assert_eq!(chosen(&all, &[], Some("b"), &[]), Ok("a".to_owned()));
    }

    #[test]
    fn choose_takes_nothing_on_a_worker_that_has_more_than_its_capacity() {
        let all = [worker("a", 1, &[])];
        assert_eq!(chosen(&all, &[], None, &["a", "a"]), Err(NoWorker::AllFull));
    }

    #[test]
    fn announced_names_the_first_workers_and_counts_the_others() {
        let names: Vec<WorkerName> = (1..=7).map(|n| format!("w{n}").parse().unwrap()).collect();
        let names: Vec<_> = names.iter().collect();
        let detail = |count: usize| announced(WorkerState::Lost, &names[..count]).1;
        assert_eq!(detail(1), "the worker `w1` is lost");
        assert_eq!(detail(2), "the workers `w1`, `w2` are lost");
        assert_eq!(
            detail(7),
            "the workers `w1`, `w2`, `w3`, `w4`, `w5` and 2 more are lost"
        );
    }
}
