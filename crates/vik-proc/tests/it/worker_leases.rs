//! Shims under the lease of a worker: it renews them, and ends them when it is lost.

use std::future::pending;
use std::time::Duration;

use nix::sys::signal::Signal;
use vik_proc::{BootTime, Cause, Lease, LeaseSender, Limits, Output};

use crate::support::*;

/// A lease that a test waits for.
const FIRST_LEASE: Duration = Duration::from_millis(300);
/// The longest lease that has to be renewed in time, on a very busy machine.
const MAX_FIRST_LEASE: Duration = Duration::from_secs(20);

/// A scene whose shims have a lease.
struct Leased {
    scene: Scene,
    sender: LeaseSender,
}

impl Leased {
    fn until(end: BootTime) -> Self {
        let mut scene = Scene::new();
        let (sender, lease) = Lease::new(end);
        scene.supervisor = scene.supervisor.with_lease(lease);
        Self { scene, sender }
    }

    fn new() -> Self {
        Self::until(in_future())
    }
}

fn in_future() -> BootTime {
    BootTime::now().saturating_add(LONG)
}

#[tokio::test]
async fn lost_lease_kills_the_tree() {
    let leased = Leased::new();
    let spec = leased
        .scene
        .spec("ignore SIGTERM also scd 3 ready @double hang await @double ready @up hang");
    let (supervised, _) = leased.scene.up(&spec).await;
    leased.sender.end();
    assert_eq!(leased.scene.end(&supervised).await.cause, Cause::LeaseLost);
}

#[tokio::test]
async fn lost_lease_kills_the_tree_of_a_stopped_shim() {
    let leased = Leased::new();
    let (supervised, agent) = leased.scene.up(&leased.scene.spec("ready @up hang")).await;
    send(supervised.shim(), Signal::SIGSTOP);
    leased.sender.end();
    wait_for_exit(agent).await;
    assert_eq!(leased.scene.end(&supervised).await.cause, Cause::LeaseLost);
}

#[tokio::test]
async fn renewals_keep_the_tree() {
    let mut first = FIRST_LEASE;
    while !is_renewed(first).await {
        first *= 2;
        assert!(first < MAX_FIRST_LEASE, "it is not renewed");
    }
}

/// Returns whether a renewal keeps a tree whose first lease has this length.
async fn is_renewed(first: Duration) -> bool {
    let first = BootTime::now().saturating_add(first);
    let leased = Leased::until(first);
    let spec = leased.scene.spec("ready @up await @go exit 3");
    let supervised = leased.scene.start(&spec).await;
    leased.sender.renew(in_future());
    until("the first lease ends", || BootTime::now() > first).await;
    write(&leased.scene.path("go"), b"");
    let record = leased.scene.end(&supervised).await;
    if record.cause == Cause::LeaseLost {
        return false;
    }
    assert_eq!((record.code, record.cause), (Some(3), Cause::Exited));
    true
}

#[tokio::test]
async fn agent_does_not_start_under_a_lost_lease() {
    let leased = Leased::new();
    leased.sender.end();
    let supervised = leased.scene.start(&leased.scene.spec("ready @up exit 0")).await;
    let record = leased.scene.end(&supervised).await;
    assert_eq!((record.agent, record.cause), (None, Cause::LeaseLost));
    assert!(!leased.scene.path("up").exists());
}

#[tokio::test]
async fn adopted_shim_has_the_lease_of_its_new_worker() {
    let mut first = FIRST_LEASE;
    while !is_renewed_by_adoption(first).await {
        first *= 2;
        assert!(first < MAX_FIRST_LEASE, "the adoption does not renew it");
    }
}

/// Returns whether an adoption keeps a tree, which has a lease of this length from its last worker, for
/// as long as the lease of the new worker.
async fn is_renewed_by_adoption(first: Duration) -> bool {
    let mut leased = Leased::new();
    let spec = leased.scene.spec_with_grace("ready @up hang", LONG);
    let (supervised, agent) = leased.scene.up(&spec).await;
    let first = BootTime::now().saturating_add(first);
    supervised.handle().renew(first);
    supervised.handle().detach();
    assert!(within(supervised.wait()).await.unwrap_err().detached);
    let (sender, lease) = Lease::new(in_future());
    leased.scene.supervisor = leased.scene.supervisor.with_lease(lease);
    let adopted = leased.scene.adopt(&spec, supervised.shim(), None).await;
    until("the first lease ends", || BootTime::now() > first).await;
    let is_kept = agent.is_alive();
    sender.end();
    assert_eq!(leased.scene.end(&adopted).await.cause, Cause::LeaseLost);
    is_kept
}

#[tokio::test]
async fn command_under_a_lost_lease_is_cancelled() {
    let limits = Limits {
        timeout: LONG,
        max_bytes: 1000,
    };
    for is_started in [false, true] {
        let leased = Leased::new();
        let mut spec = leased.scene.spec("ready @up hang");
        spec.stdout = Output::Inherit;
        let lose = async {
            if is_started {
                leased.scene.ready("up").await;
            }
            leased.sender.end();
        };
        if !is_started {
            leased.sender.end();
        }
        let run = leased.scene.supervisor.output(&spec, limits, pending());
        let (run, ()) = within(async { tokio::join!(run, lose) }).await;
        let run = run.unwrap();
        assert!(run.cancelled && !run.is_success(), "{run:?}");
        assert_eq!(run.exit.cause, Cause::LeaseLost);
        leased.scene.assert_nothing_left();
    }
}
