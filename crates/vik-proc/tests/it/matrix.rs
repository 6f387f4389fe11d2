//! `kill -9` of daemon, shim and agent, separately and together, with an orphan grace; then another
//! daemon.

use nix::sys::signal::Signal;
use vik_proc::{Cause, Census, ProcessId, Proof, ShimSpec, identity::boot_id, recover};

use crate::support::*;

/// An agent, and a process that has left its session, its parent and its environment.
const WITH_ESCAPEE: &str = "also scdn 3 ready @tool hang ready @up hang";

/// Starts the agent under a separate daemon. Returns the daemon, the agent and the escapee, once
/// the census lists them.
async fn escaped(scene: &Scene, spec: &ShimSpec) -> (Daemon, ProcessId, ProcessId) {
    let daemon = scene.daemon("daemon", spec).await;
    let (tool, agent) = (scene.ready("tool").await, scene.ready("up").await);
    until("the census is true", || {
        let members = scene.census().members;
        members.contains(&tool) && members.contains(&agent)
    })
    .await;
    (daemon, agent, tool)
}

#[tokio::test]
async fn killed_daemon_leaves_the_agent_running() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace("say one ready @up await @go say two", LONG);
    let (mut daemon, agent) = scene.daemon_up(&spec).await;
    daemon.die();
    let adopted = scene.adopt(&spec, daemon.shim, None).await;
    assert_eq!(adopted.agent(), Some(agent));
    assert!(agent.is_alive());
    write(&scene.path("go"), b"");
    assert!(scene.end(&adopted).await.is_clean());
    assert_eq!(scene.out(), "one\ntwo\n");
}

#[tokio::test]
async fn killed_daemon_without_successor_ends_the_tree() {
    let scene = Scene::new();
    let mut spec = scene.spec_with_grace(WITH_ESCAPEE, SHORT);
    spec.graces.leftover = SHORT;
    spec.graces.term = SHORT;
    let (mut daemon, agent, tool) = escaped(&scene, &spec).await;
    daemon.die();
    wait_for_exit(daemon.shim).await;
    assert!(!agent.is_alive() && !tool.is_alive());
    let record = recover(&spec, daemon.shim, Some(agent), &boot_id())
        .await
        .unwrap();
    assert_eq!(
        (record.cause, record.proof),
        (Cause::LifelineLost, Proof::Subreaper)
    );
}

#[tokio::test]
async fn killed_shim_after_adoption_ends_the_tree() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace(WITH_ESCAPEE, LONG);
    let (mut daemon, agent, tool) = escaped(&scene, &spec).await;
    daemon.die();
    let adopted = scene.adopt(&spec, daemon.shim, Some(agent)).await;
    let grade = scene.best_grade();
    send(daemon.shim, Signal::SIGKILL);
    let lost = within(adopted.wait()).await.unwrap_err();
    assert!(lost.found.contains(&tool), "{lost:?}");
    assert_eq!(*lost.proof(), grade);
    assert!(!agent.is_alive() && !tool.is_alive());
    assert!(!scene.path("census").exists() && !scene.path("control").exists());
}

#[tokio::test]
async fn killed_daemon_and_shim_leftovers_are_recovered() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace(WITH_ESCAPEE, LONG);
    let (mut daemon, agent, tool) = escaped(&scene, &spec).await;
    let grade = scene.best_grade();
    daemon.die();
    send(daemon.shim, Signal::SIGKILL);
    wait_for_exit(daemon.shim).await;
    // The kernel kills the agent with its parent, but not a process that has left it.
    wait_for_exit(agent).await;
    assert!(tool.is_alive());
    let lost = recover(&spec, daemon.shim, None, &boot_id()).await.unwrap_err();
    assert_eq!((lost.agent, lost.found.as_slice()), (Some(agent), &[tool][..]));
    assert_eq!(*lost.proof(), grade);
    assert!(!tool.is_alive());
}

