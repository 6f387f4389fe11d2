//! Checks on which workers attempts run, and why others wait for one.

use std::collections::BTreeSet;

use vik_core::attempt::Start;
use vik_core::ids::{IssueId, StageName};
use vik_core::machine::{ParkReason, RunEvent};
use vik_core::outcome::Outcome;
use vik_core::scheduler::NoWorker;
use vik_core::worker::{Presence, Worker, WorkerLabel, WorkerName, Workers};
use vik_core::workflow::Stage;

use super::{Held, Oracle, ensure, number};

/// The number of consecutive attempts lost because of their workers that parks a stage.
const MOST_LOST: u32 = 10;

const TEN_IN_A_ROW: &str = "ten attempts in a row that lost their worker park the stage, and no fewer do";

/// Returns the workers that may get attempts.
fn ready(workers: &Workers) -> impl Iterator<Item = &Worker> {
    let listed = workers.iter().map(|(worker, _)| worker);
    listed.filter(|worker| worker.presence == Presence::Available && worker.revision == *workers.hub())
}

impl Oracle {
    fn labels_of(&self, stage: &Stage) -> BTreeSet<WorkerLabel> {
        let profile = self.policy.agents.get(&stage.agent);
        let mut labels = stage.worker_labels.clone();
        labels.extend(
            profile
                .into_iter()
                .flat_map(|profile| profile.worker_labels.clone()),
        );
        labels
    }

    /// Returns the ready workers with these labels.
    fn fitting<'w>(workers: &'w Workers, labels: &BTreeSet<WorkerLabel>) -> Vec<&'w Worker> {
        let fits = |worker: &&Worker| labels.iter().all(|label| worker.labels.contains(label));
        ready(workers).filter(fits).collect()
    }

    fn attempts_on(&self, worker: &WorkerName) -> u32 {
        let active = self.books.active.values();
        active
            .filter(|active| active.worker.as_ref() == Some(worker))
            .count() as u32
    }

    /// Returns the worker of the running attempts of an issue, or else that of its workspace.
    fn home(&self, issue: usize) -> Option<&WorkerName> {
        let mut active = self.books.active.values();
        match active.find(|active| active.issue == issue) {
            Some(active) => active.worker.as_ref(),
            None => self.books.workers.get(&issue),
        }
    }

    /// Checks the worker of an attempt that starts, before the attempt is recorded.
    pub(super) fn is_placed(&mut self, issue: usize, start: &Start) -> Held {
        let about = || format!("issue {issue}, stage {}, on {:?}", start.stage.name, start.worker);
        let lost = self.books.workers_lost.get(&issue).copied().unwrap_or(0);
        ensure(lost < MOST_LOST, TEN_IN_A_ROW, || {
            format!("{} after {lost}", about())
        })?;
        let resumed = start.resume.as_ref();
        let earlier = resumed.and_then(|resume| self.facts.get(&resume.attempt_id));
        ensure(
            earlier.is_none_or(|earlier| earlier.start.worker == start.worker),
            "a conversation is resumed on its worker",
            about,
        )?;
        let (Some(workers), Some(name)) = (&self.workers, &start.worker) else {
            self.books.workers.remove(&issue);
            return ensure(
                self.workers.is_none() && start.worker.is_none(),
                "attempts run on workers if the list of workers is known, and else on this machine",
                about,
            );
        };
        let fitting = Self::fitting(workers, &self.labels_of(&start.stage));
        let worker = fitting.iter().find(|worker| worker.name == *name);
        ensure(
            worker.is_some(),
            "an attempt starts on a ready worker that has the labels",
            || format!("{}: {workers:?}", about()),
        )?;
        let on_it = self.attempts_on(name);
        ensure(
            worker.is_some_and(|worker| on_it < worker.capacity.get()),
            "a worker has at most as many attempts as its capacity when one starts",
            || format!("{}: it has {on_it}", about()),
        )?;
        let home = self.home(issue);
        let is_home_fit = fitting.iter().any(|worker| Some(&worker.name) == home);
        let has_active = self.books.active.values().any(|active| active.issue == issue);
        ensure(
            home == Some(name) || !(is_home_fit || has_active),
            "an attempt starts where the workspace of its issue is, if that worker fits",
            || format!("{}: the workspace is on {home:?}", about()),
        )?;
        self.books.workers.insert(issue, name.clone());
        Ok(())
    }

    /// Returns whether a stage of an issue waits for a worker for this reason.
    pub(super) fn waits_for_worker(&self, issue: usize, stage: &StageName, reason: &NoWorker) -> bool {
        let (Some(workers), Some(stage)) = (&self.workers, self.policy.stage(stage)) else {
            return false;
        };
        let labels = self.labels_of(stage);
        let fitting = Self::fitting(workers, &labels);
        // Some lookups keep a place for the start that follows.
        let lookups = self.lookups.len() as u32;
        let is_full = |worker: &&Worker| self.attempts_on(&worker.name) + lookups >= worker.capacity.get();
        let is_home = |worker: &&Worker| Some(&worker.name) == self.home(issue);
        match reason {
            NoWorker::NoneReady => ready(workers).next().is_none(),
            NoWorker::MissingLabels { labels: missing } => {
                ready(workers).next().is_some() && fitting.is_empty() && *missing == labels
            }
            NoWorker::AllFull => {
                !fitting.is_empty() && fitting.iter().all(is_full) && !fitting.iter().any(is_home)
            }
            NoWorker::WorkspaceFull { worker } => fitting
                .iter()
                .any(|one| one.name == *worker && is_home(one) && is_full(one)),
        }
    }

    /// Applies what a run event means for the attempts that lost their workers.
    pub(super) fn worker_event(&mut self, event: &RunEvent, issue: usize) -> Held {
        match event {
            RunEvent::Freed { .. } => drop(self.books.workers_lost.remove(&issue)),
            RunEvent::Parked {
                run,
                stage,
                reason: ParkReason::Lost,
            } => {
                let lost = self.books.workers_lost.remove(&issue).unwrap_or(0);
                let last = self.last_facts(*run).and_then(|facts| facts.report.as_ref());
                let by_others =
                    last.is_some_and(|last| last.outcome == Outcome::Lost && last.worker_loss.is_none());
                return ensure(by_others || lost >= MOST_LOST, TEN_IN_A_ROW, || {
                    format!("issue {issue}, stage {stage} is parked after {lost}")
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Handles the removal of a workspace. An issue that only the ledger has keeps its worker and its
    /// conversations.
    pub(super) fn workspace_removed(&mut self, issue: &IssueId, is_in_use: bool) {
        if is_in_use {
            self.books.workers.remove(&number(issue));
            self.books.conversations.retain(|(of, _), _| *of != number(issue));
        }
    }
}
