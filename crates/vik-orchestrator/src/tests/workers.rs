//! Attempts on workers, and what a status shows of them.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use tokio::sync::watch;
use vik_api::Action;
use vik_core::worker::{Presence, Revision, Worker, WorkerLabel, WorkerName, WorkerState, Workers};

use super::scene::{Scene, SceneBuilder};
use super::world::Script;

const SECOND: Duration = Duration::from_secs(1);

/// Returns a list of workers that have the revision of the hub and the label `gpu`.
fn list(workers: &[(&str, Presence)]) -> Workers {
    labelled("gpu", workers)
}

fn labelled(label: &str, workers: &[(&str, Presence)]) -> Workers {
    let hub = Revision {
        version: "1".to_owned(),
        workflow_digest: "x".to_owned(),
    };
    let worker = |(name, presence): &(&str, Presence)| Worker {
        name: name.parse().unwrap(),
        labels: BTreeSet::from([label.parse::<WorkerLabel>().unwrap()]),
        capacity: NonZeroU32::MIN,
        revision: hub.clone(),
        presence: *presence,
    };
    Workers::new(hub.clone(), workers.iter().map(worker))
}

/// Returns the workers of the status: name, state and number of attempts.
fn workers(scene: &mut Scene) -> Vec<(String, WorkerState, u32)> {
    let views = scene.status().workers.into_iter();
    views
        .map(|worker| (worker.name.to_string(), worker.state, worker.running))
        .collect()
}

/// Returns the workers of the sessions of the status.
fn places(scene: &mut Scene) -> Vec<Option<String>> {
    let sessions = scene.status().sessions.into_iter();
    sessions
        .map(|session| session.worker.map(|worker| worker.to_string()))
        .collect()
}

/// Asserts that the issue `a` waits because no worker is ready.
fn assert_waits_for_a_worker(scene: &mut Scene) {
    assert_waits(scene, "no worker is ready");
}

/// Asserts that the issue `a` waits for a worker, for this reason.
fn assert_waits(scene: &mut Scene, reason: &str) {
    let waiting = scene.status().waiting.remove(0);
    assert_eq!((&*waiting.reason, &*waiting.detail), ("no_worker", reason));
    let hold = scene.explain("a").unwrap().stages.remove(0).hold.unwrap();
    assert_eq!((hold.reason, hold.detail), (waiting.reason, waiting.detail));
}

#[test]
fn status_shows_a_worker_from_its_announcement_to_its_loss() {
    let (lists, receiver) = watch::channel(list(&[]));
    let builder = SceneBuilder {
        workers: Some(receiver),
        ..SceneBuilder::default()
    };
    let mut scene = builder.start(&[("a", None)], &[Script::Runs, Script::Runs]);
    scene.pass(10 * SECOND);
    assert!(scene.world().starts().is_empty(), "nothing runs on this machine");
    assert!(workers(&mut scene).is_empty());
    assert_waits_for_a_worker(&mut scene);

    lists.send_replace(list(&[("w-1", Presence::Available)]));
    scene.pass(SECOND);
    assert_eq!(workers(&mut scene), [("w-1".to_owned(), WorkerState::Ready, 1)]);
    assert_eq!(places(&mut scene), [Some("w-1".to_owned())]);
    let view = scene.status().workers.remove(0);
    assert_eq!(
        (view.label_list(), view.capacity.get(), &*view.version),
        ("gpu".to_owned(), 1, "1")
    );

    lists.send_replace(list(&[("w-1", Presence::Lost)]));
    scene.pass(SECOND);
    assert_eq!(
        workers(&mut scene),
        [("w-1".to_owned(), WorkerState::Lost, 1)],
        "the attempt has not ended yet"
    );
    let name: WorkerName = "w-1".parse().unwrap();
    scene.world().lose_attempt("a", &name);
    scene.pass(10 * SECOND);
    assert_eq!(workers(&mut scene), [("w-1".to_owned(), WorkerState::Lost, 0)]);
    assert!(places(&mut scene).is_empty());
    assert_waits_for_a_worker(&mut scene);

    let both = [("w-1", Presence::Lost), ("w-2", Presence::Available)];
    lists.send_replace(list(&both));
    scene.pass(10 * SECOND);
    assert_eq!(places(&mut scene), [Some("w-2".to_owned())]);
    drop(lists);
    scene.pass(10 * SECOND);
    assert!(scene.summary.is_none(), "the loop continues with the last list");
    assert_eq!(workers(&mut scene).len(), 2);
}

#[test]
fn stop_leaves_attempts_on_workers_to_the_next_hub() {
    let (_lists, receiver) = watch::channel(list(&[("w-1", Presence::Available)]));
    let builder = SceneBuilder {
        workers: Some(receiver),
        ..SceneBuilder::default()
    };
    let mut scene = builder.start(&[("a", None)], &[Script::Runs]);
    scene.pass(10 * SECOND);
    let keep_sessions = false;
    scene.act(Action::Stop { keep_sessions }).unwrap();
    scene.pass(SECOND);
    assert!(scene.summary.as_ref().unwrap().stopped);
    assert_eq!(scene.world().log, ["start a 1", "state stopping", "detach a"]);
}

#[test]
fn stage_waits_for_a_worker_with_the_labels_of_its_where() {
    let present = &[("w-1", Presence::Available)];
    let (lists, receiver) = watch::channel(labelled("arm", present));
    let builder = SceneBuilder {
        stage: "where: { labels: [gpu] }",
        workers: Some(receiver),
        ..SceneBuilder::default()
    };
    let mut scene = builder.start(&[("a", None)], &[Script::Runs]);
    scene.pass(10 * SECOND);
    assert!(scene.world().starts().is_empty());
    assert_waits(&mut scene, "no ready worker has the label `gpu`");
    lists.send_replace(labelled("gpu", present));
    scene.pass(SECOND);
    assert_eq!(places(&mut scene), [Some("w-1".to_owned())]);
}

#[test]
fn status_has_no_workers_if_attempts_run_on_this_machine() {
    let mut scene = SceneBuilder::default().start(&[("a", None)], &[Script::Runs]);
    scene.pass(10 * SECOND);
    assert!(workers(&mut scene).is_empty());
    assert_eq!(places(&mut scene), [None]);
}
