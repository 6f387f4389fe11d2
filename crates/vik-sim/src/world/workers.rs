//! Workers that appear, vanish, drain, return and change, and the attempts that they lose.
//!
//! They have a generator of their own, so that a world without workers is the same whatever this
//! module does.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use vik_core::ids::AttemptId;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::Input;
use vik_core::worker::{Presence, Revision, Worker, WorkerLabel, WorkerLoss, WorkerName, Workers};
use vik_core::workflow::Workflow;

use super::{Held, World};
use crate::fault::Fault;
use crate::host::{Step, ran};
use crate::rng::Rng;
use crate::trace::Event;

/// The labels that workers may have.
const LABELS: [&str; 2] = ["gpu", "arm"];

/// The digests of workflow files.
const DIGESTS: [&str; 2] = ["x", "y"];

/// The workers of a world.
pub(super) struct Pool {
    rng: Rng,
    hub: Revision,
    members: Vec<Member>,
    /// The member of each attempt, and the number of its losses when the attempt was started.
    attempts: BTreeMap<AttemptId, (usize, u32)>,
    /// The percentage of steps in which a worker changes.
    unrest: u64,
    /// The percentage of changes that lose attempts.
    loses: u64,
}

struct Member {
    worker: Worker,
    /// Whether the list of workers contains it.
    is_listed: bool,
    /// How often all of its attempts were lost.
    losses: u32,
    /// Why they were lost the last time.
    loss: WorkerLoss,
}

impl Member {
    fn is_up(&self) -> bool {
        self.worker.presence != Presence::Lost
    }

    fn loses_attempts(&mut self, loss: WorkerLoss) {
        self.losses += 1;
        self.loss = loss;
    }
}

/// Returns a name for the worker with this number.
fn name(number: usize) -> WorkerName {
    valid(&format!("w{number}"))
}

fn valid<T: std::str::FromStr>(text: &str) -> T {
    match text.parse() {
        Ok(name) => name,
        Err(_) => unreachable!("the names of the worlds are valid"),
    }
}

fn revision(digest: &str) -> Revision {
    Revision {
        version: "1".to_owned(),
        workflow_digest: digest.to_owned(),
    }
}

impl Pool {
    /// Returns the workers of a seed; `None` if its world has no list of them.
    pub(super) fn of_seed(seed: u64) -> Option<Self> {
        let mut rng = Rng::new(!seed);
        if rng.percent(70) {
            return None;
        }
        let count = rng.pick(&[0, 1, 1, 2, 2, 3, 3, 4, 5]);
        let mut pool = Self {
            hub: revision(DIGESTS[0]),
            members: Vec::new(),
            attempts: BTreeMap::new(),
            unrest: rng.pick(&[1, 4, 15]),
            loses: rng.pick(&[10, 50, 90]),
            rng,
        };
        for number in 0..count {
            let worker = Worker {
                name: name(number),
                labels: Default::default(),
                capacity: NonZeroU32::MIN,
                revision: pool.hub.clone(),
                presence: Presence::Available,
            };
            pool.members.push(Member {
                worker,
                is_listed: pool.rng.percent(80),
                losses: 0,
                loss: WorkerLoss::Lost,
            });
            pool.reconfigure(number);
        }
        Some(pool)
    }

    /// Gives a member other labels and another capacity.
    fn reconfigure(&mut self, number: usize) {
        let labels = LABELS.iter().filter(|_| self.rng.percent(60));
        let labels = labels.map(|label| valid::<WorkerLabel>(label)).collect();
        let capacity = self.rng.between(1, 3) as u32;
        let worker = &mut self.members[number].worker;
        worker.labels = labels;
        worker.capacity = NonZeroU32::new(capacity).unwrap_or(NonZeroU32::MIN);
    }

    /// Returns the workflow in which stages and profiles demand other labels.
    pub(super) fn with_demands(&mut self, workflow: &Workflow) -> Arc<Workflow> {
        let mut workflow = workflow.clone();
        let rng = &mut self.rng;
        let mut demands = |percent| {
            let labels = LABELS.iter().filter(|_| rng.percent(percent));
            labels.map(|label| valid(label)).collect()
        };
        for stage in &mut workflow.issue.stages {
            stage.worker_labels = demands(15);
        }
        for profile in workflow.agents.values_mut() {
            profile.worker_labels = demands(10);
        }
        Arc::new(workflow)
    }

    fn list(&self) -> Workers {
        let listed = self.members.iter().filter(|member| member.is_listed);
        Workers::new(self.hub.clone(), listed.map(|member| member.worker.clone()))
    }

    /// Records which worker carries out an attempt. A recovered one has its worker already.
    pub(super) fn takes(&mut self, attempt_id: AttemptId, worker: &WorkerName) {
        let number = self
            .members
            .iter()
            .position(|member| member.worker.name == *worker);
        if let Some(number) = number {
            let losses = self.members[number].losses;
            self.attempts.entry(attempt_id).or_insert((number, losses));
        }
    }

    /// Returns why the worker of an attempt has lost it, if it has.
    pub(super) fn loss_of(&self, attempt_id: AttemptId) -> Option<WorkerLoss> {
        let (number, losses) = self.attempts.get(&attempt_id)?;
        let member = &self.members[*number];
        let is_lost = !member.is_up() || member.losses > *losses;
        is_lost.then_some(member.loss)
    }

