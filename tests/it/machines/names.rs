//! Each worker has its name for itself.

use nix::sys::signal::Signal;
use serde_json::json;

use super::cluster::{Cluster, Machine};
use crate::support::{assert_contains, eventually};

fn cluster() -> Option<Cluster> {
    let agent = json!({"runtime": "command", "command": ["vik-scripted-agent"]});
    Cluster::start(&[("1", "todo")], agent, "SCRIPT: ok")
}

fn wait_until_done(cluster: &Cluster, issue: &str) {
    eventually(&format!("issue {issue} is done"), || {
        cluster.tracker.state(issue).as_deref() == Some("done")
    });
}

#[track_caller]
fn assert_refused(mut worker: Machine) {
    eventually("the worker ends", || !worker.is_running());
    let log = worker.log();
    assert_contains(&log, "the worker `w` is already running on `");
    assert_contains(&log, "(pid ");
    assert_contains(&log, "), since 20");
    assert_contains(&log, "give this one another `--name`");
    assert_eq!(worker.ended().code(), Some(5), "{log}");
}

#[test]
fn worker_is_refused_where_another_one_has_its_name() {
    let Some(cluster) = cluster() else { return };
    let hub = cluster.hub("hub");
    hub.wait_for(" leading");
    let first = cluster.worker("w");
    wait_until_done(&cluster, "1");
    assert_refused(cluster.start_worker_in("another", "w"));
    // As a clone of the machine has it.
    let copied = cluster
        .env
        .command("cp")
        .arg("-a")
        .arg(cluster.env.work().join("w"))
        .arg(cluster.env.work().join("copy"))
        .status();
    assert!(copied.unwrap().success());
    assert_refused(cluster.start_worker_in("copy", "w"));
    cluster.tracker.add("2", "Issue 2", "todo");
    wait_until_done(&cluster, "2");
    first.stop();
    // Its name is free at once.
    let next = cluster.start_worker_in("another", "w");
    next.wait_for("ready");
    cluster.tracker.add("3", "Issue 3", "todo");
    wait_until_done(&cluster, "3");
    next.stop();
    hub.stop();
}

#[test]
fn killed_worker_starts_again_at_once() {
    let Some(cluster) = cluster() else { return };
    let hub = cluster.hub("hub");
    hub.wait_for(" leading");
    let worker = cluster.worker("w");
    wait_until_done(&cluster, "1");
    worker.kill();
    let worker = cluster.worker("w");
    cluster.tracker.add("2", "Issue 2", "todo");
    wait_until_done(&cluster, "2");
    worker.stop();
    hub.stop();
}

#[test]
fn worker_that_started_without_a_hub_is_refused_when_there_is_one() {
    let Some(cluster) = cluster() else { return };
    let first = cluster.worker("w");
    let second = cluster.start_worker_in("another", "w");
    second.wait_for("ready");
    let hub = cluster.hub("hub");
    assert_refused(second);
    wait_until_done(&cluster, "1");
    first.signal(Signal::SIGTERM);
    assert!(first.ended().success());
    hub.stop();
}
