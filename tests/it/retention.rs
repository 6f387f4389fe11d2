//! Old data is removed while the daemon runs: what nobody needs, and nothing else.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use vik_core::changes::Decision;
use vik_store::ledger::Reader;

use crate::support::*;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// A world whose pull lists only open issues, with an adjustable wall clock.
struct Clocked(World);

impl Clocked {
    fn new(issues: &[(&str, &str)]) -> Self {
        let world = World::new(issues);
        let filter =
            "import json,sys; print(json.dumps([i for i in json.load(sys.stdin) if i['state'] != 'done']))";
        let pull = format!("{} | python3 -c \"{filter}\"", world.tracker.pull_command());
        Self(world.set("/issues/pull/command", json!(pull)))
    }

    fn set(self, pointer: &str, value: Value) -> Self {
        Self(self.0.set(pointer, value))
    }

    fn start(&self) -> Running {
        let daemon = self.0.start_with_points(&["run"]);
        eventually("the daemon runs", || self.0.status().is_some());
        daemon
    }

    fn retention(&self) -> Value {
        self.0.status().unwrap()["retention"].clone()
    }

    /// Waits until nothing runs and a later pull has shown it.
    fn idle(&self, issues: &[&str]) {
        eventually("the attempts have ended", || {
            let is_done = |issue: &&str| self.0.tracker.state(issue).as_deref() == Some("done");
            issues.iter().all(is_done) && self.0.status().unwrap()["sessions"] == json!([])
        });
        let pulls = || self.0.status().unwrap()["pulls"]["ok"].as_u64().unwrap();
        let before = pulls();
        eventually("two pulls ended", || pulls() > before + 1);
    }

    /// Sets the wall clock off by this number of seconds, and waits for a search after that.
    fn jump(&self, seconds: i64) {
        let before = self.retention()["last_scan_at"].clone();
        self.0.jump(seconds);
        eventually("old data was searched for", || {
            let last = &self.retention()["last_scan_at"];
            !last.is_null() && *last != before
        });
    }

    fn decisions(&self, issue: &str, kind: &str) -> Vec<Decision> {
        let ledger = Reader::open(&self.0.home().join("service")).unwrap().unwrap();
        let decisions = ledger.decisions(Some(&issue.into()), 100).unwrap();
        decisions
            .into_iter()
            .filter(|decision| decision.kind.as_str() == kind)
            .collect()
    }
}

#[test]
fn workspaces_of_unlisted_issues_are_removed_if_they_are_clean() {
    let hook = "echo {{ issue.id }} >> {{ workflow_dir }}/removed";
    let scene =
        Clocked::new(&[("1", "todo"), ("2", "todo")]).set("/issue/hooks", json!({ "before_remove": hook }));
    let scene = Clocked(
        scene
            .0
            .script("{{ 'touch work; ok' if issue.id == '2' else 'ok' }}"),
    );
    let world = &scene.0;
    let mut daemon = scene.start();
    scene.idle(&["1", "2"]);
    scene.jump(2 * HOUR);
    assert_eq!(scene.retention()["unlisted_issues"], 2);
    assert!(world.workspace("1").exists());
    let text = world.vik(&["explain", "1"]).expect(0).out;
    assert_contains(&text, "workspace: no pull has listed the issue since");
    // A daemon that dies loses no time.
    daemon.signal(Signal::SIGKILL);
    eventually("it is dead", || daemon.is_over());
    drop(daemon);
    let daemon = scene.start();
    scene.jump(2 * HOUR + 7 * DAY);
    eventually("the clean one is removed", || !world.workspace("1").exists());
    eventually("the other one was checked", || {
        scene.retention()["kept"] != json!([])
    });
    let view = scene.retention();
    assert_eq!(view["kept"][0]["issue_id"], "2");
    assert_eq!(
        view["kept"][0]["reason"],
        "it contains files and is not a git work tree"
    );
    assert_eq!(view["removed"]["workspaces"], 1);
    assert_eq!(view["unlisted"], "7d");
    assert!(world.workspace("2").join("work").exists());
    assert_eq!(
        world.env.read("work/removed"),
        "1\n",
        "the hook ran for the removed one only"
    );
    let why = scene.decisions("1", "removing_workspace").remove(0).detail;
    assert_eq!(why, "no pull has listed the issue for 7d (`issue.unlisted`)");
    let text = world.vik(&["explain", "2"]).expect(0).out;
    assert_contains(&text, "it contains files and is not a git work tree");
    let text = world.vik(&["status"]).expect(0).out;
    assert_contains(&text, "retention: unlisted 7d");
    // Sessions of an issue with a workspace are kept with it.
    assert!(!world.sessions("1").is_empty());
    scene.jump(100 * DAY);
    eventually("old sessions are removed", || world.sessions("1").is_empty());
    assert!(!world.sessions("2").is_empty());
    let why = scene.decisions("1", "removing_expired").remove(0).detail;
    assert_eq!(
        why,
        "the sessions of the issue ended more than 90d ago (`retention.sessions`)"
    );
    // The issue comes back to the life that it had.
    world.tracker.move_to("1", "todo");
    eventually("it runs again", || !world.sessions("1").is_empty());
    scene.idle(&["1"]);
    let life = world.explained("1")["now"]["life"].clone();
    assert_eq!(life["attempts"], 2);
    daemon.stop().expect(0);
    world.env.assert_nothing_left();
}

