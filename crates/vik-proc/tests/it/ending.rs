//! The stop ladder, and processes that an agent leaves behind.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use vik_proc::{Cause, Graces, ProcessId, Stdin};

use crate::support::*;

#[tokio::test]
async fn int_ends_a_well_behaved_agent() {
    let scene = Scene::new();
    let (supervised, _) = scene.up(&scene.spec("ready @up hang")).await;
    assert_eq!(scene.census().members, [supervised.agent().unwrap()]);
    supervised.stop();
    let record = scene.end(&supervised).await;
    assert_eq!((record.signal, record.cause), (Some(2), Cause::Stopped));
}

#[tokio::test]
async fn agent_that_ignores_int_gets_term_then_kill() {
    deaf_agents_are_ended(&Scene::new()).await;
}

/// Ends an agent that ignores SIGINT, and one that also ignores SIGTERM.
pub(crate) async fn deaf_agents_are_ended(scene: &Scene) {
    let mut spec = scene.spec("ignore SIGINT ready @deaf hang");
    spec.graces.int = SHORT;
    let supervised = scene.start(&spec).await;
    scene.ready("deaf").await;
    supervised.stop();
    assert_eq!(scene.end(&supervised).await.signal, Some(15));

    let mut spec = scene.spec("ignore SIGINT ignore SIGTERM ready @deafer hang");
    spec.graces = Graces {
        int: SHORT,
        term: SHORT,
        ..spec.graces
    };
    let supervised = scene.start(&spec).await;
    scene.ready("deafer").await;
    let before = Instant::now();
    supervised.stop();
    let record = scene.end(&supervised).await;
    assert!(before.elapsed() >= SHORT * 2, "no step was left out");
    assert_eq!((record.signal, record.cause), (Some(9), Cause::Stopped));
}

#[tokio::test]
async fn kill_does_not_wait_and_overtakes_a_stop() {
    let scene = Scene::new();
    let (supervised, _) = scene
        .up(&scene.spec("ignore SIGINT ignore SIGTERM ready @up hang"))
        .await;
    supervised.stop();
    supervised.handle().kill();
    let record = scene.end(&supervised).await;
    assert_eq!((record.signal, record.cause), (Some(9), Cause::Killed));
}

#[tokio::test]
async fn grandchild_on_stdout_does_not_delay_the_end() {
    let scene = Scene::new();
    let supervised = scene
        .start(&scene.spec("also s 3 ready @tool hang await @tool exit 0"))
        .await;
    let tool = scene.ready("tool").await;
    let record = scene.end(&supervised).await;
    assert_eq!(
        (record.code, record.cause, record.leftovers_killed),
        (Some(0), Cause::Exited, 1)
    );
    assert!(!tool.is_alive());
}

#[tokio::test]
async fn leftover_that_ignores_term_is_killed_after_its_grace() {
    let scene = Scene::new();
    let mut spec = scene.spec("also s 7 ignore SIGTERM ignore SIGINT ready @tool hang await @tool exit 4");
    spec.graces.leftover = SHORT;
    let record = scene.end(&scene.start(&spec).await).await;
    assert_eq!((record.code, record.cause), (Some(4), Cause::Exited));
}

#[tokio::test]
async fn daemonized_child_without_environment_is_found() {
    let scene = Scene::new();
    let supervised = scene
        .start(&scene.spec("also scd 3 ready @tool hang ready @up hang"))
        .await;
    let tool = scene.ready("tool").await;
    scene.ready("up").await;
    assert!(tool.is_alive());
    supervised.stop();
    let record = scene.end(&supervised).await;
    assert!(!tool.is_alive(), "the orphan came to the shim");
    assert_eq!((record.signal, record.leftovers_killed), (Some(2), 1));
}

#[tokio::test]
async fn suspended_agent_can_be_stopped() {
    let scene = Scene::new();
    let supervised = scene.start(&scene.spec("ready @up hang")).await;
    send(scene.ready("up").await, Signal::SIGSTOP);
    supervised.stop();
    assert_eq!(scene.end(&supervised).await.signal, Some(2));
}

