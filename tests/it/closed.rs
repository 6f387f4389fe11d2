//! Closed issues and what remains of them; `run --once` where nothing can be done.

use serde_json::json;

use crate::support::*;

/// Returns a world whose pull lists only open issues, and whose `show` command returns all.
fn open_only(issues: &[(&str, &str)]) -> World {
    let world = World::new(issues);
    let tracker = world.tracker.path().display().to_string();
    let filter =
        "import json,sys; print(json.dumps([i for i in json.load(sys.stdin) if i['state'] != 'done']))";
    let pull = format!("{} | python3 -c \"{filter}\"", world.tracker.pull_command());
    world
        .set("/issues/pull/command", json!(pull))
        .set(
            "/issues/show",
            json!({"command": format!("vik-fake-tracker {tracker} show {{{{ issue.id }}}}")}),
        )
        .set("/issue/terminal_states", json!(["done"]))
        .set("/issue/remove_workspace", json!("always"))
}

fn workspaces(world: &World) -> usize {
    list(world.workspace("1").parent().unwrap()).len()
}

#[test]
fn workspaces_of_issues_closed_by_their_hooks_are_removed() {
    let names: Vec<_> = (1..=25).map(|number: u32| number.to_string()).collect();
    let issues: Vec<_> = names.iter().map(|name| (name.as_str(), "todo")).collect();
    let world = open_only(&issues);
    world.once().expect(0);
    assert_eq!(workspaces(&world), 0, "none is left to a restart");
    for name in &names {
        world.tracker.move_to(name, "todo");
    }
    let daemon = world.daemon();
    eventually("all are done again", || {
        names
            .iter()
            .all(|name| world.tracker.state(name).as_deref() == Some("done"))
    });
    eventually("and their workspaces are gone", || workspaces(&world) == 0);
    daemon.stop().expect(0);
}

#[test]
fn closed_issue_is_no_longer_parked() {
    let world = open_only(&[("1", "todo"), ("2", "todo")])
        .script("fail no")
        .attempts(1);
    world.tracker.set("2", "blocked_by", json!(["1"]));
    let daemon = world.daemon();
    let parked = || world.status().unwrap()["parked"].as_array().unwrap().len();
    eventually("it is parked", || parked() == 1);
    eventually("its dependent names the root cause", || {
        let waiting = world.status().unwrap()["waiting"].clone();
        waiting[0]["root_cause"] == json!({"issue_id": "1", "stage": "work", "reason": "attempts_used_up"})
    });
    let text = world.vik(&["explain", "2"]).out;
    assert_contains(&text, "blocked by 1, which is parked: attempts_used_up");
    daemon.stop().expect(0);
    let text = world
        .vik(&["explain", "2"])
        .out
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_contains(&text, "no daemon is running");
    assert_contains(&text, "blocked by 1, which is parked: attempts_used_up");
    let daemon = world.daemon();
    world.tracker.move_to("1", "done");
    world.wait_for_status("the issue has no parked stage", |status| {
        status["parked"]
            .as_array()
            .unwrap()
            .iter()
            .all(|parked| parked["issue_id"] != "1")
    });
    eventually("its workspace is gone", || !world.workspace("1").exists());
    daemon.stop().expect(0);
    assert!(!world.vik(&["explain", "1"]).out.contains("parked ("));
}

#[test]
fn explain_names_a_cycle_without_a_daemon() {
    let world = World::new(&[("1", "todo"), ("2", "todo")]);
    world.tracker.set("1", "blocked_by", json!(["2"]));
    world.tracker.set("2", "blocked_by", json!(["1"]));
    world.once().expect(10);
    let text = world.vik(&["explain", "1"]).out;
    assert_contains(&text, "these issues wait for each other: 1, 2");
}

#[test]
fn run_once_reports_a_state_that_differs_only_by_case() {
    let world = World::new(&[("1", "Todo"), ("2", "elsewhere")]);
    let done = world.once().expect(8);
    assert_contains(&done.out, "did you mean `todo` (stage `work`)");
    assert!(!done.out.contains("nothing to do"), "{}", done.out);
    // A terminal state is not a spelling mistake: `--once` succeeds.
    let world = world.set("/issue/terminal_states", json!(["Todo"]));
    world.once().expect(0);
}

#[test]
fn run_once_reports_a_parked_issue() {
    let world = World::new(&[("1", "todo")]).script("fail no").attempts(1);
    world.once().expect(1);
    for _ in 0..2 {
        let done = world.once().expect(10);
        assert_contains(&done.out, "1 parked");
        assert_contains(&done.out, "1 work: attempts_used_up");
        assert!(!done.out.contains("nothing to do"), "{}", done.out);
        // It still waits when the pull does not list it any more.
        world.tracker.remove("1");
    }
}

#[test]
fn run_once_fails_when_a_failed_attempt_closed_its_issue() {
    for attempts in [1, 3] {
        for has_show in [false, true] {
            let world = open_only(&[("1", "todo")])
                .script("message hi; hang")
                .work("stall_timeout", json!("1s"))
                .attempts(attempts);
            let close = world.tracker.move_command("done");
            let mut world = world.work("hooks", json!({ "after_run": close }));
            if !has_show {
                world.put("/issues/show", json!({ "command": null }));
            }
            let done = world.once();
            assert_eq!(done.code, 1, "{attempts} {has_show}: {}", done.out);
        }
    }
}