    /// Changes a random member or the hub, and returns the event.
    fn change(&mut self) -> Option<Event> {
        if self.members.is_empty() {
            return None;
        }
        let number = self.rng.below(self.members.len());
        let loses = self.rng.percent(self.loses);
        let matches = self.rng.percent(85);
        let digest = if matches {
            self.hub.workflow_digest.clone()
        } else {
            self.rng.pick(&DIGESTS).to_owned()
        };
        let member = &mut self.members[number];
        let how = match self.rng.weighted(&[6, 4, 3, 3, 3, 1]) {
            0 => {
                member.worker.presence = Presence::Available;
                member.worker.revision = revision(&digest);
                member.is_listed = true;
                "announces itself"
            }
            1 if loses => {
                member.worker.presence = Presence::Lost;
                member.is_listed = self.rng.percent(50);
                member.loses_attempts(WorkerLoss::Lost);
                "is lost"
            }
            2 if member.is_up() => {
                member.worker.presence = Presence::Draining;
                if loses {
                    member.loses_attempts(WorkerLoss::Drained);
                }
                "drains"
            }
            3 if loses && member.is_up() => {
                member.worker.revision = revision(&digest);
                member.loses_attempts(WorkerLoss::Upgraded);
                "is upgraded"
            }
            4 => {
                self.reconfigure(number);
                "is reconfigured"
            }
            5 => {
                self.hub = revision(self.rng.pick(&DIGESTS));
                "may not match the hub"
            }
            _ => return None,
        };
        Some(Event::WorkerChanges { worker: number, how })
    }

    /// Ends all changes. Most pools become as the hub wants them.
    fn quiet(&mut self) {
        self.unrest = 0;
        if self.rng.percent(70) {
            for member in &mut self.members {
                member.worker.presence = Presence::Available;
                member.worker.revision = self.hub.clone();
                member.is_listed = true;
            }
        }
    }
}

impl World {
    /// Lets workers change, and announces the list of them to the hub.
    pub(super) fn workers_change(&mut self) -> Held {
        let Some(pool) = &mut self.pool else {
            return Ok(());
        };
        if pool.rng.percent(pool.unrest)
            && let Some(event) = pool.change()
        {
            self.trace.note(event);
            // A process tree on a worker ends before the attempt counts as lost.
            let is_kept = |attempt_id: &AttemptId| pool.loss_of(*attempt_id).is_none();
            self.host.trees.retain(|attempt_id, _| is_kept(attempt_id));
        }
        match pool.rng.percent(pool.unrest.min(10)) {
            true => self.announce_workers(),
            false => Ok(()),
        }
    }

    /// Sends the present list of workers to the hub.
    pub(super) fn announce_workers(&mut self) -> Held {
        let Some(pool) = self.pool.as_ref().filter(|_| self.daemon.is_some()) else {
            return Ok(());
        };
        let workers = pool.list();
        self.trace.note(Event::Announced {
            ready: workers.ready().count(),
            listed: workers.iter().count(),
        });
        self.send(Input::Workers(workers))
    }

    /// Ends all changes of workers, and announces the last list.
    pub(super) fn workers_become_quiet(&mut self) -> Held {
        if let Some(pool) = &mut self.pool {
            pool.quiet();
        }
        self.announce_workers()
    }

    /// Writes the end of an attempt whose worker has lost it. Returns false if it has not.
    pub(super) fn loses_worker(&mut self, attempt_id: AttemptId, worker: Option<&WorkerName>) -> bool {
        let loss = self.pool.as_ref().and_then(|pool| pool.loss_of(attempt_id));
        let (Some(loss), Some(worker)) = (loss, worker) else {
            return false;
        };
        let files = self.host.files.get_mut(&attempt_id);
        let Some(files) = files.filter(|files| files.step < Step::Over) else {
            return false;
        };
        self.host.trees.remove(&attempt_id);
        let mut report = ran(Outcome::Lost, files.reported);
        report.ran = files.step >= Step::Spawned;
        report.worker_loss = Some(loss);
        report.reason = Some(loss.reason(worker));
        report.turn = files.turn;
        self.oracle.knows_end(attempt_id, &report);
        if self.fault == Some(Fault::WorkerLossCharged) {
            report.outcome = Outcome::Failed;
            report.failure_class = Some(FailureClass::Agent);
        }
        files.report = Some(report);
        files.step = Step::Over;
        true
    }
}

/// Returns the input that the scheduler receives instead, with a planted fault. `is_known` is
/// whether it has a list of workers.
pub(super) fn spoilt(input: Input, fault: Option<Fault>, is_known: bool) -> Input {
    let Input::Workers(workers) = &input else {
        return input;
    };
    let changed = |change: &dyn Fn(&mut Worker)| {
        let changed = workers.iter().map(|(worker, _)| {
            let mut worker = worker.clone();
            change(&mut worker);
            worker
        });
        Input::Workers(Workers::new(workers.hub().clone(), changed))
    };
    match fault {
        Some(Fault::WorkersUnheard) if is_known => Input::Tick,
        Some(Fault::WorkersOverfull) => changed(&|worker| {
            worker.capacity = worker.capacity.saturating_add(1);
        }),
        Some(Fault::WorkerLabelsUnheard) => changed(&|worker| {
            worker.labels = LABELS.iter().map(|label| valid(label)).collect();
        }),
        _ => input,
    }
}