#[test]
fn ledger_and_trace_lose_only_old_records() {
    let scene = Clocked::new(&[("1", "todo"), ("2", "todo")])
        .set("/retention", json!({"ledger": "30d", "trace": "30d"}));
    let scene = Clocked(scene.0.script("touch work; ok"));
    let world = &scene.0;
    let daemon = scene.start();
    scene.idle(&["1", "2"]);
    scene.jump(40 * DAY);
    eventually("old attempts and records are removed", || {
        let removed = scene.retention()["removed"].clone();
        removed["attempts"] == 2 && removed["trace_records"] == 1
    });
    let check = world.vik(&["trace", "verify", "--json"]).expect(0).json();
    assert_eq!(check["ok"], true);
    assert_eq!(check["records"], 1);
    assert_eq!(check["removed"], 1);
    let ledger = Reader::open(&world.home().join("service")).unwrap().unwrap();
    assert!(ledger.attempts(None, 10).unwrap().is_empty());
    world.tracker.move_to("1", "todo");
    world.wait_for_state("1", "done");
    scene.idle(&["1"]);
    let life = world.explained("1")["now"]["life"].clone();
    assert_eq!(life["attempts"], 2, "the ledger still counts the first attempt");
    daemon.stop().expect(0);
    world.vik(&["trace", "verify"]).expect(0);
}

#[test]
fn folder_that_cannot_be_removed_stops_nothing() {
    let scene = Clocked::new(&[("1", "todo")]).set("/retention", json!({"sessions": "30d"}));
    let world = &scene.0;
    let daemon = scene.start();
    scene.idle(&["1"]);
    scene.jump(2 * HOUR);
    scene.jump(8 * DAY);
    eventually("the workspace is removed", || !world.workspace("1").exists());
    let sessions = world.home().join("sessions");
    let mode = |mode| std::fs::set_permissions(&sessions, std::os::unix::fs::PermissionsExt::from_mode(mode));
    mode(0o500).unwrap();
    scene.jump(40 * DAY);
    let is_root = nix::unistd::Uid::effective().is_root();
    if !is_root {
        eventually("the failure is shown", || {
            scene.retention()["kept"][0]["data"] == "sessions"
        });
        assert!(!world.sessions("1").is_empty());
    }
    mode(0o700).unwrap();
    scene.jump(42 * DAY);
    eventually("it is tried again", || world.sessions("1").is_empty());
    daemon.stop().expect(0);
}
