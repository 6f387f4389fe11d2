//! The lease of a worker on an agent.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use vik_proc::{BootTime, Cause, ExitRecord, ProcessId, ShimSpec, Supervised};

use crate::support::*;

/// A tree with members in other sessions and with another parent, which all ignore SIGTERM.
const TREE: &str = "ignore SIGTERM also scd 3 ready @double hang also s 3 ready @session hang \
                    also sd 3 ready @orphan hang \
                    await @double await @session await @orphan ready @up hang";
const TREE_MEMBERS: [&str; 4] = ["double", "session", "orphan", "up"];

/// An agent that ends when the test writes `go`.
const WAITING: &str = "ready @up await @go exit 3";

/// The longest time from the end of a lease, or from the moment when a shim wakes up after it, to the
/// end of the tree.
const PROMPT: Duration = Duration::from_secs(1);
/// How often a time is measured until it is short enough: other processes may delay it.
const TRIES: usize = 3;

/// An agent with a lease.
struct Leased {
    scene: Scene,
    spec: ShimSpec,
    supervised: Supervised,
    end: BootTime,
}

/// Starts an agent, which is up long before its first lease ends: on a slow machine the lease is
/// longer. `arrange` changes the spec.
async fn leased(args: &str, arrange: impl Fn(&Scene, &mut ShimSpec)) -> Leased {
    let mut length = Duration::from_secs(1);
    loop {
        let scene = Scene::new();
        let mut spec = scene.spec(args);
        arrange(&scene, &mut spec);
        let end = BootTime::now().saturating_add(length);
        spec.lease = Some(end);
        let supervised = scene.start(&spec).await;
        let is_up = || scene.path("up").exists();
        while !is_up() && BootTime::now() < end {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if is_up() && end.saturating_duration_since(BootTime::now()) > length / 2 {
            return Leased {
                scene,
                spec,
                supervised,
                end,
            };
        }
        length *= 2;
        supervised.kill();
        let _ = within(supervised.wait()).await;
    }
}

/// Starts an agent that a later worker can adopt.
async fn adoptable(args: &str) -> Leased {
    leased(args, |scene, spec| {
        spec.control = Some(scene.path("control"));
        spec.orphan_grace = LONG;
    })
    .await
}

impl Leased {
    /// Waits until the first lease has ended.
    async fn passed(&self) {
        until("the lease ends", || BootTime::now() > self.end).await;
    }

    async fn stop_shim(&self) {
        send(self.supervised.shim(), Signal::SIGSTOP);
        assert!(BootTime::now() < self.end, "the shim was stopped in time");
        self.passed().await;
    }

    /// Asserts that the lease ended the tree.
    async fn lost(&self) -> ExitRecord {
        let record = self.scene.end(&self.supervised).await;
        assert_eq!((record.signal, record.cause), (Some(9), Cause::LeaseLost));
        assert!(BootTime::now() >= self.end);
        record
    }

    /// Asserts that the lease has not ended the agent, which ends by itself now.
    async fn kept(&self, supervised: &Supervised) {
        write(&self.scene.path("go"), b"");
        let record = self.scene.end(supervised).await;
        assert_eq!((record.code, record.cause), (Some(3), Cause::Exited));
    }
}

fn in_future() -> BootTime {
    BootTime::now().saturating_add(LONG)
}

fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Returns the time from `since` until the end of the tree.
fn took(record: &ExitRecord, since: Duration) -> Duration {
    Duration::from_millis(record.ended_at_ms).saturating_sub(since)
}

#[tokio::test]
async fn tree_ends_with_a_lease_that_is_not_renewed() {
    let mut best = Duration::MAX;
    for _ in 0..TRIES {
        let leased = leased(TREE, |_, _| {}).await;
        let mut members = Vec::new();
        for name in TREE_MEMBERS {
            members.push(leased.scene.ready(name).await);
        }
        let end = unix_now() + leased.end.saturating_duration_since(BootTime::now());
        let record = leased.lost().await;
        assert!(members.iter().all(|member| !member.is_alive()));
        best = best.min(took(&record, end));
        if best <= PROMPT {
            return;
        }
    }
    panic!("{best:?}");
}

#[tokio::test]
async fn renewed_lease_keeps_the_agent() {
    let leased = leased(WAITING, |_, _| {}).await;
    leased.supervised.handle().renew(in_future());
    leased.passed().await;
    leased.kept(&leased.supervised).await;
}

#[tokio::test]
async fn lease_ends_at_its_last_renewal() {
    let scene = Scene::new();
    let mut spec = scene.spec("ready @up hang");
    spec.lease = Some(in_future());
    let (supervised, _) = scene.up(&spec).await;
    supervised.handle().renew(in_future());
    supervised.handle().renew(BootTime::now());
    assert_eq!(scene.end(&supervised).await.cause, Cause::LeaseLost);
}

#[tokio::test]
async fn stopped_shim_ends_its_tree_soon_after_it_is_continued() {
    let mut best = Duration::MAX;
    for _ in 0..TRIES {
        let leased = leased(TREE, |_, _| {}).await;
        leased.stop_shim().await;
        let continued = unix_now();
        send(leased.supervised.shim(), Signal::SIGCONT);
        best = best.min(took(&leased.lost().await, continued));
        if best <= PROMPT {
            return;
        }
    }
    panic!("{best:?}");
}

#[tokio::test]
async fn late_renewal_does_not_revive_a_lease() {
    let leased = leased("ready @up hang", |_, _| {}).await;
    leased.stop_shim().await;
    // The renewal continues the shim, which finds it together with the end of the lease.
    leased.supervised.handle().renew(in_future());
    leased.lost().await;
}

#[tokio::test]
async fn renewal_that_is_read_too_late_does_not_revive_a_lease() {
    for past in [false, true] {
        let leased = adoptable("ready @up hang").await;
        send(leased.supervised.shim(), Signal::SIGSTOP);
        let end = if past { BootTime::now() } else { in_future() };
        // Unlike a handle, this does not continue the shim.
        let me = ProcessId::current();
        let name = format!("{}.{}.test", me.pid, me.start_time);
        let mut control = control(&leased.scene);
        let end = serde_json::to_string(&end).unwrap();
        control
            .write_all(format!("hello {name}\nrenew {end} {name}\n").as_bytes())
            .unwrap();
        assert!(BootTime::now() < leased.end, "the renewal was sent in time");
        leased.passed().await;
        send(leased.supervised.shim(), Signal::SIGCONT);
        leased.lost().await;
    }
}

#[tokio::test]
async fn renewal_by_a_process_that_does_not_own_the_shim_has_no_effect() {
    let leased = adoptable("ready @up hang").await;
    let end = serde_json::to_string(&in_future()).unwrap();
    let lines = format!("renew {end}\nrenew {end} 1.1.0\nrenew 1.1.0\n");
    control(&leased.scene).write_all(lines.as_bytes()).unwrap();
    leased.lost().await;
}

/// Opens the control FIFO of the shim.
fn control(scene: &Scene) -> File {
    File::options()
        .write(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(scene.path("control"))
        .unwrap()
}

#[tokio::test]
async fn tree_of_a_stopped_worker_ends() {
    let scene = Scene::new();
    let mut spec = scene.spec_with_grace("ready @up hang", LONG);
    let first = BootTime::now().saturating_add(Duration::from_secs(5));
    spec.lease = Some(first);
    let (worker, agent) = scene.daemon_up(&spec).await;
    until("the first lease ends", || BootTime::now() > first).await;
    assert!(agent.is_alive(), "the worker renews the lease");
    send(worker.process(), Signal::SIGSTOP);
    wait_for_exit(agent).await;
    assert_eq!(scene.record().await.cause, Cause::LeaseLost);
    wait_for_exit(worker.shim).await;
    scene.assert_nothing_left();
}

#[tokio::test]
async fn lease_ends_the_orphan_grace() {
    let leased = adoptable("ready @up hang").await;
    leased.supervised.handle().detach();
    assert!(within(leased.supervised.wait()).await.unwrap_err().detached);
    assert_eq!(leased.scene.record().await.cause, Cause::LeaseLost);
    wait_for_exit(leased.supervised.shim()).await;
    leased.scene.assert_nothing_left();
}

#[tokio::test]
async fn lease_ends_the_stop_ladder() {
    let leased = leased("ignore SIGINT ready @up hang", |_, _| {}).await;
    leased.supervised.stop();
    leased.lost().await;
}

#[tokio::test]
async fn lease_does_not_replace_the_cause_of_an_earlier_end() {
    let leased = leased(
        "also s 5 ignore SIGTERM ready @tool hang await @tool ready @up exit 4",
        |_, _| {},
    )
    .await;
    let record = leased.scene.end(&leased.supervised).await;
    assert_eq!((record.code, record.cause), (Some(4), Cause::Exited));
    assert!(
        BootTime::now() >= leased.end,
        "the leftover was killed with the lease"
    );
}

#[tokio::test]
async fn agent_does_not_start_after_the_end_of_its_lease() {
    let scene = Scene::new();
    let mut spec = scene.spec("ready @up exit 0");
    spec.lease = Some(BootTime::now());
    let supervised = scene.start(&spec).await;
    assert_eq!(supervised.agent(), None);
    let record = scene.end(&supervised).await;
    assert_eq!((record.agent, record.cause), (None, Cause::LeaseLost));
    assert!(!scene.path("up").exists());
}

#[tokio::test]
async fn adopted_shim_is_renewed_while_its_lease_lasts() {
    let leased = adoptable(WAITING).await;
    leased.supervised.handle().detach();
    within(leased.supervised.wait()).await.unwrap_err();
    let second = leased
        .scene
        .adopt(&leased.spec, leased.supervised.shim(), None)
        .await;
    second.handle().renew(in_future());
    leased.passed().await;
    leased.kept(&second).await;
}

#[tokio::test]
async fn adoption_does_not_revive_a_lease() {
    let leased = adoptable("ready @up hang").await;
    leased.stop_shim().await;
    let second = leased
        .scene
        .adopt(&leased.spec, leased.supervised.shim(), None)
        .await;
    second.handle().renew(in_future());
    assert_eq!(leased.scene.end(&second).await.cause, Cause::LeaseLost);
}

#[tokio::test]
async fn lease_ends_a_tree_in_namespaces() {
    let Some(scene) = Scene::with_bubblewrap("leases::lease_ends_a_tree_in_namespaces") else {
        return;
    };
    let mut spec = scene.spec(TREE);
    spec.lease = Some(in_future());
    let (supervised, _) = scene.up(&spec).await;
    supervised.handle().renew(BootTime::now());
    assert_eq!(scene.end(&supervised).await.cause, Cause::LeaseLost);
}

#[tokio::test]
async fn agent_without_a_lease_cannot_get_one() {
    let scene = Scene::new();
    let (supervised, _) = scene.up(&scene.spec(WAITING)).await;
    supervised.handle().renew(BootTime::now());
    write(&scene.path("go"), b"");
    assert_eq!(scene.end(&supervised).await.cause, Cause::Exited);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn shim_without_a_lease_has_no_timer() {
    let scene = Scene::new();
    for (lease, timers) in [(None, 0), (Some(in_future()), 1)] {
        let mut spec = scene.spec("ready @up hang");
        spec.lease = lease;
        let (supervised, _) = scene.up(&spec).await;
        let Ok(open) = std::fs::read_dir(format!("/proc/{}/fd", supervised.shim().pid)) else {
            // A shim shows its files to privileged users only.
            let _ = writeln!(std::io::stderr(), "skipped: shim_without_a_lease_has_no_timer");
            return;
        };
        let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let found = links.filter(|link| link.as_os_str() == "anon_inode:[timerfd]");
        assert_eq!(found.count(), timers, "{lease:?}");
        supervised.kill();
        scene.end(&supervised).await;
    }
}
