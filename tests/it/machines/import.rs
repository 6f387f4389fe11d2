//! A queue moves from one machine to several.

use serde_json::{Value, json};

use super::cluster::Cluster;
use crate::support::eventually;

#[test]
fn hub_continues_with_the_decisions_of_its_machine() {
    let agent = json!({"runtime": "command", "command": ["vik-scripted-agent"]});
    let Some(cluster) = Cluster::start(&[("1", "todo")], agent, "SCRIPT: exit 1") else {
        return;
    };
    let alone = cluster.run_alone("hub");
    assert_eq!(
        alone.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&alone.stderr)
    );
    let worker = cluster.worker("w");
    let hub = cluster.hub("hub");
    hub.wait_for("the decisions of this machine are now the start of the shared log");
    hub.wait_for(" leading");
    let parked = || {
        let status = cluster.status(&hub).unwrap_or_default();
        let parked = status["parked"].as_array().cloned().unwrap_or_default();
        let mut issues: Vec<_> = parked.iter().map(|run| run["issue_id"].to_string()).collect();
        issues.sort();
        issues
    };
    assert_eq!(parked(), [r#""1""#], "it may make one attempt, which it has made");
    cluster.tracker.add("2", "Issue 2", "todo");
    eventually("the worker has tried the new issue", || {
        parked() == [r#""1""#, r#""2""#]
    });
    let runs: Value = serde_json::from_str(&cluster.vik(&hub, &["runs", "--json"])).unwrap();
    let attempts = runs.as_array().unwrap().iter();
    let attempts: Vec<_> = attempts
        .map(|run| run["attempts"].as_array().unwrap().len())
        .collect();
    assert_eq!(attempts, [1, 1], "{runs:#}");
    for issue in ["1", "2"] {
        let log = cluster.vik(&hub, &["logs", "--issue", issue]);
        assert!(log.contains("exited with code 1"), "{log}");
    }
    hub.stop();
    worker.stop();
}
