//! The workflow is edited while the daemon runs.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::*;

fn workflow(world: &World) -> Value {
    world.status().unwrap()["workflow"].clone()
}

#[test]
fn an_edit_is_for_the_next_attempt_and_not_for_the_one_that_runs() {
    let mut world = World::new(&[("1", "todo")]).script("message old; touch up; wait-file go; ok");
    let daemon = world.daemon();
    eventually("the agent is up", || world.workspace("1").join("up").exists());
    let loaded = workflow(&world)["loaded_at"].clone();
    world.put("/issue/stages/work/prompt", json!("SCRIPT: message new; ok\n"));
    world.put(
        "/issue/stages/work/hooks/after_run",
        json!(world.on_success("elsewhere")),
    );
    eventually("it was loaded", || workflow(&world)["loaded_at"] != loaded);
    std::fs::write(world.workspace("1").join("go"), "").unwrap();
    eventually("the first one ended", || {
        world.tracker.state("1").as_deref() == Some("done")
    });
    world.tracker.move_to("1", "todo");
    eventually("the second one ended", || {
        world.tracker.state("1").as_deref() == Some("elsewhere")
    });
    daemon.stop().expect(0);
    let messages: Vec<_> = world.sessions("1").iter().map(Session::messages).collect();
    assert_eq!(messages, [["old"], ["new"]]);
}

#[test]
fn a_bad_edit_keeps_the_last_good_workflow_and_is_told() {
    let mut world = World::new(&[("1", "later")]).script("append turns x; ok");
    let daemon = world.daemon();
    assert_eq!(workflow(&world)["rejected"], Value::Null);
    world.env.write("work/workflow.yml", "issue: [");
    eventually("it is rejected", || !workflow(&world)["rejected"].is_null());
    let rejected = workflow(&world)["rejected"].clone();
    assert!(
        rejected["diagnostics"][0]
            .as_str()
            .unwrap()
            .contains("workflow.yml"),
        "{rejected}"
    );
    world.tracker.move_to("1", "todo");
    eventually("work goes on", || {
        world.tracker.state("1").as_deref() == Some("done")
    });
    world.put("/loop", json!({"max_issue_concurrency": 3}));
    eventually("it is good again", || workflow(&world)["rejected"].is_null());
    daemon.stop().expect(0);
}

#[test]
fn a_hangup_reads_the_workflow_again() {
    let mut world = World::new(&[("1", "todo")])
        .set("/issues/pull/idle_sec", json!("10m"))
        .work("when/state", json!("other"));
    let daemon = world.daemon();
    world.put("/issue/stages/work/when/state", json!("todo"));
    daemon.signal(Signal::SIGHUP);
    eventually("it was read, and the issues looked at", || {
        world.tracker.state("1").as_deref() == Some("done")
    });
    daemon.stop().expect(0);
}
