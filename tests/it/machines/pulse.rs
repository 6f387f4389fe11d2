//! An agent that records when it runs, until its issue is released.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use vik_testkit::wait_for_value;

use super::cluster::Cluster;
use crate::support::LONG;

/// Takes a lock of the issue while it runs, notes who else has it, and writes a time each 50 ms.
const SCRIPT: &str = r#"
dir=$(dirname "$HOME")/shared
exec 9>>"$dir/$VIK_ISSUE_ID.lock"
flock -n 9 || echo "$VIK_ISSUE_ID" >>"$dir/overlaps"
worker=${PWD%%/workflows/*}
echo "$VIK_ISSUE_ID $(date +%s%N) ${worker##*/} $VIK_ATTEMPT_ID" >>"$dir/starts"
while [ ! -e "$dir/$VIK_ISSUE_ID.go" ]; do
  date +%s%N >>"$dir/$VIK_ATTEMPT_ID.pulse"
  sleep 0.05
done
"#;

/// The start of an agent.
#[derive(Clone, Debug)]
pub struct Start {
    /// In nanoseconds since 1970, as all times here.
    pub at: u128,
    pub worker: String,
    pub attempt: String,
}

pub fn agent() -> Value {
    json!({"runtime": "command", "command": ["sh", "-c", SCRIPT]})
}

pub fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

/// Returns the starts of the agents of an issue.
pub fn starts(cluster: &Cluster, issue: &str) -> Vec<Start> {
    let text = cluster.env.read("shared/starts");
    let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let of_issue = lines.filter(|fields| fields.len() == 4 && fields[0] == issue);
    of_issue
        .map(|fields| Start {
            at: fields[1].parse().unwrap(),
            worker: fields[2].to_owned(),
            attempt: fields[3].to_owned(),
        })
        .collect()
}

/// Waits for the start number `count` of an issue.
#[track_caller]
pub fn wait_for_start(cluster: &Cluster, issue: &str, count: usize) -> Start {
    let start = wait_for_value(LONG, || starts(cluster, issue).get(count - 1).cloned());
    start.unwrap_or_else(|| panic!("agent {count} of issue {issue} does not start"))
}

/// Returns when an agent ran last.
pub fn last_pulse(cluster: &Cluster, start: &Start) -> u128 {
    let text = cluster.env.read(format!("shared/{}.pulse", start.attempt));
    text.lines().last().map_or(start.at, |line| line.parse().unwrap())
}

/// Lets the agents of an issue end.
pub fn release(cluster: &Cluster, issue: &str) {
    cluster.env.write(format!("shared/{issue}.go"), "");
}

/// Returns the issues on which two agents worked at once.
pub fn overlaps(cluster: &Cluster) -> String {
    cluster.env.read("shared/overlaps")
}
