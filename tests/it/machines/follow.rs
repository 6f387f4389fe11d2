//! Requests to a hub that follows.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use vik_testkit::HttpClient;

use super::cluster::{Cluster, Machine};
use crate::support::{assert_contains, eventually};

/// Starts a server for two issues whose attempts a person must approve, and which run until `go`
/// exists in their workspace.
fn cluster() -> Option<Cluster> {
    let agent = json!({"runtime": "command", "command": ["vik-scripted-agent"]});
    let script = "SCRIPT: touch up; line hello-from-the-agent; wait-file go 300000; ok";
    Cluster::with(&[("1", "todo"), ("2", "todo")], agent, script, |flow, _| {
        flow["issue"]["stages"]["work"]["approve"] = json!({"before": true});
        flow["http"] = json!({"port": 0});
    })
}

fn status(cluster: &Cluster, hub: &Machine, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    eventually("the status is as expected", || {
        found = cluster.status(hub).unwrap_or_default();
        is_wanted(&found)
    });
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of_entry = |entry: std::fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => files(&entry.path()),
        false => vec![entry.path()],
    };
    entries.flat_map(of_entry).collect()
}

/// Returns the control sockets of all hubs.
fn sockets(cluster: &Cluster) -> usize {
    let files = files(&cluster.env.state());
    let is_socket = |path: &&PathBuf| std::fs::metadata(path).is_ok_and(|file| file.file_type().is_socket());
    files.iter().filter(is_socket).count()
}

fn workspace(cluster: &Cluster, issue: &str) -> Option<PathBuf> {
    let folder = cluster.env.work().join("w/home/workers/w/workflows");
    let folder = std::fs::read_dir(folder).ok()?.next()?.ok()?.path();
    Some(folder.join("issues").join(issue))
}

fn wait_for_agent(cluster: &Cluster, issue: &str) {
    eventually("the agent runs", || {
        workspace(cluster, issue).is_some_and(|path| path.join("up").exists())
    });
}

/// Returns a client of the API of a hub, with its token.
fn api_of(cluster: &Cluster, address: &str, pid: i32) -> HttpClient {
    let info = files(&cluster.env.state()).into_iter().find(|path| {
        path.ends_with("instance.json")
            && serde_json::from_slice::<Value>(&std::fs::read(path).unwrap())
                .is_ok_and(|info| info["process"]["pid"] == pid)
    });
    let token = std::fs::read_to_string(info.unwrap().with_file_name("api.token")).unwrap();
    HttpClient::tcp(address).with_header("Authorization", &format!("Bearer {}", token.trim()))
}

#[test]
fn follower_answers_as_the_hub_that_leads_before_and_after_a_takeover() {
    let Some(cluster) = cluster() else { return };
    let worker = cluster.worker("w");
    let first = cluster.hub("first");
    first.wait_for(" leading");
    let second = cluster.hub("second");
    second.wait_for("following: ");
    let waits = |count| move |status: &Value| status["approvals"].as_array().map(Vec::len) == Some(count);
    let led = status(&cluster, &first, waits(2));
    assert_eq!(led["pid"], first.pid());
    assert!(
        led["hub"]["leader"].is_string() && led["hub"]["follower"].is_null(),
        "{led}"
    );
    let followed = status(&cluster, &second, waits(2));
    assert_eq!(followed["pid"], first.pid());
    assert_eq!(followed["approvals"], led["approvals"]);
    assert_eq!(followed["hub"]["leader"], led["hub"]["leader"]);
    assert!(followed["hub"]["follower"].is_string(), "{followed}");
    assert_ne!(followed["api"], led["api"]);
    let host = followed["hub"]["follower"].as_str().unwrap();
    let text = cluster.vik(&second, &["status"]);
    assert_contains(text, format!("hub {host} leads; this one, on {host}, follows"));
    assert_contains(cluster.vik(&second, &["explain", "1"]), "vik approve");
    assert_contains(
        cluster.fails(&second, &["approve", "none"]),
        "unknown issue `none`",
    );
    let address = followed["api"]["address"].as_str().unwrap();
    let api = api_of(&cluster, address, second.pid());
    let mut events = api.events("/api/v1/events");
    cluster.vik(&second, &["approve", "1"]);
    wait_for_agent(&cluster, "1");
    assert!(events.next().is_some(), "the dashboard learns of it");
    assert_contains(cluster.vik(&first, &["show", "1"]), format!(") on {host}"));
    eventually("the follower has the log", || {
        let logs = cluster.env.vik(["logs", "--issue", "1", "--workflow"]);
        let logs = { logs }.arg(&second.workflow).output().unwrap();
        String::from_utf8_lossy(&logs.stdout).contains("hello-from-the-agent")
    });
    let stranger = HttpClient::tcp(address);
    let _ = stranger
        .post("/api/v1/issues/2/approve", &json!({}))
        .expect_status(401);
    first.kill();
    second.wait_for(" leading");
    let first = cluster.hub("first");
    first.wait_for("following: ");
    let followed = status(&cluster, &first, |status| status["pid"] == second.pid());
    assert!(followed["hub"]["follower"].is_string(), "{followed}");
    // The same server, which has not been restarted, serves it now.
    let state = api.get("/api/v1/state").expect_status(200).json();
    assert!(state["hub"]["follower"].is_null(), "{state}");
    let address = followed["api"]["address"].as_str().unwrap();
    let api = api_of(&cluster, address, first.pid());
    let _ = api
        .post("/api/v1/issues/2/approve", &json!({}))
        .expect_status(200);
    wait_for_agent(&cluster, "2");
    cluster.vik(&first, &["cancel", "2"]);
    status(&cluster, &first, |status| {
        status["parked"]
            .as_array()
            .is_some_and(|parked| parked.len() == 1)
    });
    assert_contains(cluster.vik(&first, &["explain", "2"]), "cancelled");
    assert_contains(
        cluster.vik(&first, &["logs", "--issue", "2"]),
        "hello-from-the-agent",
    );
    std::fs::write(workspace(&cluster, "1").unwrap().join("go"), "").unwrap();
    eventually("issue 1 is done", || {
        cluster.tracker.state("1").as_deref() == Some("done")
    });
    assert_eq!(cluster.moves(), ["move 1 done"]);
    drop(events);
    first.stop();
    second.stop();
    worker.stop();
}

