//! Limits of the life of an issue and of a day, and what a person can do about them.

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
fn attempt_limit_of_an_issue_holds_across_restarts() {
    let world = World::new(&[("1", "todo")])
        .set("/issue/limits", json!({"attempts": 3}))
        .attempts(5)
        .script("exit 1");
    world.once().expect(7);
    assert_eq!(world.sessions("1").len(), 3);
    world.tracker.set("1", "title", json!("another"));
    let again = world.once().expect(7);
    assert_contains(&again.out, "parked (issue_limit)");
    assert_eq!(world.sessions("1").len(), 3, "no change frees it");

    let daemon = world.daemon();
    assert_eq!(parked(&world, "1"), "issue_limit");
    world.vik(&["retry", "1", "--attempts", "1"]).expect(0);
    eventually("one more", || world.sessions("1").len() == 4);
    eventually("it is used up again", || parked(&world, "1") == "issue_limit");
    daemon.stop().expect(0);
    assert_eq!(world.sessions("1").len(), 4);
}

#[test]
fn token_limit_of_an_issue_holds_across_restarts() {
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
fn day_limit_holds_all_work_across_restarts() {
    let world = World::new(&[("1", "todo"), ("2", "todo")])
        .agent("codex")
        .set("/loop", json!({"max_issue_concurrency": 1}))
        .set("/limits", json!({"tokens_per_day": 100}))
        .script("start; usage 150 0 10; done");
    let done = world.once().expect(7);
    assert_contains(&done.out, "the daily limit is used up");
    assert_eq!(world.sessions("1").len() + world.sessions("2").len(), 1);
    world.once().expect(7);
    assert_eq!(
        world.sessions("1").len() + world.sessions("2").len(),
        1,
        "a start does not forget the day"
    );
}

#[test]
fn attempt_without_usage_is_charged_an_estimate() {
    let world = World::new(&[("1", "todo")])
        .set("/agents/a/estimate", json!({"tokens": 60}))
        .set("/issue/limits", json!({"tokens": 100}))
        .attempts(5)
        .script("message working on it; exit 1");
    world.once().expect(7);
    assert_eq!(world.sessions("1").len(), 2);
}

/// Vik cannot estimate the cost of a script, and an agent that never answered has none.
#[test]
fn estimate_is_not_charged_to_scripts_or_silent_agents() {
    let script = json!({"runtime": "command", "command": ["sh", "-c", "echo working; exit 3"]});
    let silent =
        json!({"runtime": "command", "command": ["sh", "-c", "exit 3"], "estimate": {"usd": 2, "tokens": 7}});
    for agent in [script, silent] {
        let world = World::new(&[("1", "todo")]).set("/agents/a", agent).attempts(1);
        world.once().expect(1);
        let ended = world.session("1").ended();
        assert_eq!(ended["cost_usd"], json!(null));
        assert_eq!(ended["cost_source"], "none");
        let charged = &world.runs()[0]["attempts"][0]["charged"];
        assert_eq!(charged["tokens"], 0, "{charged}");
        assert_eq!(charged["cost_usd"], 0.0, "{charged}");
    }
}

/// Codex answers, and its turn is cut off before it reports its usage. What was read before counts,
/// also after a death of the daemon.
#[test]
fn estimate_is_shown_apart_from_reported_costs() {
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .set("/agents/a/estimate", json!({"usd": 0.5, "tokens": 1000}))
        .set("/limits", json!({"usd_per_day": 5}))
        .set("/loop", json!({"orphan_grace": "1m"}))
        .script("start; message working on it; touch up; hang")
        .attempts(1);
    let daemon = world.daemon();
    eventually("it has answered", || {
        let sessions = world.sessions("1");
        sessions
            .first()
            .is_some_and(|session| !session.of_kind("message").is_empty())
    });
    daemon.signal(nix::sys::signal::Signal::SIGKILL);
    drop(daemon.done());
    let world = world.work("timeout", json!("1s"));
    let daemon = world.daemon();
    eventually("it is cancelled", || {
        world.vik(&["cancel", "1"]);
        world
            .sessions("1")
            .first()
            .is_some_and(|session| !session.of_kind("ended").is_empty())
    });
    world.wait_for_status("it is charged", |status| status["sessions"] == json!([]));
    let text = world.vik(&["status"]).out;
    assert_contains(&text, "$0.50 of $5.00 (~$0.50 estimated)");
    let status = world.status().unwrap();
    assert_eq!(status["day"]["spent"]["estimated_usd"], json!(0.5));
    daemon.stop().expect(0);
    for args in [
        &["runs"][..],
        &["show", "1"],
        &["explain", "1"],
        &["report"],
        &["report", "--markdown"],
    ] {
        let text = world.vik(args).out;
        assert!(text.contains("~$0.50 estimated"), "{args:?}: {text}");
    }
    let report = world.vik(&["report", "--json"]).json();
    assert_eq!(report["total"]["spent"]["estimated_tokens"], json!(1000));
}

#[test]
fn agent_concurrency_limit_holds() {
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
fn blocker_runs_before_its_dependent() {
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
