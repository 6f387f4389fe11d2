//! Running attempts and leftovers are compared with the state of the tracker.

use serde_json::{Value, json};
use vik_core::decision_kind::DecisionKind;
use vik_store::ledger::Reader;

use crate::support::*;

/// Returns a world whose issue 1 is in work by an agent that does not end.
fn hanging() -> World {
    World::new(&[("1", "todo")]).script("touch up; hang")
}

fn show(world: &World) -> String {
    format!(
        "vik-fake-tracker {} show {{{{ issue.id }}}}",
        world.tracker.path().display()
    )
}

fn sessions(world: &World) -> usize {
    world.status().unwrap()["sessions"].as_array().unwrap().len()
}

/// Returns whether the ledger has a decision of this kind about an issue.
pub fn decided(world: &World, issue: &str, kind: &DecisionKind) -> bool {
    let ledger = Reader::open(&world.home().join("service")).unwrap().unwrap();
    let decisions = ledger.decisions(Some(&issue.into()), 100).unwrap();
    decisions.iter().any(|decision| decision.kind == *kind)
}

#[test]
fn terminal_state_ends_the_run_after_a_grace_period() {
    let world = hanging()
        .set("/issue/terminal_states", json!(["closed"]))
        .set("/issue/terminal_grace", json!("1s"))
        .set("/issue/remove_workspace", json!("always"))
        .set(
            "/issue/hooks",
            json!({"before_remove": "echo {{ issue.id }} {{ issue.state }} $(ls) >> {{ workflow_dir }}/removed"}),
        );
    let daemon = world.daemon();
    world.wait_for_agent(1);
    world.tracker.move_to("1", "closed");
    eventually("the workspace is gone", || !world.workspace("1").exists());
    world.session("1").expect("cancelled", None);
    assert_eq!(world.env.read("work/removed"), "1 closed up\n");
    daemon.stop().expect(0);
    world.env.assert_nothing_left();
}

#[test]
fn run_that_ends_within_the_grace_period_succeeds() {
    let world = World::new(&[("1", "todo")])
        .set("/issue/terminal_states", json!(["closed"]))
        .set("/issue/terminal_grace", json!("10m"))
        .script("touch up; wait-file go; ok");
    let daemon = world.daemon();
    world.wait_for_agent(1);
    world.tracker.move_to("1", "closed");
    let pulls = world.tracker.pulls();
    eventually("it was seen", || world.tracker.pulls() > pulls + 1);
    world.go();
    eventually("it ended", || sessions(&world) == 0);
    world.session("1").expect("succeeded", None);
    daemon.stop().expect(0);
}

#[test]
fn workspace_of_an_issue_closed_offline_is_handled_at_start() {
    let world = World::new(&[("1", "todo"), ("2", "todo")])
        .set("/issue/terminal_states", json!(["closed"]))
        .script("ok");
    // Both leave an empty workspace; one gets a file that exists nowhere else.
    world.once().expect(0);
    std::fs::write(world.workspace("2").join("work"), "").unwrap();
    for issue in ["1", "2"] {
        world.tracker.move_to(issue, "closed");
    }
    let daemon = world.daemon();
    eventually("the empty one is gone", || !world.workspace("1").exists());
    eventually("the other one was looked at", || {
        decided(&world, "2", &DecisionKind::WorkspaceKept)
    });
    assert!(world.workspace("2").join("work").exists());
    assert!(
        decided(&world, "2", &DecisionKind::NotRemovingWorkspace),
        "and why"
    );
    daemon.stop().expect(0);
}

#[test]
fn before_remove_failure_keeps_the_workspace() {
    let world = World::new(&[("1", "todo")])
        .set("/issue/terminal_states", json!(["closed"]))
        .set("/issue/remove_workspace", json!("always"))
        .set(
            "/issue/hooks",
            json!({"before_remove": "echo x >> {{ workflow_dir }}/tries; exit 1"}),
        )
        .script("ok");
    world.once().expect(0);
    world.tracker.move_to("1", "closed");
    let daemon = world.daemon();
    eventually("it was tried", || !world.env.read("work/tries").is_empty());
    let pulls = world.tracker.pulls();
    eventually("more pulls", || world.tracker.pulls() > pulls + 2);
    assert!(world.workspace("1").exists());
    assert_eq!(
        world.env.read("work/tries"),
        "x\n",
        "once, until the issue changes"
    );
    daemon.stop().expect(0);
}

#[test]
fn state_change_cancels_a_stage_that_is_set_to_cancel() {
    let world = hanging().work("on_state_change", json!("cancel"));
    let daemon = world.daemon();
    world.wait_for_agent(1);
    world.tracker.move_to("1", "elsewhere");
    eventually("it ended", || sessions(&world) == 0);
    world.session("1").expect("cancelled", None);
    daemon.stop().expect(0);
}

/// A world whose stage takes the states `todo` and `doing` with the label `agent`, and whose pull
/// prints a file.
fn labelled(state: &str, labels: &str) -> World {
    let world = hanging()
        .work("on_state_change", json!("cancel"))
        .work("when", json!({"state": ["todo", "doing"], "labels": ["Agent"]}))
        .set("/issues/pull/command", json!("cat pulled.json"));
    pulls(&world, state, labels);
    world
}

