//! A shim that one daemon leaves and another takes over.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use nix::sys::signal::Signal;
use vik_proc::{AdoptError, Cause, ProcessId, StdoutMode, Supervised};

use crate::support::*;

/// Leaves the agent to its shim, as a daemon does that ends without a stop.
async fn left(supervised: Supervised) -> ProcessId {
    supervised.handle().detach();
    let lost = within(supervised.wait()).await.unwrap_err();
    assert!(lost.detached && !lost.proof().is_proven(), "{lost:?}");
    supervised.shim()
}

#[tokio::test]
async fn second_daemon_stops_the_agent_of_the_first() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace("ready @up hang", LONG);
    let (first, agent) = scene.up(&spec).await;
    let control = scene.path("control").metadata().unwrap();
    assert!(control.file_type().is_fifo());
    assert_eq!(control.permissions().mode() & 0o777, 0o600);
    let shim = left(first).await;
    let second = scene.adopt(&spec, shim, None).await;
    assert_eq!((second.shim(), second.agent()), (shim, Some(agent)));
    second.stop();
    let record = scene.end(&second).await;
    assert_eq!((record.signal, record.cause), (Some(2), Cause::Stopped));
    assert!(!scene.path("control").exists());
}

#[tokio::test]
async fn agent_ends_when_the_orphan_grace_passes() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace("also sd 5 ignore SIGTERM ready @tool hang ready @up hang", SHORT);
    let first = scene.start(&spec).await;
    scene.ready("tool").await;
    let agent = scene.ready("up").await;
    let shim = left(first).await;
    wait_for_exit(agent).await;
    // The leftover is not ended yet: a daemon that comes now still gets the result.
    assert!(shim.is_alive());
    let second = scene.adopt(&spec, shim, None).await;
    assert_eq!(second.agent(), Some(agent));
    second.kill();
    assert_eq!(scene.end(&second).await.cause, Cause::LifelineLost);
    // The next daemon gets it too.
    let third = scene.adopt(&spec, shim, None).await;
    assert_eq!(scene.end(&third).await, scene.end(&second).await);
}

#[tokio::test]
async fn exit_during_adoption_is_not_missed() {
    let scene = Scene::new();
    for _ in 0..20 {
        let spec = scene.spec_with_grace("ready @up await @go exit 3", LONG);
        let first = scene.start(&spec).await;
        scene.ready("up").await;
        let shim = left(first).await;
        write(&scene.path("go"), b"");
        let second = scene.adopt(&spec, shim, None).await;
        let record = scene.end(&second).await;
        assert_eq!((record.code, record.cause), (Some(3), Cause::Exited));
        for file in ["go", "up", "exit.json"] {
            std::fs::remove_file(scene.path(file)).unwrap();
        }
    }
}

#[tokio::test]
async fn adopt_waits_for_a_starting_shim() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace("ready @up hang", LONG);
    let (noted, shim) = tokio::sync::oneshot::channel();
    let note = |shim| noted.send(shim).unwrap();
    let starting = scene.supervisor.spawn_noted(&spec, None, StdoutMode::Null, note);
    let adopting = async { scene.adopt(&spec, shim.await.unwrap(), None).await };
    let (first, second) = within(async { tokio::join!(starting, adopting) }).await;
    let first = first.unwrap();
    assert_eq!(first.agent(), second.agent());
    assert_eq!(second.agent(), Some(scene.ready("up").await));
    second.stop();
    assert_eq!(scene.end(&second).await.cause, Cause::Stopped);
}

#[tokio::test]
async fn suspended_shim_is_continued() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace("ready @up await @go exit 0", LONG);
    let (first, agent) = scene.up(&spec).await;
    send(first.shim(), Signal::SIGSTOP);
    let shim = left(first).await;
    let second = scene.adopt(&spec, shim, None).await;
    assert_eq!(second.agent(), Some(agent));
    write(&scene.path("go"), b"");
    assert!(scene.end(&second).await.is_clean());
}

#[tokio::test]
async fn agent_inherits_no_control_descriptor() {
    let scene = Scene::new();
    let supervised = scene.start(&scene.spec_with_grace("fds", LONG)).await;
    assert!(scene.end(&supervised).await.is_clean());
    assert_eq!(scene.out(), "3\n");
}

#[tokio::test]
async fn shim_without_a_fifo_is_not_adopted() {
    let scene = Scene::new();
    let supervised = scene.start(&scene.spec("ready @up hang")).await;
    let spec = scene.spec("");
    let refused = scene.supervisor.adopt(&spec, supervised.shim(), None).await;
    assert!(matches!(refused, Err(AdoptError::NoControl { shim }) if shim == supervised.shim()));
    supervised.kill();
    let record = scene.end(&supervised).await;
    assert_eq!(record.signal, Some(Signal::SIGKILL as i32));
}
