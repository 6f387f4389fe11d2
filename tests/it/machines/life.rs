//! How hubs and workers start, are replaced, drain and end.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::cluster::{Cluster, Machine};
use crate::support::{assert_contains, eventually};

fn scripted(script: &str) -> Option<Cluster> {
    let agent = json!({"runtime": "command", "command": ["vik-scripted-agent"]});
    Cluster::start(&[("1", "todo")], agent, &format!("SCRIPT: {script}"))
}

fn wait_for_state(cluster: &Cluster, issue: &str, state: &str) {
    eventually(&format!("issue {issue} is in `{state}`"), || {
        cluster.tracker.state(issue).as_deref() == Some(state)
    });
}

fn wait_for_pull(cluster: &Cluster, hub: &Machine, issues: u32) {
    eventually("the hub has pulled the new issue", || {
        let status = cluster.status(hub);
        status.is_some_and(|status| status["last_pull"]["issues"] == issues)
    });
}

/// Returns the states of the workers, by name.
fn workers(cluster: &Cluster, hub: &Machine) -> Vec<(String, String)> {
    let status = cluster.status(hub).unwrap_or_default();
    let workers = status["workers"].as_array().cloned().unwrap_or_default();
    let text = |worker: &Value, key: &str| worker[key].as_str().unwrap_or_default().to_owned();
    workers
        .iter()
        .map(|worker| (text(worker, "name"), text(worker, "state")))
        .collect()
}

#[test]
fn hub_that_was_frozen_follows_again() {
    let Some(cluster) = scripted("touch up; ok") else {
        return;
    };
    let worker = cluster.worker("w");
    let first = cluster.hub("first");
    first.wait_for(" leading");
    wait_for_state(&cluster, "1", "done");
    let second = cluster.hub("second");
    second.wait_for("following");
    first.signal(Signal::SIGSTOP);
    second.wait_for(" leading");
    first.signal(Signal::SIGCONT);
    first.wait_for("another hub leads now");
    // The same process, with the same arguments, follows.
    eventually("the first hub follows again", || {
        first.log().matches("following").count() == 2
    });
    second.stop();
    eventually("the first hub leads again", || {
        first.log().matches(" leading").count() == 2
    });
    assert_eq!(cluster.moves(), ["move 1 done"]);
    first.stop();
    worker.stop();
}

#[test]
fn drained_worker_ends_after_its_attempt_and_gets_nothing_new() {
    let Some(cluster) = scripted("touch up; wait-file go; ok") else {
        return;
    };
    let mut worker = cluster.worker("w");
    let hub = cluster.hub("hub");
    let workspace = cluster.env.work().join("w/home/workers/w/workflows");
    let workspace = || {
        let folder = std::fs::read_dir(&workspace).ok()?.next()?.ok()?.path();
        Some(folder.join("issues/1"))
    };
    eventually("the agent runs", || {
        workspace().is_some_and(|path| path.join("up").exists())
    });
    worker.signal(Signal::SIGUSR1);
    eventually("the worker drains", || {
        workers(&cluster, &hub) == [("w".to_owned(), "draining".to_owned())]
    });
    cluster.tracker.add("2", "Issue 2", "todo");
    wait_for_pull(&cluster, &hub, 2);
    assert!(worker.is_running());
    std::fs::write(workspace().unwrap().join("go"), "").unwrap();
    wait_for_state(&cluster, "1", "done");
    assert!(worker.ended().success());
    assert_contains(cluster.vik(&hub, &["explain", "2"]), "no worker is ready");
    hub.stop();
}

#[test]
fn worker_is_drained_by_its_name() {
    let Some(cluster) = scripted("ok") else {
        return;
    };
    let worker = cluster.worker("w");
    let hub = cluster.hub("hub");
    wait_for_state(&cluster, "1", "done");
    assert_contains(
        cluster.vik(&hub, &["worker", "drain", "w"]),
        "draining: the worker `w` takes no more attempts",
    );
    assert!(worker.ended().success());
    let refused = cluster.fails(&hub, &["worker", "drain", "w"]);
    assert_contains(refused, "the worker `w` does not respond");
    hub.stop();
}

#[test]
fn edited_workflow_is_in_force_when_hub_and_worker_have_it() {
    let Some(cluster) = scripted("ok") else {
        return;
    };
    let worker = cluster.worker("w");
    let hub = cluster.hub("hub");
    wait_for_state(&cluster, "1", "done");
    cluster.edit(&hub, "SCRIPT: ok", "SCRIPT: write edited x; ok");
    eventually("the worker has another workflow", || {
        workers(&cluster, &hub) == [("w".to_owned(), "mismatched_workflow".to_owned())]
    });
    cluster.tracker.add("2", "Issue 2", "todo");
    wait_for_pull(&cluster, &hub, 2);
    assert_contains(cluster.vik(&hub, &["explain", "2"]), "no worker is ready");
    cluster.edit(&worker, "SCRIPT: ok", "SCRIPT: write edited x; ok");
    wait_for_state(&cluster, "2", "done");
    let edited = cluster.env.work().join("w/home/workers/w/workflows");
    let folder = std::fs::read_dir(edited).unwrap().next().unwrap().unwrap().path();
    assert!(folder.join("issues/2/edited").exists());
    hub.stop();
    worker.stop();
}