/// A script whose first attempt asks a question, and whose second one runs until `go` exists.
const ASKS: &str = r#"SCRIPT: count n; on 1 run printf '{"question":"Which table?","choices":["old","new"]}\n' >> "$VIK_QUESTIONS"; on 2 touch up; on 2 wait-file go 300000; ok"#;

#[test]
fn follower_passes_on_each_command_of_a_person() {
    let agent = json!({"runtime": "command", "command": ["vik-scripted-agent"]});
    let cluster = Cluster::with(&[("1", "todo"), ("2", "todo")], agent, ASKS, |flow, _| {
        flow["issue"]["stages"]["work"]["approve"] = json!({"before": true});
    });
    let Some(cluster) = cluster else { return };
    let worker = cluster.worker("w");
    let leader = cluster.hub("leader");
    leader.wait_for(" leading");
    let follower = cluster.hub("follower");
    follower.wait_for("following: ");
    let ask = |args: &[&str]| cluster.vik(&follower, args);
    let hold = |hub: &Machine| {
        let explained: Value = serde_json::from_str(&cluster.vik(hub, &["explain", "1", "--json"])).unwrap();
        let reason = &explained["now"]["stages"][0]["hold"]["reason"];
        reason.as_str().unwrap_or_default().to_owned()
    };
    // What the hub that leads has then.
    let leads_with = |list: &str, count: usize| {
        status(&cluster, &leader, |status| {
            status[list].as_array().is_some_and(|list| list.len() == count)
        })
    };
    leads_with("approvals", 2);
    ask(&["pause", "1"]);
    leads_with("paused_issues", 1);
    ask(&["resume", "1"]);
    leads_with("paused_issues", 0);
    assert_eq!([hold(&follower), hold(&leader)], ["approval", "approval"]);
    ask(&["deny", "2", "--message", "Not now."]);
    leads_with("parked", 1);
    assert_contains(ask(&["show", "2"]), "Not now.");
    assert_contains(cluster.fails(&follower, &["deny", "2"]), "no pending approval");
    ask(&["retry", "2"]);
    leads_with("approvals", 2);
    ask(&["message", "1", "Use UTC."]);
    ask(&["approve", "1"]);
    leads_with("questions", 1);
    assert_contains(ask(&["status"]), "Which table?");
    assert_contains(
        cluster.fails(&follower, &["answer", "1", "--choice", "3"]),
        "no choice 3",
    );
    ask(&["answer", "1", "--choice", "2"]);
    leads_with("questions", 0);
    wait_for_agent(&cluster, "1");
    ask(&["message", "1", "Use UTC, please."]);
    let runs: Value = serde_json::from_str(&ask(&["runs", "--json"])).unwrap();
    assert_eq!(runs[0]["attempts"].as_array().map(Vec::len), Some(2), "{runs}");
    let report: Value = serde_json::from_str(&ask(&["report", "--json"])).unwrap();
    assert!(report.is_object(), "{report}");
    assert_contains(ask(&["takeover", "1"]), "the worker `w`");
    leads_with("sessions", 0);
    assert_eq!(hold(&leader), "taken_over");
    ask(&["handback", "1"]);
    assert_ne!(hold(&leader), "taken_over");
    assert_eq!(cluster.moves(), [""; 0]);
    follower.stop();
    leader.stop();
    worker.stop();
}

#[test]
fn detached_hub_is_ready_when_it_follows_and_stops_alone() {
    let Some(cluster) = cluster() else { return };
    let first = cluster.hub("first");
    first.wait_for(" leading");
    let second = cluster.detached_hub("second");
    assert_contains(cluster.vik_at(&second, &["status"]), "follows");
    assert_eq!(sockets(&cluster), 2);
    cluster.vik_at(&second, &["stop"]);
    assert_eq!(sockets(&cluster), 1);
    let second = cluster.detached_hub("second");
    cluster.vik_at(&second, &["drain", "--wait"]);
    assert_eq!(sockets(&cluster), 1);
    let third = cluster.hub("third");
    third.wait_for("following: ");
    third.stop();
    assert_eq!(sockets(&cluster), 1);
    // Without the server, a hub that follows has no answer, and ends as well.
    let second = cluster.hub("second");
    second.wait_for("following: ");
    cluster.stop_server();
    first.kill();
    for args in [vec!["status"], vec!["explain", "1"], vec!["logs"]] {
        assert_contains(cluster.fails(&second, &args), "no hub leads that answers");
    }
    cluster.vik(&second, &["stop"]);
    assert!(second.ended().success());
}
