//! Attempts on workers: where they start, what waits for a worker, and what follows a lost one.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use vik_core::machine::MOST_WORKERS_LOST_IN_A_ROW;
use vik_core::scheduler::NoWorker;
use vik_core::worker::{Presence, Revision, Worker, WorkerLabel, WorkerLoss, Workers};

use super::*;

const BOTH: [fn(usize) -> Item; 2] = [todo, later];

fn revision(version: &str) -> Revision {
    Revision {
        version: version.to_owned(),
        workflow_digest: "x".to_owned(),
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
        revision: revision("1"),
        presence: Presence::Available,
    }
}

/// Two stages: `train` takes issues in `todo` and needs a worker with the label `gpu`, `write` takes
/// those in `later`. `stages` are further keys of both.
fn train_and_write(slots: u32, more: &str, stages: &str) -> Scenario {
    let mut world = Scenario::new(&format!(
        "loop: {{ max_issue_concurrency: {slots} }}
issues: {{ pull: {{ command: list }}, {more} }}
agents: {{ a: {{ runtime: codex, model: m }} }}
issue:
  terminal_states: [done]
  stages:
    train: {{ when: {{ state: todo }}, agent: a, prompt: p, {stages} }}
    write: {{ when: {{ state: later }}, agent: a, prompt: p, {stages} }}
"
    ));
    world.needs("train", &["gpu"]);
    world
}

impl Scenario {
    fn announce(&mut self, workers: &[Worker]) -> &mut Self {
        let workers = Workers::new(revision("1"), workers.iter().cloned());
        self.send(Input::Workers(workers))
    }

    /// Lets a stage need a worker with these labels.
    fn needs(&mut self, stage: &str, needed: &[&str]) -> &mut Self {
        let mut workflow = (*self.world.policy).clone();
        let stages = &mut workflow.issue.stages;
        let found = stages.iter_mut().find(|one| one.name.as_str() == stage);
        found.unwrap().worker_labels = labels(needed);
        self.run(|world| {
            world.policy = Arc::new(workflow);
            world.oracle.reloads(&world.policy);
            world.send(Input::Reloaded(Arc::clone(&world.policy)))
        })
    }

    /// Ends the attempt that started last because its worker is lost.
    fn lose(&mut self, loss: WorkerLoss) -> &mut Self {
        let worker = self.starts.last().unwrap().worker.clone().unwrap();
        self.end(AttemptResult::lost_with(&worker, loss))
    }

    /// Returns the worker of each attempt that runs, with its issue.
    fn places(&self) -> Vec<String> {
        let running = self.running().into_iter();
        let mut places: Vec<_> = running
            .map(|start| match start.worker {
                Some(worker) => format!("{} on {worker}", start.issue.id),
                None => format!("{} here", start.issue.id),
            })
            .collect();
        places.sort();
        places
    }

    fn no_worker(&self, issue: usize) -> NoWorker {
        match self.hold(issue) {
            Some(Hold::NoWorker { reason }) => reason,
            hold => panic!("{hold:?}"),
        }
    }
}

#[test]
fn attempts_start_on_this_machine_without_a_list_and_on_workers_with_one() {
    let mut world = train_and_write(8, "", "");
    world.pull(&[todo(0)]);
    assert_eq!(world.places(), ["0 here"]);
    world.announce(&[]).pull(&[todo(0), later(1), later(2), todo(3)]);
    assert_eq!(world.places(), ["0 here"]);
    assert_eq!(world.no_worker(1), NoWorker::NoneReady);
    world.announce(&[worker("a", 1, &[]), worker("b", 2, &["gpu"])]);
    assert_eq!(world.places(), ["0 here", "1 on b", "2 on a", "3 on b"]);
}

#[test]
fn issue_that_waits_for_a_worker_takes_no_slot() {
    let mut world = train_and_write(1, "", "");
    world.announce(&[worker("a", 1, &[]), worker("b", 1, &["arm"])]);
    world.pull(&[todo(0), later(1)]);
    assert_eq!(world.places(), ["1 on a"], "the second one has the only slot");
    assert_eq!(world.hold(0), Some(Hold::Slot));
    world.succeed(1).pull(&[todo(0), Item::new(1, "elsewhere")]);
    let missing = NoWorker::MissingLabels {
        labels: labels(&["gpu"]),
    };
    assert_eq!(world.no_worker(0), missing);
    let (waiting, count) = world.scheduler().waiting(world.now(), 9);
    assert_eq!((count, waiting[0].hold.as_str()), (1, "no_worker"));
    assert_eq!(
        world.quiescence(),
        Quiescence::Idle,
        "nothing of Vik ends this wait"
    );
    // The first of those that wait starts first.
    world
        .pull(&[todo(0), todo(2)])
        .announce(&[worker("b", 1, &["arm", "gpu"])]);
    assert_eq!(world.places(), ["0 on b"]);
}