#[tokio::test]
async fn suspended_shim_can_be_stopped() {
    let scene = Scene::new();
    let (supervised, _) = scene.up(&scene.spec("ready @up hang")).await;
    send(supervised.shim(), Signal::SIGSTOP);
    supervised.stop();
    assert_eq!(scene.end(&supervised).await.cause, Cause::Stopped);
}

#[tokio::test]
async fn term_to_the_shim_stops_the_agent_and_hup_does_nothing() {
    let scene = Scene::new();
    let (supervised, agent) = scene.up(&scene.spec("ready @up hang")).await;
    send(supervised.shim(), Signal::SIGHUP);
    send(supervised.shim(), Signal::SIGTERM);
    let record = scene.end(&supervised).await;
    assert_eq!(
        (record.signal, record.cause, record.agent),
        (Some(2), Cause::Stopped, Some(agent))
    );
}

#[tokio::test]
async fn drop_of_supervised_closes_the_lifeline() {
    let scene = Scene::new();
    let (supervised, _) = scene.up(&scene.spec("ready @up hang")).await;
    let shim = supervised.shim();
    drop(supervised);
    wait_for_exit(shim).await;
    let record = vik_proc::read_exit_record(&scene.path("exit.json")).unwrap();
    assert_eq!((record.signal, record.cause), (Some(2), Cause::LifelineLost));
    scene.assert_nothing_left();
    until("the shim is reaped", || ProcessId::of(shim.pid) != Some(shim)).await;
}

#[tokio::test]
async fn stop_ends_an_agent_that_does_not_read_its_prompt() {
    let scene = Scene::new();
    write(&scene.path("prompt"), &vec![b'p'; 1_000_000]);
    let mut spec = scene.spec("ready @up hang");
    spec.stdin = Stdin::File(scene.path("prompt"));
    let (supervised, _) = scene.up(&spec).await;
    supervised.stop();
    assert_eq!(scene.end(&supervised).await.signal, Some(2));
}

#[tokio::test]
async fn fork_storm_is_killed() {
    a_storm_is_killed(&Scene::new()).await;
}

pub(crate) async fn a_storm_is_killed(scene: &Scene) {
    // At most 127 processes, each in its own session, which ignore all signals except SIGKILL.
    let supervised = scene.start(&scene.spec("storm 6")).await;
    let path = scene.path("census");
    until("the storm has begun", || path.exists()).await;
    supervised.kill();
    let record = scene.end(&supervised).await;
    assert_eq!((record.signal, record.cause), (Some(9), Cause::Killed));
}

#[tokio::test]
async fn relay_of_daemonized_children_is_ended() {
    let scene = Scene::new();
    let (supervised, _) = scene.up(&scene.spec("also scd 2 relay 400 ready @up hang")).await;
    supervised.kill();
    let record = scene.end(&supervised).await;
    assert_eq!(record.signal, Some(9));
}

#[tokio::test]
async fn own_exit_is_not_blamed_on_a_later_stop() {
    let scene = Scene::new();
    let supervised = scene.start(&scene.spec("exit 5")).await;
    let record = within(supervised.wait()).await.unwrap();
    supervised.stop();
    supervised.kill();
    assert_eq!((record.code, record.cause), (Some(5), Cause::Exited));
    assert_eq!(
        within(supervised.wait()).await.unwrap(),
        record,
        "can be asked again"
    );
}

#[tokio::test]
async fn agent_runs_soon_after_the_request() {
    let scene = Scene::new();
    let mut best = Duration::MAX;
    for _ in 0..10 {
        let before = Instant::now();
        let supervised = scene.start(&scene.spec("exit 0")).await;
        best = best.min(before.elapsed());
        within(supervised.wait()).await.unwrap();
    }
    // The bound is generous for a debug build on a busy machine. It detects a wait that is there by
    // mistake.
    assert!(best < Duration::from_millis(100), "{best:?}");
}
