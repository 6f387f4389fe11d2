//! The schedule: entries run when they are due, once for each time, and not while the daemon is
//! paused.

use serde_json::{Value, json};

use crate::support::*;

/// A world that polls once an hour, with an adjustable clock.
struct Clocked {
    world: World,
}

impl Clocked {
    fn new(schedule: &Value) -> Self {
        let world = World::new(&[])
            .set("/issues/pull/idle_sec", json!("1h"))
            .set("/schedule", schedule.clone());
        Self { world }
    }

    fn start(&self) -> Running {
        let daemon = self.world.start_with_points(&["run"]);
        eventually("the daemon has pulled", || {
            let status = self.world.status();
            status.is_some_and(|status| !status["last_pull"].is_null())
        });
        daemon
    }

    /// Sets the wall clock off by this number of seconds. The edit of the workflow makes the daemon
    /// read it.
    fn jump(&mut self, seconds: i64) {
        self.world.jump(seconds);
        self.world
            .put("/loop", json!({"max_issue_concurrency": seconds / 86_400 + 1}));
    }

    fn entry(&self, name: &str) -> Value {
        let view = self.world.vik(&["schedule", "--json"]).expect(0).json();
        let entries = view["entries"].as_array().unwrap();
        entries
            .iter()
            .find(|entry| entry["name"] == name)
            .unwrap()
            .clone()
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.world.env.work().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn has(&self, file: &str) -> bool {
        self.world.env.work().join(file).exists()
    }
}

/// Returns a pattern that is far from now in both directions.
fn yearly() -> &'static str {
    "@yearly"
}

