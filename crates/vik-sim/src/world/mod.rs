//! A world around one scheduler: all events in random order, one at each step.

mod attempt;
mod daemon;
mod messages;
mod outside;
mod quiet;
#[cfg(test)]
mod scenario;
mod turns;
mod workers;

use std::sync::Arc;

use vik_core::attempt::AttemptResult;
use vik_core::ids::{AttemptId, IssueId};
use vik_core::scheduler::Filter;
use vik_core::workflow::Workflow;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::fault::Fault;
use crate::host::{Host, Temper};
use crate::oracle::{Broken, Oracle, ensure};
use crate::policy;
use crate::rng::Rng;
use crate::trace::Trace;
use crate::tracker::Tracker;

use daemon::Daemon;
use workers::Pool;

pub(crate) type Held = Result<(), Broken>;

pub struct World {
    rng: Rng,
    clock: Clock,
    tracker: Tracker,
    host: Host,
    disk: Disk,
    /// The present workflow file.
    policy: Arc<Workflow>,
    filter: Filter,
    daemon: Option<Daemon>,
    busy: bool,
    /// The results that were reported, for repetition.
    reports: Vec<(IssueId, AttemptId, AttemptResult)>,
    oracle: Oracle,
    trace: Trace,
    plan: Plan,
    fault: Option<Fault>,
    /// The workers; `None` in a world with one machine.
    pool: Option<Pool>,
}

/// The parameters of a seed's world. Seeds that omit events find what a mix of all would hide.
#[derive(Default)]
struct Plan {
    weights: [u32; ACTIONS.len()],
    lies: u64,
    pulls_fail: u64,
    temper: Temper,
}

type Action = fn(&mut World) -> Result<bool, Broken>;

/// The possible events with their weights. An action returns false if it has nothing to do.
const ACTIONS: &[(u32, Action)] = &[
    (16, World::commit),
    (24, World::act),
    (26, World::attempt_steps),
    (8, World::hand_over_ends),
    (20, World::agent_works),
    (8, World::report_spend),
    (6, World::start_pull),
    (8, World::pull_ends),
    (7, World::time_passes),
    (5, World::tick),
    (8, World::answer_lookup),
    (6, World::removal_is_answered),
    (6, World::issue_changes),
    (2, World::old_data_is_found),
    (2, World::person_asks),
    (1, World::workflow_is_edited),
    (1, World::load_changes),
    (1, World::clock_jumps),
    (1, World::tree_is_killed),
    (2, World::old_report_comes_again),
    (3, World::agent_reads),
    (3, World::taken_messages_are_reported),
    (1, World::daemon_dies),
];

/// The number of leading [`ACTIONS`] that every seed needs.
const NEEDED: usize = 12;

/// The index of the last of [`ACTIONS`].
const DEATHS: usize = ACTIONS.len() - 1;

impl World {
    /// Creates the world of a seed, which keeps this many last events.
    pub fn new(seed: u64, fault: Option<Fault>, kept: usize) -> Self {
        let mut rng = Rng::new(seed);
        let mut weights = [0; ACTIONS.len()];
        for (at, (weight, _)) in ACTIONS.iter().enumerate() {
            // A daemon that dies all the time makes no progress.
            let unit = if at == DEATHS { 2 } else { 4 };
            weights[at] = weight
                * unit
                * match rng.below(if at < NEEDED { 3 } else { 4 }) {
                    0 => 1,
                    1 => 2,
                    2 => 4,
                    _ => 0,
                };
        }
        let plan = Plan {
            weights,
            lies: rng.pick(&[0, 5, 30]),
            pulls_fail: rng.pick(&[0, 10, 40]),
            temper: Temper {
                moves: rng.pick(&[0, 30, 80]),
                succeeds: rng.pick(&[20, 60, 95]),
                reports_spend: rng.pick(&[0, 60, 100]),
                cost: rng.pick(&[5, 40, 200]),
            },
        };
        let issues = rng.between(2, 7) as usize;
        let tracker = Tracker::new(issues, &mut rng);
        let mut policy = policy::first(&mut rng);
        let mut pool = Pool::of_seed(seed);
        if let Some(pool) = &mut pool {
            policy = pool.with_demands(&policy);
        }
        let mut filter = Filter::default();
        if rng.percent(10) {
            filter.issues = (0..issues - 1).map(|issue| tracker.id(issue).clone()).collect();
        }
        if rng.percent(10) {
            filter.stages = vec!["plan".into(), "review".into()];
        }
        Self {
            filter,
            plan,
            fault,
            trace: Trace::new(kept),
            pool,
            ..Self::around(policy, tracker, rng)
        }
    }

    /// Creates a world in which nothing happens by itself.
    fn around(policy: Arc<Workflow>, tracker: Tracker, rng: Rng) -> Self {
        Self {
            oracle: Oracle::new(tracker.len(), Arc::clone(&policy)),
            rng,
            clock: Clock::default(),
            tracker,
            host: Host::default(),
            disk: Disk::default(),
            policy,
            filter: Filter::default(),
            daemon: None,
            busy: false,
            reports: Vec::new(),
            trace: Trace::new(0),
            plan: Plan::default(),
            fault: None,
            pool: None,
        }
    }

    /// Creates a world for scripted events.
    #[cfg(test)]
    fn scripted(policy: Arc<Workflow>, issues: usize) -> Self {
        let mut rng = Rng::new(1);
        let tracker = Tracker::new(issues, &mut rng);
        Self::around(policy, tracker, rng)
    }

    /// Performs one event, then checks all invariants.
    ///
    /// # Errors
    /// Returns the broken invariant.
    pub fn step(&mut self) -> Held {
        self.trace.step();
        self.workers_change()?;
        if self.daemon.is_none() {
            // Processes live on without a daemon for a while.
            if self.rng.percent(60) {
                self.agent_works()?;
                self.time_passes()?;
            } else {
                self.boot()?;
            }
        } else {
            let mut done = self.is_drained();
            if done {
                self.dies()?;
            }
            for _ in 0..12 {
                if done {
                    break;
                }
                let action = self.rng.weighted(&self.plan.weights);
                done = ACTIONS[action].1(self)?;
            }
            if !done {
                self.time_passes()?;
            }
        }
        self.check()
    }

    /// Checks the invariants of every instant.
    fn check(&mut self) -> Held {
        if let Some(daemon) = &self.daemon {
            for (attempt_id, tree) in self.host.trees.iter().filter(|(_, tree)| !tree.given_up) {
                // A fault that frees a claim is found by its consequences.
                let known =
                    daemon.tasks.contains_key(attempt_id) || !self.disk.claims.contains_key(attempt_id);
                ensure(
                    known,
                    "4: after a restart each running agent is known exactly once",
                    || format!("no task follows {attempt_id} of issue {}", tree.issue),
                )?;
            }
        }
        let scheduler = self.daemon.as_ref().map(Daemon::scheduler);
        let now = self.reported_now();
        self.oracle.standing(&self.host, &self.disk, scheduler, now)
    }

    /// Returns the recorded events.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the explanation of each issue, and the workflow, as JSON.
    pub fn state(&self) -> Vec<String> {
        let now = self.clock.now();
        let observed = (0..self.tracker.len()).filter_map(|issue| {
            let scheduler = self.daemon.as_ref()?.scheduler();
            serde_json::to_string(&scheduler.explain(self.tracker.id(issue), now)?).ok()
        });
        let mut state: Vec<String> = observed.collect();
        state.extend(serde_json::to_string(&*self.policy).ok());
        state
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}
