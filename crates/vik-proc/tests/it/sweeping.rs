//! Ends without a shim, by mark and by identity, and ends that cannot be reached.

use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use vik_proc::{
    Cause, Graces, ProcessId, Proof, SHIM_VERB, Supervisor, descends_from, end_all, end_marked, sweep,
};

use crate::support::*;

const GRACES: Graces = Graces {
    int: SHORT,
    term: SHORT,
    leftover: SHORT,
    kill: DEADLINE,
};

/// Starts a process outside of any shim, with the scene's mark.
fn stray(scene: &Scene, args: &str) -> std::process::Child {
    let mut command = Command::new(PROGRAM);
    command
        .args(scene.spec(args).args)
        .env(&scene.mark.name, &scene.mark.value)
        .stdout(Stdio::null());
    command.spawn().unwrap()
}

#[tokio::test]
async fn marked_processes_are_ended_with_unmarked_children() {
    let scene = Scene::new();
    let args = "ignore SIGTERM also sc 3 ready @tool hang ready @up hang";
    let mut child = stray(&scene, args);
    let (stray, tool) = (scene.ready("up").await, scene.ready("tool").await);
    assert_eq!(sweep(&scene.mark.name, &scene.mark.value, &[]), [stray]);
    assert_eq!(sweep(&scene.mark.name, &scene.mark.value, &[stray.pid]), []);
    assert_eq!(sweep(&scene.mark.name, "another value", &[]), []);
    let (found, survivors) = within(end_marked(&scene.mark.name, &scene.mark.value, &[], &GRACES)).await;
    assert_eq!((found, survivors), (vec![stray], vec![]));
    assert!(!stray.is_alive() && !tool.is_alive());
    child.wait().unwrap();
}

#[tokio::test]
async fn end_all_spares_ancestors_and_reused_pids() {
    let scene = Scene::new();
    let mut child = stray(&scene, "ready @up hang");
    let stray = scene.ready("up").await;
    let me = ProcessId::current();
    let another = ProcessId {
        start_time: stray.start_time + 1,
        ..stray
    };
    let found = vec![another, me, me.parent().unwrap()];
    // Neither these processes nor their descendants are ended.
    assert_eq!(within(end_all(found, &GRACES)).await, []);
    assert!(stray.is_alive());
    assert_eq!(within(end_all(vec![stray], &GRACES)).await, []);
    assert!(!stray.is_alive());
    child.wait().unwrap();
}

#[tokio::test]
async fn agent_processes_descend_from_their_shim() {
    let scene = Scene::new();
    let supervised = scene
        .start(&scene.spec("also scd 3 ready @tool hang ready @up hang"))
        .await;
    let (tool, agent) = (scene.ready("tool").await, scene.ready("up").await);
    let shim = supervised.shim();
    let me = ProcessId::current();
    until("the orphan has come to the shim", || tool.parent() == Some(shim)).await;
    assert_eq!(descends_from(agent.pid, &[shim]), Some(true));
    assert_eq!(descends_from(tool.pid, &[shim]), Some(true));
    assert_eq!(descends_from(tool.pid, &[me]), Some(true));
    assert_eq!(descends_from(me.pid, &[shim]), Some(false));
    supervised.kill();
    scene.end(&supervised).await;
    assert_eq!(descends_from(tool.pid, &[shim]), None);
}

/// Returns a supervisor whose shims run as `nobody`. Only root can have one.
pub(crate) fn as_nobody(scene: &Scene) -> Option<Supervisor> {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root can start a shim as another user");
        return None;
    }
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    mode(scene.folder.path(), 0o777);
    for (name, bits) in [("plain", 0o755), ("setuid", 0o4755)] {
        std::fs::copy(PROGRAM, scene.path(name)).unwrap();
        mode(&scene.path(name), bits);
    }
    let args = ["as-nobody".into(), scene.path("plain").into(), SHIM_VERB.into()];
    Some(Supervisor::new(PROGRAM, args).unwrap())
}

#[tokio::test]
async fn agent_cannot_reach_into_its_shim() {
    let scene = Scene::new();
    let Some(supervisor) = as_nobody(&scene) else {
        return;
    };
    let mut spec = scene.spec("peek-at-shim");
    spec.program = scene.path("plain").into();
    let supervised = within(supervisor.spawn(&spec, None, Default::default()))
        .await
        .unwrap();
    scene.end(&supervised).await;
    assert_eq!(scene.out(), "refused\n");
}

#[tokio::test]
async fn end_of_an_unkillable_agent_is_not_claimed() {
    let scene = Scene::new();
    let Some(supervisor) = as_nobody(&scene) else {
        return;
    };
    // The agent becomes root again: its shim has no right to signal it.
    let mut spec = scene.spec("become-root ready @up hang");
    spec.program = scene.path("setuid").into();
    spec.graces.kill = Duration::from_millis(200);
    let supervised = within(supervisor.spawn(&spec, None, Default::default()))
        .await
        .unwrap();
    let agent = scene.ready("up").await;
    supervised.kill();
    let record = within(supervised.wait()).await.unwrap();
    assert_eq!(
        record.proof,
        Proof::Unproven {
            survivors: vec![agent]
        }
    );
    assert_eq!(
        (record.cause, record.code, record.signal),
        (Cause::Killed, None, None)
    );
    assert!(agent.is_alive() && !record.is_clean());
    assert_eq!(scene.census().members, [agent], "the survivors stay on record");
    send(agent, Signal::SIGKILL);
    wait_for_exit(agent).await;
}