#[test]
fn full_workers_are_waited_for_in_the_order_of_the_queue() {
    let mut world = train_and_write(8, "", "");
    world.announce(&[worker("a", 1, &["gpu"])]);
    world.pull(&[todo(0), later(1), later(2)]);
    assert_eq!(world.places(), ["0 on a"]);
    assert_eq!(world.no_worker(1), NoWorker::AllFull);
    world.succeed(0);
    assert_eq!(world.places(), ["1 on a"], "a worker keeps no place");
    // A smaller capacity ends nothing.
    world.announce(&[worker("a", 2, &["gpu"])]);
    world.announce(&[worker("a", 1, &["gpu"])]);
    world.pull(&[done(0), later(1), later(2), later(3)]);
    assert_eq!(world.places(), ["1 on a", "2 on a"]);
    world.succeed(1);
    assert_eq!(world.no_worker(3), NoWorker::AllFull);
    assert_eq!(world.places(), ["2 on a"]);
}

#[test]
fn issue_returns_to_the_worker_of_its_workspace_while_that_fits() {
    let both = [later(0), later(1)];
    let failed = || ran(Outcome::Failed);
    let mut world = train_and_write(
        8,
        "",
        "retry: { max_attempts: 9, initial_backoff: 1s, max_backoff: 1s }",
    );
    let a = || worker("a", 1, &["gpu"]);
    let b = || worker("b", 3, &[]);
    world.announce(&[a()]).pull(&[later(0)]).end(failed());
    // Another issue took its place, and another worker is free.
    world.announce(&[a(), b()]).pull(&both);
    assert_eq!(world.places(), ["1 on b"]);
    world.wait(9).pull(&both);
    assert_eq!(world.places(), ["0 on a", "1 on b"]);
    world.crash().announce(&[a(), b()]).pull(&both);
    world.end(failed()).needs("write", &["gpu"]).pull(&both).wait(9);
    assert_eq!(world.places(), ["0 on a", "1 on b"]);
    world.end(failed()).pull(&[later(0), later(1), todo(2)]);
    assert_eq!(world.places(), ["1 on b", "2 on a"]);
    world.needs("write", &[]).wait(9);
    let full = NoWorker::WorkspaceFull {
        worker: "a".parse().unwrap(),
    };
    assert_eq!(world.no_worker(0), full);
    // What drains gets nothing new, and its attempts continue.
    let draining = || Worker {
        presence: Presence::Draining,
        ..a()
    };
    world.announce(&[draining(), b()]);
    assert_eq!(world.places(), ["0 on b", "1 on b", "2 on a"]);
    let larger = worker("a", 9, &["gpu"]);
    world.end(failed()).announce(&[larger, b()]).pull(&both).wait(9);
    assert_eq!(
        world.places(),
        ["0 on b", "1 on b", "2 on a"],
        "the workspace moved"
    );
}

#[test]
fn worker_with_another_version_or_workflow_gets_nothing() {
    let mut world = train_and_write(8, "", "");
    let other = Worker {
        revision: revision("2"),
        ..worker("a", 1, &[])
    };
    world.announce(std::slice::from_ref(&other)).pull(&[later(0)]);
    assert_eq!(world.no_worker(0), NoWorker::NoneReady);
    world.announce(&[other]);
    assert_eq!(world.decisions_of(&DecisionKind::WorkerMismatched), 1);
    world.announce(&[worker("a", 1, &[])]);
    assert_eq!(world.places(), ["0 on a"]);
    world.announce(&[]);
    assert_eq!(world.decisions_of(&DecisionKind::WorkerLost), 1);
    assert_eq!(world.decisions_of(&DecisionKind::WorkerReady), 1);
}

#[test]
fn lookup_before_a_start_keeps_the_place_on_the_worker() {
    let mut world = train_and_write(8, SHOW, "");
    world.announce(&[worker("a", 1, &[])]);
    world.pull(&[later(0), later(1)]);
    assert_eq!(world.hold(0), Some(Hold::LookupPending));
    assert_eq!(world.no_worker(1), NoWorker::AllFull);
    world.shown(Some(Some(later(0))));
    assert_eq!(world.places(), ["0 on a"]);
    // The attempt runs on a worker that fits when its lookup ends.
    let both = [worker("a", 1, &[]), worker("b", 1, &[])];
    assert!(world.announce(&both).looks_up());
    world.announce(&[worker("c", 1, &[])]);
    world.shown_of(1, Some(Some(later(1))));
    assert_eq!(world.places(), ["0 on a", "1 on c"]);
    world.announce(&both).pull(&[later(0), later(1), later(2)]);
    world.announce(&[]).shown_of(2, Some(Some(later(2))));
    assert_eq!(world.no_worker(2), NoWorker::NoneReady);
}