#[test]
fn entry_runs_when_due_and_triggers_a_pull() {
    let scene = Clocked::new(&json!({
        "tick": {"cron": "* * * * * *", "command": "echo $VIK_SCHEDULE_DUE >> ran; echo $VIK_SCHEDULE_ENTRY > name"},
    }));
    let daemon = scene.start();
    eventually("it ran three times", || scene.lines("ran").len() >= 3);
    eventually("pulls follow", || {
        scene.world.status().unwrap()["pulls"]["ok"].as_u64() >= Some(3)
    });
    daemon.stop().expect(0);
    let ran = scene.lines("ran");
    let mut once = ran.clone();
    once.sort();
    once.dedup();
    assert_eq!(once, ran, "each time once, in order");
    assert_eq!(scene.lines("name"), ["tick"]);
    assert_eq!(scene.entry("tick")["last"]["due_at"], json!(ran.last().unwrap()));
    // The next daemon does not run one of these times again.
    let daemon = scene.start();
    eventually("the daemon continues", || scene.lines("ran").len() > ran.len());
    daemon.stop().expect(0);
    let mut all = scene.lines("ran");
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn entry_can_pull_and_reports_failure_and_timeout() {
    let scene = Clocked::new(&json!({
        "look": {"cron": "* * * * * *", "pull": true},
        "bad": {"cron": "* * * * * *", "command": "echo out; echo why it failed >&2; exit 3"},
        "slow": {"cron": "* * * * * *", "command": "echo $$ >> slow; sleep 600", "timeout": "100ms"},
    }));
    let daemon = scene.start();
    eventually("it was looked at without a poll", || {
        scene.world.status().unwrap()["pulls"]["ok"].as_u64() >= Some(2)
    });
    // Reads both fields at once: a second later the entry runs again.
    let detail = wait_for_value(LONG, || {
        let last = scene.entry("bad")["last"].clone();
        (last["result"] == "failed").then(|| last["detail"].as_str().unwrap_or_default().to_owned())
    });
    let detail = detail.expect("the failure is shown");
    assert_contains(&detail, "exited with 3");
    assert_contains(&detail, "why it failed");
    eventually("the slow one is stopped", || {
        scene.entry("slow")["last"]["result"] == "timed_out"
    });
    eventually("and comes again", || scene.lines("slow").len() >= 2);
    daemon.stop().expect(0);
    let text = scene.world.vik(&["schedule"]).expect(0).out;
    assert_contains(&text, "NEXT");
    assert_contains(&text, "slow");
}

#[test]
fn entry_never_runs_twice_at_once() {
    let scene = Clocked::new(&json!({
        "long": {"cron": "* * * * * *", "command": "echo x >> began; touch up; while [ ! -e go ]; do sleep 0.05; done", "timeout": "5m"},
    }));
    let daemon = scene.start();
    eventually("it runs", || scene.has("up"));
    eventually("the next time is skipped", || {
        !scene.entry("long")["skipped"].is_null()
    });
    assert_eq!(scene.lines("began").len(), 1);
    assert_eq!(
        scene.entry("long")["skipped"]["why"],
        "the previous run has not ended"
    );
    scene.world.env.write("work/go", "");
    eventually("the daemon continues", || scene.lines("began").len() >= 2);
    daemon.stop().expect(0);
}

#[test]
fn stop_ends_a_running_entry() {
    let scene = Clocked::new(&json!({
        "long": {"cron": "* * * * * *", "command": "touch up; sleep 600", "timeout": "1h"},
    }));
    let daemon = scene.start();
    eventually("it runs", || scene.has("up"));
    daemon.stop().expect(0);
    assert_eq!(scene.entry("long")["last"]["result"], "stopped");
}

#[test]
fn pause_skips_due_entries() {
    let scene = Clocked::new(&json!({"tick": {"cron": "* * * * * *", "command": "echo x >> ran"}}));
    let daemon = scene.start();
    scene.world.vik(&["pause"]).expect(0);
    eventually("a time is skipped", || {
        scene.entry("tick")["skipped"]["why"] == "everything is paused"
    });
    let ran = scene.lines("ran").len();
    scene.world.vik(&["continue"]).expect(0);
    eventually("the daemon continues", || scene.lines("ran").len() > ran);
    daemon.stop().expect(0);
}

#[test]
fn missed_times_are_skipped_or_caught_up_once() {
    let mut scene = Clocked::new(&json!({
        "missed": {"cron": yearly(), "command": "echo x >> missed"},
        "made-up": {"cron": yearly(), "time_zone": "Asia/Tokyo", "command": "echo x >> made-up", "catch_up": true},
    }));
    let daemon = scene.start();
    assert!(!scene.entry("missed")["next_due"].is_null());
    assert_eq!(scene.entry("made-up")["last"], Value::Null);
    // While the daemon runs, the clock jumps over both times; three years cause one run.
    scene.jump(3 * 366 * 86_400);
    eventually("one run makes up for it", || scene.lines("made-up").len() == 1);
    eventually("the other schedule is listed", || {
        !scene.entry("missed")["skipped"].is_null()
    });
    eventually("it has ended", || {
        scene.entry("made-up")["last"]["result"] == "ok"
    });
    daemon.stop().expect(0);
    // The clock was wrong: it goes back, and jumps over one of the times once more, with a new
    // daemon.
    scene.jump(0);
    let daemon = scene.start();
    scene.jump(400 * 86_400);
    eventually("it is made up for again", || scene.lines("made-up").len() == 2);
    daemon.stop().expect(0);
    assert!(!scene.has("missed"));
}

#[test]
fn entries_follow_an_edit_and_run_once_ignores_them() {
    let mut scene = Clocked::new(&json!({"first": {"cron": yearly(), "command": "true"}}));
    let daemon = scene.start();
    scene.world.put(
        "/schedule",
        json!({"second": {"cron": "* * * * * *", "command": "echo x >> ran"}}),
    );
    eventually("it runs", || !scene.lines("ran").is_empty());
    daemon.stop().expect(0);
    std::fs::remove_file(scene.world.env.work().join("ran")).unwrap();
    scene.world.vik(&["run", "--once"]).expect(0);
    assert!(!scene.has("ran"));
    let bad = json!({"n": {"cron": "61 * * * *", "time_zone": "Europe/Berln", "pull": true}});
    scene.world.put("/schedule", bad);
    let done = scene.world.vik(&["schedule"]).expect(3);
    assert_contains(&done.err, "invalid cron pattern");
    assert_contains(&done.err, "Europe/Berlin");
}
