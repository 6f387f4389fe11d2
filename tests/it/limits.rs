//! Limits of an issue's life and of a day, and what a person can do about them.

use serde_json::{Value, json};

use crate::support::*;

fn parked(world: &World, issue: &str) -> Value {
    let status = world.status().unwrap();
    let parked = status["parked"].as_array().unwrap().iter();
    parked
        .filter(|parked| parked["issue_id"] == issue)
        .map(|parked| parked["reason"].clone())
        .next()
        .unwrap_or_default()
}

#[test]
fn an_issue_has_so_many_attempts_in_its_life_however_often_vik_is_started() {
    let world = World::new(&[("1", "todo")])
        .set("/issue/limits", json!({"attempts": 3}))
        .attempts(5)
        .script("exit 1");
    world.once().expect(7);
    assert_eq!(world.sessions("1").len(), 3);
    world.tracker.set("1", "title", json!("another"));
    let again = world.once().expect(7);
    assert!(again.out.contains("parked (issue_limit)"), "{}", again.out);
    assert_eq!(world.sessions("1").len(), 3, "no change frees it");

    let daemon = world.daemon();
    assert_eq!(parked(&world, "1"), "issue_limit");
    world.vik(&["unpark", "1", "--attempts", "1"]).expect(0);
    eventually("one more", || world.sessions("1").len() == 4);
    eventually("it is used up again", || parked(&world, "1") == "issue_limit");
    daemon.stop().expect(0);
    assert_eq!(world.sessions("1").len(), 4);
}

#[test]
fn tokens_of_an_issue_s_life_are_counted_over_starts() {
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .set("/issue/limits", json!({"tokens": 60}))
        .attempts(1)
        .script("start; usage 50 0 10; done; exit 1");
    world.once().expect(1);
    world.tracker.set("1", "title", json!("another"));
    world.once();
    world.tracker.set("1", "title", json!("and another"));
    world.once().expect(7);
    assert_eq!(world.sessions("1").len(), 2);
}

#[test]
fn a_day_s_limit_holds_everything_and_is_told() {
    let world = World::new(&[("1", "todo"), ("2", "todo")])
        .agent("codex")
        .set("/loop", json!({"max_issue_concurrency": 1}))
        .set("/limits", json!({"tokens_per_day": 100}))
        .script("start; usage 150 0 10; done");
    let done = world.once().expect(7);
    assert!(done.out.contains("the day's limit is used up"), "{}", done.out);
    assert_eq!(world.sessions("1").len() + world.sessions("2").len(), 1);
    world.once().expect(7);
    assert_eq!(
        world.sessions("1").len() + world.sessions("2").len(),
        1,
        "a start does not forget the day"
    );
}

#[test]
fn an_attempt_that_tells_nothing_is_charged_an_estimate() {
    let world = World::new(&[("1", "todo")])
        .set("/agents/a/estimate", json!({"tokens": 60}))
        .set("/issue/limits", json!({"tokens": 100}))
        .attempts(5)
        .script("exit 1");
    world.once().expect(7);
    assert_eq!(world.sessions("1").len(), 2);
}

#[test]
fn no_more_of_an_agent_run_at_once_than_may() {
    let world = World::new(&[("1", "todo"), ("2", "todo"), ("3", "todo")])
        .set("/agents/a/max_concurrency", json!(2))
        .script("touch up; hang");
    let daemon = world.daemon();
    let up = |issue: &&str| world.workspace(issue).join("up").exists();
    eventually("two are up", || {
        ["1", "2", "3"].iter().filter(|issue| up(issue)).count() == 2
    });
    let pulls = world.tracker.pulls();
    eventually("more pulls", || world.tracker.pulls() > pulls + 2);
    let status = world.status().unwrap();
    assert_eq!(status["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(status["waiting"][0]["reason"], "agent_slot");
    daemon.stop().expect(0);
}

#[test]
fn a_blocker_comes_first() {
    let world = World::new(&[("1", "todo"), ("2", "todo")])
        .set("/issue/terminal_states", json!(["done"]))
        .script("run echo $VIK_ISSUE_ID >> ../../order; ok");
    world.tracker.set("1", "blocked_by", json!(["2"]));
    let world = world.set("/issue/remove_workspace", json!("never"));
    world.once().expect(0);
    let order: Vec<_> = world
        .sessions("1")
        .into_iter()
        .chain(world.sessions("2"))
        .collect();
    assert_eq!(order.len(), 2);
    assert!(started(&order[1]) < started(&order[0]), "2 first");
}

fn started(session: &Session) -> String {
    let record: Value = serde_json::from_str(&session.text(".attempt.json")).unwrap();
    record["started_at"].as_str().unwrap().to_owned()
}
