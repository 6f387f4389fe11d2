//! A shim that one daemon leaves and another takes over.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use nix::sys::signal::Signal;
use vik_proc::{AdoptError, Cause, ProcessId, Proof, ShimSpec, Supervised};

use crate::support::*;

/// What a daemon does that goes away without a stop.
async fn left(supervised: Supervised) -> ProcessId {
    supervised.handle().detach();
    let lost = within(supervised.wait()).await.unwrap_err();
    assert!(lost.detached && !lost.proof().is_proven(), "{lost:?}");
    supervised.shim()
}

async fn adopt(scene: &Scene, spec: &ShimSpec, shim: ProcessId) -> Supervised {
    within(scene.supervisor.adopt(spec, shim, None)).await.unwrap()
}

#[tokio::test]
async fn a_second_daemon_stops_what_the_first_has_left() {
    let scene = Scene::new();
    let spec = scene.lasting("ready @up hang", LONG);
    let first = scene.start(&spec).await;
    let agent = scene.ready("up").await;
    let control = scene.path("control").metadata().unwrap();
    assert!(control.file_type().is_fifo());
    assert_eq!(control.permissions().mode() & 0o777, 0o600);
    let shim = left(first).await;
    let second = adopt(&scene, &spec, shim).await;
    assert_eq!((second.shim(), second.agent()), (shim, Some(agent)));
    second.stop();
    let record = scene.end(&second).await;
    assert_eq!(
        (record.signal, record.cause, record.proof),
        (Some(2), Cause::Stopped, Proof::Subreaper)
    );
    assert!(!scene.path("control").exists());
}

#[tokio::test]
async fn the_grace_passes() {
    let scene = Scene::new();
    let spec = scene.lasting("also sd 3 ready @tool hang ready @up hang", SHORT);
    let first = scene.start(&spec).await;
    scene.ready("tool").await;
    let agent = scene.ready("up").await;
    let shim = left(first).await;
    gone(agent).await;
    let second = adopt(&scene, &spec, shim).await;
    let mut spec = spec.clone();
    spec.control = None;
    // Ended by itself: that is no matter of the FIFO.
    let third = within(scene.supervisor.adopt(&spec, shim, Some(agent))).await;
    let record = within(second.wait()).await.unwrap();
    assert_eq!(record.cause, Cause::LifelineLost);
    if let Ok(third) = third {
        assert_eq!(scene.end(&third).await, record);
    }
}

#[tokio::test]
async fn a_shim_without_a_fifo_is_not_adopted() {
    let scene = Scene::new();
    let supervised = scene.start(&scene.spec("ready @up hang")).await;
    let spec = scene.spec("");
    let refused = scene.supervisor.adopt(&spec, supervised.shim(), None).await;
    assert!(matches!(refused, Err(AdoptError::NoControl { shim }) if shim == supervised.shim()));
    supervised.kill();
    let record = scene.end(&supervised).await;
    assert_eq!(record.signal, Some(Signal::SIGKILL as i32));
}
