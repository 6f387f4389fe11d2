//! A shim that itself dies.

use nix::sys::signal::Signal;

use crate::support::*;

#[tokio::test]
async fn killed_shim_ends_its_agent_and_daemon_ends_leftovers() {
    let scene = Scene::new();
    let supervised = scene
        .start(&scene.spec("also s 3 ready @tool hang ready @up hang"))
        .await;
    let tool = scene.ready("tool").await;
    let agent = scene.ready("up").await;
    let grade = scene.best_grade();
    send(supervised.shim(), Signal::SIGKILL);
    let lost = within(supervised.wait()).await.unwrap_err();
    assert_eq!(
        lost.to_string(),
        format!(
            "the shim {} ended without an exit record (signal 9)",
            lost.shim.pid
        )
    );
    assert_eq!((lost.shim, lost.agent), (supervised.shim(), Some(agent)));
    assert!(lost.found.contains(&tool), "{lost:?}");
    assert_eq!(*lost.proof(), grade);
    assert!(!tool.is_alive() && !agent.is_alive());
    assert!(!scene.path("exit.json").exists() && !scene.path("census").exists());
    scene.assert_nothing_left();
}

#[tokio::test]
async fn lost_shim_without_mark_and_census_is_unproven() {
    let scene = Scene::new();
    let mut spec = scene.spec("ready @up hang");
    (spec.mark, spec.census) = (None, None);
    let (supervised, agent) = scene.up(&spec).await;
    send(supervised.shim(), Signal::SIGKILL);
    let lost = within(supervised.wait()).await.unwrap_err();
    assert!(!lost.proof().is_proven() && !agent.is_alive());
}

#[tokio::test]
async fn record_with_an_unknown_cause_counts_as_lost() {
    let scene = Scene::new();
    let spec = scene.spec("exit 0");
    let supervised = scene.start(&spec).await;
    scene.end(&supervised).await;
    let path = scene.path("exit.json");
    let record = std::fs::read_to_string(&path).unwrap();
    write(
        &path,
        record.replace("exited", "cause_of_a_later_version").as_bytes(),
    );
    let (shim, boot) = (supervised.shim(), vik_proc::identity::boot_id());
    let lost = within(vik_proc::recover(&spec, shim, None, &boot))
        .await
        .unwrap_err();
    assert!(lost.proof().is_proven() && lost.found.is_empty(), "{lost:?}");
}
