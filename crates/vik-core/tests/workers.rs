//! Attempts on workers: what is stored of them, and what they resume.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod common;

use std::num::NonZeroU32;

use common::{at, end, id, now, pull, pulled, ran, restored, scheduler, started};
use vik_core::attempt::{AttemptResult, Start};
use vik_core::changes::Changes;
use vik_core::outcome::Outcome;
use vik_core::scheduler::{Hold, Input, NoWorker, Scheduler};
use vik_core::time::Now;
use vik_core::worker::{Presence, Revision, Worker, WorkerLoss, Workers};

fn revision() -> Revision {
    Revision {
        version: "1".to_owned(),
        workflow_digest: "x".to_owned(),
    }
}

/// Announces these workers, each with one place.
fn announce(scheduler: &mut Scheduler, names: &[&str]) -> Option<Start> {
    let worker = |name: &&str| Worker {
        name: name.parse().unwrap(),
        labels: Default::default(),
        capacity: NonZeroU32::MIN,
        revision: revision(),
        presence: Presence::Available,
    };
    let workers = Workers::new(revision(), names.iter().map(worker));
    started(scheduler.handle(now(), Input::Workers(workers)))
}

fn text(changes: &Changes) -> String {
    serde_json::to_string(changes).unwrap()
}

fn on(start: &Start) -> Option<&str> {
    start.worker.as_ref().map(|worker| worker.as_str())
}

#[test]
fn changes_without_workers_contain_nothing_about_them() {
    let mut scheduler = scheduler("");
    let start = started(pull(&mut scheduler, "todo")).unwrap();
    end(&mut scheduler, &start, ran(Outcome::TimedOut));
    let text = text(&scheduler.take_changes());
    assert!(!text.contains("worker"), "{text}");
}

#[test]
fn worker_of_the_workspace_is_stored_and_used_by_the_next_daemon() {
    let mut first = scheduler("");
    assert!(announce(&mut first, &["a", "b"]).is_none());
    let start = started(pull(&mut first, "todo")).unwrap();
    assert_eq!(on(&start), Some("a"));
    let decisions = first.take_changes().decisions;
    let details: Vec<_> = decisions.iter().map(|decision| &*decision.detail).collect();
    assert_eq!(details[0], "the workers `a`, `b` are ready");
    assert!(details[1].ends_with(", on the worker `a`"), "{details:?}");

    let (mut next, starts) = restored("", first.machine(&id()).unwrap(), now());
    assert_eq!(starts, std::slice::from_ref(&start));
    announce(&mut next, &["0", "a"]);
    end(&mut next, &start, ran(Outcome::TimedOut));
    assert!(started(pull(&mut next, "todo")).is_none(), "it backs off");
    let later = at(3_600);
    let again = started(next.handle(later, Input::Tick)).unwrap();
    assert_eq!(on(&again), Some("a"));
    let decisions = next.take_changes().decisions;
    let detail = &decisions.last().unwrap().detail;
    assert!(
        detail.ends_with(", on the worker `a`, which has the workspace"),
        "{detail}"
    );
}

#[test]
fn conversation_is_resumed_only_on_its_worker() {
    for (next, resumes) in [("a", true), ("b", false)] {
        let mut scheduler = scheduler("");
        announce(&mut scheduler, &["a"]);
        let start = started(pull(&mut scheduler, "todo")).unwrap();
        announce(&mut scheduler, &[next]);
        end(&mut scheduler, &start, ran(Outcome::TimedOut));
        pull(&mut scheduler, "todo");
        let again = started(scheduler.handle(at(3_600), Input::Tick)).unwrap();
        assert_eq!((on(&again), again.resume.is_some()), (Some(next), resumes));
    }
}

#[test]
fn worker_is_forgotten_when_the_workspace_is_removed() {
    let mut scheduler = scheduler("");
    announce(&mut scheduler, &["a"]);
    let start = started(pull(&mut scheduler, "todo")).unwrap();
    end(&mut scheduler, &start, ran(Outcome::Succeeded));
    pull(&mut scheduler, "done");
    scheduler.take_changes();
    assert!(scheduler.machine(&id()).unwrap().worker().is_some());
    let removed = |removed| Input::WorkspaceRemoved { issue: id(), removed };
    scheduler.handle(now(), removed(true));
    assert_eq!(scheduler.machine(&id()).unwrap().worker(), None);
    let stored = &scheduler.take_changes().machines;
    assert_eq!((stored.len(), stored[0].worker()), (1, None));
}

#[test]
fn lost_worker_starts_the_next_attempt_elsewhere_and_uses_up_nothing() {
    let mut scheduler = scheduler("");
    announce(&mut scheduler, &["a"]);
    let start = started(pull(&mut scheduler, "todo")).unwrap();
    assert!(announce(&mut scheduler, &[]).is_none());
    let lost = AttemptResult::lost_with(start.worker.as_ref().unwrap(), WorkerLoss::Lost);
    end(&mut scheduler, &start, lost);
    pull(&mut scheduler, "todo");
    let explained = scheduler.explain(&id(), now()).unwrap();
    let hold = explained.stages[0].hold.clone();
    let reason = NoWorker::NoneReady;
    assert_eq!(hold, Some(Hold::NoWorker { reason }));
    let again = announce(&mut scheduler, &["b"]).unwrap();
    assert_eq!((on(&again), again.attempt), (Some("b"), 1));
    let previous = again.previous.unwrap();
    assert_eq!(
        previous.reason.as_deref(),
        Some("the worker `a` does not respond")
    );
    assert_eq!(scheduler.life(&id()).attempts, 0);
}

#[test]
fn fencing_number_grows_although_the_clock_is_behind() {
    let mut scheduler = scheduler("");
    scheduler.handle(at(100), Input::PullStarted);
    let first = started(scheduler.handle(at(100), pulled("todo"))).unwrap();
    assert_eq!(first.fencing_number, 100_000);
    let behind = Now {
        wall: at(50).wall,
        mono: at(2000).mono,
    };
    let ended = Input::Ended {
        issue: id(),
        attempt_id: first.attempt_id,
        report: ran(Outcome::Lost),
    };
    scheduler.handle(at(100), ended);
    let mut effects = scheduler.handle(behind, Input::PullStarted);
    effects.extend(scheduler.handle(behind, pulled("todo")));
    let second = started(effects).unwrap();
    assert_eq!(second.fencing_number, 100_001);
}