/// Simulates a system without cgroups and a tree without a mark, so that only the census names the
/// process.
#[tokio::test]
async fn killed_daemon_and_shim_are_recovered_by_census_alone() {
    let scene = Scene::new();
    let mut spec = scene.spec_with_grace(WITH_ESCAPEE, LONG);
    let (mut daemon, agent, tool) = escaped(&scene, &spec).await;
    daemon.die();
    send(daemon.shim, Signal::SIGKILL);
    wait_for_exit(daemon.shim).await;
    // The agent dies with its parent, but not at the same moment.
    wait_for_exit(agent).await;
    let cgroup = forget_cgroup(&scene);
    spec.mark = None;
    let lost = recover(&spec, daemon.shim, None, &boot_id()).await.unwrap_err();
    assert_eq!(
        (lost.found.as_slice(), lost.proof()),
        (&[tool][..], &Proof::Census)
    );
    assert!(!tool.is_alive());
    if let Some(cgroup) = cgroup {
        std::fs::remove_dir(cgroup).unwrap();
    }
}

fn forget_cgroup(scene: &Scene) -> Option<std::path::PathBuf> {
    let cgroup = scene.census().cgroup;
    let text = std::fs::read_to_string(scene.path("census")).unwrap();
    let kept: Vec<_> = text.lines().filter(|line| !line.starts_with("cgroup ")).collect();
    write(&scene.path("census"), kept.join("\n").as_bytes());
    cgroup
}

#[tokio::test]
async fn killed_agent_without_a_daemon_is_recorded() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace("ready @up hang", LONG);
    let (mut daemon, agent) = scene.daemon_up(&spec).await;
    daemon.die();
    send(agent, Signal::SIGKILL);
    let adopted = scene.adopt(&spec, daemon.shim, Some(agent)).await;
    let record = scene.end(&adopted).await;
    assert_eq!((record.signal, record.cause), (Some(9), Cause::Exited));
}

#[tokio::test]
async fn killed_daemon_shim_and_agent_are_reported_lost() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace("ready @up hang", LONG);
    let (mut daemon, agent) = scene.daemon_up(&spec).await;
    let grade = scene.best_grade();
    daemon.die();
    send(daemon.shim, Signal::SIGKILL);
    wait_for_exit(daemon.shim).await;
    wait_for_exit(agent).await;
    // An ended shim can be adopted too: its result is determined in the same way.
    let adopted = scene.adopt(&spec, daemon.shim, None).await;
    let lost = within(adopted.wait()).await.unwrap_err();
    assert_eq!((lost.agent, &lost.found), (Some(agent), &Vec::new()));
    assert_eq!(*lost.proof(), grade);
    assert!(!scene.path("census").exists() && !scene.path("control").exists());
}

#[tokio::test]
async fn reboot_spares_processes_with_reused_pids() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace("ready @up hang", LONG);
    // In the new boot the pids belong to other processes, with other start times or even the same.
    let innocent = scene.start(&spec).await;
    let agent = scene.ready("up").await;
    let text = std::fs::read_to_string(scene.path("census")).unwrap();
    write(
        &scene.path("census"),
        text.replace(&boot_id(), "before").as_bytes(),
    );
    assert_eq!(Census::read(&scene.path("census")).unwrap().members, [agent]);
    let lost = recover(&spec, innocent.shim(), Some(agent), "before")
        .await
        .unwrap_err();
    assert_eq!((&lost.found, lost.proof()), (&Vec::new(), &Proof::Reboot));
    assert!(agent.is_alive() && innocent.shim().is_alive());
    innocent.stop();
    within(innocent.wait()).await.unwrap();
}

/// A shim that cannot read its FIFO is ended with its tree.
#[tokio::test]
async fn recover_ends_a_shim_that_cannot_be_adopted() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace(WITH_ESCAPEE, LONG);
    let (mut daemon, agent, tool) = escaped(&scene, &spec).await;
    daemon.die();
    std::fs::remove_file(scene.path("control")).unwrap();
    write(&scene.path("control"), b"");
    let refused = within(scene.supervisor.adopt(&spec, daemon.shim, None)).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.starts_with("cannot reach the shim"), "{refused}");
    let lost = recover(&spec, daemon.shim, None, &boot_id()).await.unwrap_err();
    assert!(lost.proof().is_proven(), "{lost:?}");
    for process in [daemon.shim, agent, tool] {
        assert!(lost.found.contains(&process) && !process.is_alive());
    }
}