fn pulls(world: &World, state: &str, labels: &str) {
    let issue = format!(r#"[{{"id": "1", "title": "t", "state": "{state}", "labels": [{labels}]}}]"#);
    world.env.write("work/new.json", &issue);
    std::fs::rename(
        world.env.path("work/new.json"),
        world.env.path("work/pulled.json"),
    )
    .unwrap();
}

#[test]
fn issue_without_a_label_of_the_stage_is_held() {
    let world = labelled("todo", r#""other""#);
    let daemon = world.daemon();
    let done = world.vik(&["explain", "1", "--json"]).expect(0);
    let explained: Value = serde_json::from_str(&done.out).unwrap();
    let hold = &explained["now"]["stages"][0]["hold"];
    assert_eq!(hold["reason"], "missing_labels");
    assert!(hold["detail"].as_str().unwrap().contains("`Agent`"));
    assert!(world.sessions("1").is_empty());
    daemon.stop().expect(0);
}

#[test]
fn removed_label_stops_the_agent_and_another_state_of_the_stage_does_not() {
    let world = labelled("todo", r#""agent""#);
    let daemon = world.daemon();
    world.wait_for_agent(1);
    pulls(&world, "doing", r#""x", "AGENT""#);
    world.vik(&["refresh"]).expect(0);
    eventually("the state is seen", || {
        world
            .vik(&["explain", "1", "--json"])
            .out
            .contains(r#""issue_state": "doing""#)
    });
    assert_eq!(sessions(&world), 1);
    pulls(&world, "doing", r#""x""#);
    eventually("it ended", || sessions(&world) == 0);
    world.session("1").expect("cancelled", None);
    daemon.stop().expect(0);
}

#[test]
fn issue_missing_in_a_pull_is_ended_only_if_show_confirms_it() {
    let mut world = hanging();
    let daemon = world.daemon();
    world.wait_for_agent(1);
    world.tracker.remove("1");
    let pulls = world.tracker.pulls();
    eventually("more pulls", || world.tracker.pulls() > pulls + 2);
    assert_eq!(sessions(&world), 1, "nobody knows what became of it");
    daemon.stop().expect(0);

    world.tracker.add("1", "again", "todo");
    let show = show(&world);
    world.put("/issues/show", json!({"command": show}));
    world.put("/issue/terminal_grace", json!("0s"));
    let daemon = world.daemon();
    eventually("it runs again", || sessions(&world) == 1);
    world.tracker.remove("1");
    eventually("it ended", || sessions(&world) == 0);
    daemon.stop().expect(0);
}

#[test]
fn issue_is_checked_again_right_before_it_starts() {
    // The list is wrong: it always has the state `todo`.
    let world = World::new(&[("1", "done"), ("2", "done")]).script("ok");
    let list =
        json!([{"id": "1", "title": "t", "state": "todo"}, {"id": "2", "title": "t", "state": "todo"}]);
    world.env.issues(&list);
    let show = format!("test {{{{ issue.id }}}} = 2 && exit 1; {}", show(&world));
    let mut world = world
        .set("/issues/pull/command", json!("cat issues.json; echo x >> pulls"))
        .set("/issues/show", json!({"command": show}));
    let daemon = world.daemon();
    eventually("several pulls", || world.env.read("work/pulls").len() > 8);
    assert!(world.sessions("1").is_empty(), "its state is another one");
    assert!(world.sessions("2").is_empty(), "nothing is known of it");
    let waiting = world.status().unwrap()["waiting"].clone();
    assert!(
        waiting
            .as_array()
            .unwrap()
            .iter()
            .any(|waiting| waiting["issue_id"] == "2"),
        "{waiting}"
    );
    daemon.stop().expect(0);
    world.tracker.move_to("1", "todo");
    world.put("/issues/pull/command", json!("cat issues.json"));
    let daemon = world.daemon();
    eventually("it starts", || world.sessions("1").len() == 1);
    daemon.stop().expect(0);
}

#[test]
fn issue_id_is_data_for_the_show_command() {
    let id = "1'; touch sprung #";
    let world = World::new(&[(id, "todo")])
        .set(
            "/issues/show",
            json!({"command": "printf '%s\\n' {{ issue.id }} \"$VIK_ISSUE_ID\" >> shown; exit 1"}),
        )
        .script("ok");
    let daemon = world.daemon();
    eventually("it was looked at", || {
        world.env.read("work/shown").lines().count() >= 2
    });
    let shown = world.env.read("work/shown");
    assert_eq!(shown.lines().take(2).collect::<Vec<_>>(), [id, id]);
    assert!(!world.env.work().join("sprung").exists());
    daemon.stop().expect(0);
}

#[test]
fn failed_pull_changes_nothing() {
    let world = hanging()
        .set("/issue/terminal_states", json!(["closed"]))
        .work("on_state_change", json!("cancel"));
    let pull = world.tracker.pull_command();
    let world = world.set(
        "/issues/pull/command",
        json!(format!("test -e down && {{ echo '[]'; exit 1; }}; {pull}")),
    );
    let daemon = world.daemon();
    world.wait_for_agent(1);
    world.env.write("work/down", "");
    world.wait_for_status("pulls fail", |status| {
        status["pulls"]["failed_in_a_row"].as_u64() > Some(2)
    });
    assert_eq!(sessions(&world), 1);
    daemon.stop().expect(0);
}

#[test]
fn pause_survives_a_restart() {
    let world = World::new(&[("1", "later")]).script("append turns x; ok");
    let daemon = world.start(&["run"]);
    eventually("it runs", || world.status().is_some());
    world.vik(&["pause"]).expect(0);
    daemon.stop().expect(0);
    world.tracker.move_to("1", "todo");
    let daemon = world.daemon();
    let paused: Value = world.status().unwrap()["paused"].clone();
    assert_eq!(paused, true);
    assert!(world.sessions("1").is_empty());
    world.vik(&["continue"]).expect(0);
    eventually("the daemon continues", || world.sessions("1").len() == 1);
    daemon.stop().expect(0);
}