#[test]
fn stages_of_an_issue_run_side_by_side_only_on_one_worker() {
    let mut world = Scenario::new(
        "issues: { pull: { command: list } }
agents: { a: { runtime: codex, model: m } }
issue:
  stages:
    plan: { when: { state: todo }, agent: a, prompt: p, parallel: true }
    code: { when: { state: todo }, agent: a, prompt: p, parallel: true }
",
    );
    let a = |capacity| worker("a", capacity, &[]);
    world.announce(&[a(1), worker("b", 1, &[])]).pull(&[todo(0)]);
    let full = NoWorker::WorkspaceFull {
        worker: "a".parse().unwrap(),
    };
    assert_eq!(world.no_worker(0), full);
    world.announce(&[worker("b", 1, &[])]);
    let other = Hold::OtherStage { stage: "plan".into() };
    assert_eq!(world.hold_of(0, "code"), Some(other));
    world.announce(&[a(2), worker("b", 3, &[])]);
    assert_eq!(world.places(), ["0 on a", "0 on a"]);
}

#[test]
fn ten_attempts_in_a_row_that_lost_their_worker_park_the_stage() {
    let mut world = scenario("", "", "retry: { max_attempts: 1 }");
    let all = [worker("a", 1, &[]), worker("b", 1, &[])];
    world.announce(&all);
    for lost in 1..MOST_WORKERS_LOST_IN_A_ROW {
        world.pull(&[todo(0)]).wait(3_600);
        world.lose(WorkerLoss::Upgraded).pull(&[todo(0)]);
        assert_eq!(
            world.running().is_empty(),
            lost > 1,
            "only the first is retried at once"
        );
        if lost == 5 {
            world.crash().announce(&all);
        }
    }
    world.pull(&[todo(0)]).wait(3_600);
    world.lose(WorkerLoss::Drained).pull(&[todo(0)]);
    let Some(Hold::Parked { reason, detail, .. }) = world.hold(0) else {
        panic!("{:?}", world.hold(0))
    };
    assert_eq!(reason, ParkReason::Lost);
    assert_eq!(
        detail,
        "10 attempts in a row lost their worker; last attempt lost: the worker `a` was drained"
    );
    let machine = world.scheduler().machine(&id(0)).unwrap();
    assert_eq!((machine.life().attempts, machine.runs()[0].attempts), (0, 0));
    // What frees the stage starts a new count, and so does an attempt that counts.
    world.retry(None, None).pull(&[todo(0)]);
    assert_eq!(world.lose(WorkerLoss::Lost).pull(&[todo(0)]).places(), ["0 on a"]);
    world.end(ran(Outcome::Failed)).pull(&[todo(0)]);
    assert_eq!(world.parked(), Some(ParkReason::AttemptsUsedUp));
}

/// Each attempt moves the issue, so that each loss is in another run.
#[test]
fn lost_workers_in_different_runs_park_the_stage() {
    let mut world = train_and_write(8, "", "");
    world.announce(&[worker("a", 1, &["gpu"])]);
    for lost in 0..MOST_WORKERS_LOST_IN_A_ROW as usize {
        world.pull(&[BOTH[lost % 2](0)]).lose(WorkerLoss::Lost);
    }
    world.pull(&[todo(0)]);
    let Some(Hold::Parked { reason, detail, .. }) = world.hold(0) else {
        panic!("{:?}", world.hold(0))
    };
    assert_eq!(reason, ParkReason::Lost);
    assert_eq!(detail, "10 attempts in a row lost their worker");
}

#[test]
fn other_lost_attempts_have_their_own_limit() {
    let mut world = scenario("", "", "");
    world.announce(&[worker("a", 1, &[])]);
    for _ in 0..4 {
        world.pull(&[todo(0)]).wait(3_600).end(ran(Outcome::Lost));
        world.pull(&[todo(0)]).wait(3_600).lose(WorkerLoss::Lost);
    }
    world.pull(&[todo(0)]).wait(3_600);
    assert_eq!(world.parked(), None);
    world.end(ran(Outcome::Lost)).pull(&[todo(0)]);
    assert_eq!(world.parked(), Some(ParkReason::Lost));
}
