//! The processes at the other end of the control FIFO.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use vik_proc::{Cause, ProcessId};

use crate::support::*;

/// Opens the FIFO like a process that is not a daemon.
fn stray(scene: &Scene) -> File {
    File::options()
        .write(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(scene.path("control"))
        .unwrap()
}

#[tokio::test]
async fn foreign_fifo_writer_has_no_effect() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace("ready @up hang", SHORT);
    let (mut daemon, agent) = scene.daemon_up(&spec).await;
    let mut stray = stray(&scene);
    let me = ProcessId::current();
    let nobody = format!(
        "hello 1.1.0\nhello {}.{}.0\nhello\nhello x\n",
        me.pid,
        me.start_time + 1
    );
    stray.write_all(nobody.as_bytes()).unwrap();
    stray.write_all(b"stop\nkill 1.1.0\nstop\n").unwrap();
    daemon.die();
    wait_for_exit(agent).await;
    let record = scene.record().await;
    assert_eq!(record.cause, Cause::LifelineLost);
    wait_for_exit(daemon.shim).await;
    scene.assert_nothing_left();
}

#[tokio::test]
async fn dead_owner_is_noticed_while_others_hold_the_fifo() {
    let scene = Scene::new();
    let mut spec = scene.spec_with_grace("ready @up hang", LONG);
    let (mut first, agent) = scene.daemon_up(&spec).await;
    let mut stray = stray(&scene);
    first.die();
    let mut second = scene.daemon("adopt", &spec).await;
    assert!(agent.is_alive());
    second.die();
    // There is no daemon for a short time. The unfinished line of the stranger has no effect.
    stray.write_all(b"sto").unwrap();
    spec.census = None;
    let third = scene.adopt(&spec, second.shim, Some(agent)).await;
    third.stop();
    let record = within(third.wait()).await.unwrap();
    assert_eq!((record.signal, record.cause), (Some(2), Cause::Stopped));
}

#[tokio::test]
async fn orphan_grace_restarts_after_each_daemon() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace("ready @up hang", SHORT);
    let (mut first, agent) = scene.daemon_up(&spec).await;
    let _stray = stray(&scene);
    // The newest daemon owns the shim, so the end of the first one changes nothing.
    let mut second = scene.daemon("adopt", &spec).await;
    first.die();
    assert!(agent.is_alive());
    second.die();
    wait_for_exit(agent).await;
    wait_for_exit(second.shim).await;
    let record = vik_proc::read_exit_record(&scene.path("exit.json")).unwrap();
    assert_eq!(record.cause, Cause::LifelineLost);
}

#[tokio::test]
async fn agent_without_a_fifo_ends_with_its_daemon() {
    let scene = Scene::new();
    let mut spec = scene.spec_with_grace("ready @up hang", LONG);
    spec.control = Some(scene.path("no/such/folder"));
    let (mut daemon, agent) = scene.daemon_up(&spec).await;
    daemon.die();
    wait_for_exit(agent).await;
    wait_for_exit(daemon.shim).await;
}