#[test]
fn restarted_hub_keeps_its_role() {
    let Some(cluster) = scripted("ok") else {
        return;
    };
    let worker = cluster.worker("w");
    let hub = cluster.hub("hub");
    wait_for_state(&cluster, "1", "done");
    cluster.vik(&hub, &["restart"]);
    assert!(hub.ended().success());
    let detached = cluster.hub("none");
    // A further hub follows the one that runs detached.
    detached.wait_for("following");
    cluster.tracker.add("2", "Issue 2", "todo");
    wait_for_state(&cluster, "2", "done");
    detached.stop();
    let workflow = cluster.env.work().join("hub/workflow.yml");
    let stopped = cluster
        .env
        .vik(["stop", "--workflow"])
        .arg(workflow)
        .output()
        .unwrap();
    assert!(stopped.status.success(), "{stopped:?}");
    worker.stop();
}

#[test]
fn twenty_hubs_claim_an_issue_once() {
    let Some(cluster) = scripted("ok") else {
        return;
    };
    let worker = cluster.worker("w");
    let hubs: Vec<_> = (0..20)
        .map(|number| cluster.hub_once(&format!("hub-{number}")))
        .collect();
    for hub in hubs {
        let log = hub.log();
        assert!(hub.ended().success(), "{log}");
    }
    assert_eq!(cluster.moves(), ["move 1 done"]);
    worker.stop();
}

/// The next hub repeats no try that still runs, and none that has succeeded meanwhile.
#[test]
fn hand_over_is_not_repeated_when_its_hub_was_killed() {
    let agent = json!({"runtime": "command", "command": ["vik-scripted-agent"]});
    for ends_without_hub in [false, true] {
        let cluster = Cluster::with(&[("1", "todo")], agent.clone(), "SCRIPT: ok", |flow, env| {
            let root = env.root().display();
            let work = &mut flow["issue"]["stages"]["work"];
            work["hand_over"] = json!({"initial_backoff": "10ms"});
            work["hooks"]["after_run"] = json!(format!(
                "echo x >> {root}/tries\n\
                 test $(wc -l < {root}/tries) != 1 || exit 1\n\
                 until test -e {root}/go; do sleep 0.05; done\n\
                 touch {root}/over"
            ));
        });
        let Some(cluster) = cluster else { return };
        let worker = cluster.worker("w");
        let hub = cluster.hub("hub");
        let tries = || cluster.env.read("tries").lines().count();
        eventually("the second try runs", || tries() == 2);
        hub.kill();
        let end = || {
            cluster.env.write("go", "");
            eventually("the try has ended", || cluster.env.path("over").exists());
        };
        if ends_without_hub {
            end();
        }
        let hub = cluster.hub("hub");
        eventually("the issue is seen again", || {
            let status = cluster.status(&hub);
            status.is_some_and(|status| !status["last_pull"].is_null())
        });
        if !ends_without_hub {
            end();
        }
        // Nothing has moved it, and its only attempt is used up.
        eventually("the stage is parked", || {
            let status = cluster.status(&hub).unwrap_or_default();
            status["parked"][0]["reason"] == "no_progress"
        });
        assert_eq!(tries(), 2, "ends without a hub: {ends_without_hub}");
        hub.stop();
        worker.stop();
    }
}

#[test]
fn second_worker_of_the_same_name_is_refused() {
    let Some(cluster) = scripted("ok") else {
        return;
    };
    let worker = cluster.worker("w");
    let second = cluster.start_worker("w");
    assert_eq!(second.ended().code(), Some(5));
    assert_contains(
        worker.log(),
        "the worker `w` is already running for this workflow",
    );
    worker.stop();
}

#[test]
fn issue_goes_on_with_its_saved_work_on_another_worker() {
    const WORK: &str = "echo \"$VIK_ATTEMPT_ID\" >>attempts; while [ ! -e go ]; do sleep 0.05; done";
    let agent = json!({"runtime": "command", "command": ["sh", "-c", WORK]});
    let cluster = Cluster::with(&[("1", "todo")], agent, "Work.", |flow, env| {
        let origin = env.path("origin.git");
        let made = env
            .command("git")
            .args(["init", "--quiet", "--bare"])
            .arg(&origin)
            .status();
        assert!(made.unwrap().success());
        flow["workspace"]["durable"] = json!(true);
        let clone = format!(
            "git clone --quiet {0} . && git switch --quiet -c issue && git commit --quiet --allow-empty -m first",
            origin.display()
        );
        flow["issue"]["hooks"] = json!({"after_create": clone});
    });
    let Some(cluster) = cluster else { return };
    let attempts = |worker: &str| {
        let folder = cluster
            .env
            .work()
            .join(worker)
            .join("home/workers")
            .join(worker)
            .join("workflows");
        let root = std::fs::read_dir(folder).ok()?.next()?.ok()?.path();
        let text = std::fs::read_to_string(root.join("issues/1/attempts")).ok()?;
        Some((text.lines().count(), root))
    };
    let first = cluster.worker("first");
    let hub = cluster.hub("hub");
    eventually("the agent works", || {
        attempts("first").is_some_and(|(count, _)| count == 1)
    });
    first.stop();
    let second = cluster.worker("second");
    eventually("the agent goes on", || {
        attempts("second").is_some_and(|(count, _)| count == 2)
    });
    std::fs::write(attempts("second").unwrap().1.join("issues/1/go"), "").unwrap();
    wait_for_state(&cluster, "1", "done");
    hub.stop();
    second.stop();
}
