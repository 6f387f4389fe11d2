//! What starts, in which order and how often, and what `--once` reports about it.

use serde_json::{Value, json};

use crate::support::*;

/// Returns a script that appends a word to the file `order`.
fn note(world: &World, arg: &str) -> String {
    format!("append {}/order \"{arg} \"", world.env.work().display())
}

fn order(world: &World) -> String {
    world.env.read("work/order").trim().to_owned()
}

fn time(value: &Value) -> jiff::Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn issues_run_in_order_up_to_the_concurrency_limit() {
    let ids = ["e", "d", "c", "b", "a"];
    let issues: Vec<_> = ids.iter().map(|id| (*id, "todo")).collect();
    let mut world = World::new(&issues).set("/loop", json!({"max_issue_concurrency": 2}));
    let work = world.env.work().display().to_string();
    world.put(
        "/issue/stages/work/prompt",
        json!(format!(
            "SCRIPT: {}; touch {work}/up-{{{{ issue.id }}}}; wait-file {work}/go-{{{{ issue.id }}}}; ok",
            note(&world, "{{ issue.id }}")
        )),
    );
    let daemon = world.daemon();
    let up = |id: &str| world.env.work().join(format!("up-{id}")).exists();
    let go = |id: &str| drop(world.env.write(format!("work/go-{id}"), ""));
    eventually("two run", || up("e") && up("d"));
    let pulls = world.tracker.pulls();
    eventually("more pulls came", || world.tracker.pulls() >= pulls + 3);
    let status = world.status().unwrap();
    let at = |list: &str| -> Vec<String> {
        status[list]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["issue_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(at("sessions"), ["e", "d"]);
    assert_eq!(at("waiting").len(), 3, "{status}");
    assert!(!up("c"));
    go("d");
    eventually("the next one starts", || up("c"));
    assert!(!up("b"));
    for id in ids {
        go(id);
    }
    eventually("all are done", || {
        ids.iter()
            .all(|id| world.tracker.state(id).as_deref() == Some("done"))
    });
    daemon.stop().expect(0);
    // The first two start at the same time.
    let order = order(&world).replace("d e", "e d");
    assert!(order.starts_with("e d c "), "{order}");
}

#[test]
fn issue_with_the_lower_priority_number_runs_first() {
    let world = World::new(&[
        ("none", "todo"),
        ("high", "todo"),
        ("low", "todo"),
        ("also-none", "todo"),
    ])
    .set("/loop", json!({"max_issue_concurrency": 1}));
    world.tracker.set("high", "priority", json!(9));
    world.tracker.set("low", "priority", json!(1));
    let prompt = format!("SCRIPT: {}; ok", note(&world, "{{ issue.id }}"));
    let world = world.work("prompt", json!(prompt));
    world.once().expect(0);
    assert_eq!(order(&world), "low high none also-none");
}

#[test]
fn stages_of_an_issue_run_sequentially_in_file_order() {
    let world = World::new(&[("1", "todo")]);
    let script = |name: &str, world: &World| {
        format!(
            "SCRIPT: if-file busy \"exit 9\"; touch busy; {}; sleep 50; run rm busy; ok",
            note(world, name)
        )
    };
    // Both stages match; the first keeps the state, the second changes it.
    let (first, second) = (script("first", &world), script("work", &world));
    let world = world.set("/issue/stages", json!({}));
    let moves = world.on_success("done");
    let world = world
        .stage("zz-first", "todo", &first)
        .stage("work", "todo", &second)
        .work("hooks", json!({"after_run": moves}))
        .set(
            "/issue/stages/zz-first/retry",
            json!({"initial_backoff": "30s", "max_backoff": "30s"}),
        );
    world.once().expect(0);
    assert_eq!(order(&world), "first work");
    assert_eq!(world.sessions("1").len(), 2);
}

#[test]
fn next_stage_starts_only_if_the_state_still_matches() {
    let world = World::new(&[("1", "todo")]);
    let (one, two) = (
        format!("SCRIPT: {}; ok", note(&world, "one")),
        format!("SCRIPT: {}; ok", note(&world, "two")),
    );
    let moves = world.on_success("done");
    let world = world
        .set("/issue/stages", json!({}))
        .stage("one", "todo", &one)
        .stage("two", "todo", &two)
        .set("/issue/stages/one/hooks", json!({"after_run": moves}));
    world.once().expect(0);
    assert_eq!(order(&world), "one");
}

#[test]
fn run_once_follows_an_issue_through_all_its_stages() {
    let world = World::new(&[("1", "todo"), ("2", "todo")]);
    let (review, done) = (world.on_success("review"), world.on_success("done"));
    let world = world
        .work("hooks", json!({"after_run": review}))
        .stage("review", "review", "SCRIPT: ok")
        .set("/issue/stages/review/hooks", json!({"after_run": done}));
    let done = world.once().expect(0);
    for id in ["1", "2"] {
        assert_eq!(world.tracker.state(id).as_deref(), Some("done"));
        assert_eq!(world.sessions(id).len(), 2);
    }
    assert_contains(&done.out, "4 attempts: 4 succeeded");
    let again = world.once().expect(0);
    assert_contains(&again.out, "nothing to do");
    assert_eq!(world.sessions("1").len(), 2);
}

#[test]
fn retries_are_counted_and_their_backoff_doubles() {
    let world = World::new(&[("1", "todo")])
        .work(
            "retry",
            json!({"max_attempts": 4, "initial_backoff": "200ms", "max_backoff": "400ms"}),
        )
        .script("count calls; on 4 \"ok; exit 0\"; exit 3");
    world.once().expect(0);
    let run = &world.runs()[0];
    let attempts = run["attempts"].as_array().unwrap();
    let numbers: Vec<_> = attempts
        .iter()
        .map(|attempt| attempt["attempt"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let waits: Vec<_> = attempts
        .windows(2)
        .map(|two| {
            (time(&two[1]["started_at"]) - time(&two[0]["ended_at"]))
                .total(jiff::Unit::Millisecond)
                .unwrap()
        })
        .collect();
    // Each wait is shortened by up to a quarter at random, so that retries do not coincide.
    for (wait, min_wait) in waits.iter().zip([150.0, 300.0, 300.0]) {
        assert!(*wait >= min_wait - 5.0, "{waits:?}");
    }
    assert_eq!(run["outcome"], "succeeded");
    assert_eq!(run["state"], "ended");
}

#[test]
fn run_out_of_attempts_is_parked_until_the_issue_changes() {
    let world = World::new(&[("1", "todo")]).script("stderr broken; exit 3");
    let daemon = world.daemon();
    let parked = || {
        world.status().unwrap()["parked"]
            .as_array()
            .unwrap()
            .first()
            .cloned()
    };
    let wait_parked = |sessions: usize| {
        eventually("it is parked", || {
            world.sessions("1").len() == sessions && parked().is_some()
        });
        let pulls = world.tracker.pulls();
        eventually("more pulls came", || world.tracker.pulls() >= pulls + 3);
        assert_eq!(world.sessions("1").len(), sessions);
    };
    wait_parked(2);
    let first = parked().unwrap();
    assert_eq!(first["issue_id"], "1");
    assert_eq!(first["stage"], "work");
    assert_eq!(first["reason"], "attempts_used_up");
    assert!(first["detail"].as_str().unwrap().contains("broken"), "{first}");

    // A state that changes and comes back does not free it, nor does an issue that disappears for a
    // while.
    world.tracker.move_to("1", "elsewhere");
    let pulls = world.tracker.pulls();
    eventually("it was seen there", || world.tracker.pulls() >= pulls + 3);
    world.tracker.move_to("1", "todo");
    wait_parked(2);
    world.tracker.remove("1");
    let pulls = world.tracker.pulls();
    eventually("it was missed", || world.tracker.pulls() >= pulls + 3);
    world.tracker.add("1", "Issue 1", "todo");
    wait_parked(2);
    world.tracker.set("1", "labels", json!(["x"]));
    wait_parked(2);

    // A new title or a new description does, and the attempts are counted from one again.
    world.tracker.set("1", "title", json!("Another title"));
    wait_parked(4);
    world.tracker.set("1", "description", json!("More"));
    wait_parked(6);
    daemon.stop().expect(0);
    assert_eq!(world.runs().len(), 3, "a run that was freed is a new one");
    assert_eq!(world.sessions("1")[2].events()[0]["seq"], 1);
}

#[test]
fn state_entered_again_starts_a_new_run() {
    let world = World::new(&[("1", "todo")])
        .attempts(3)
        .script("count calls; on 3 \"exit 0\"; exit 1");
    let world = world
        .work("retry/initial_backoff", json!("30s"))
        .work("retry/max_backoff", json!("30s"));
    let daemon = world.daemon();
    let backs_off = |attempts: usize| {
        eventually("it backs off", || {
            world.sessions("1").len() == attempts
                && world.status().unwrap()["waiting"][0]["reason"] == "backoff"
        });
    };
    backs_off(1);
    world.tracker.move_to("1", "elsewhere");
    let pulls = world.tracker.pulls();
    eventually("it was seen there", || world.tracker.pulls() >= pulls + 3);
    world.tracker.move_to("1", "todo");
    backs_off(2);
    daemon.stop();
    let runs = world.runs();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[1]["attempts"][0]["attempt"], 1);
}

#[test]
fn failure_is_not_retried_after_a_state_change() {
    let world = World::new(&[("1", "todo")]);
    let script = format!(
        "run vik-fake-tracker {} move 1 elsewhere; exit 3",
        world.tracker.path().display()
    );
    let world = world.script(&script);
    world.once().expect(1);
    assert_eq!(world.sessions("1").len(), 1);
}

#[test]
fn issue_that_vanishes_during_a_run_is_finished() {
    let world = World::new(&[("1", "todo")]).script("touch up; wait-file go; touch finished; ok");
    let daemon = world.daemon();
    world.wait_for_agent(1);
    world.tracker.remove("1");
    let pulls = world.tracker.pulls();
    eventually("it was missed", || world.tracker.pulls() >= pulls + 3);
    world.go();
    world.wait_for_status("it ended", |status| status["sessions"] == json!([]));
    daemon.stop().expect(0);
    world.session("1").expect("succeeded", None);
}

// --- exit codes

#[test]
fn exit_0_means_nothing_to_do() {
    let world = World::new(&[("1", "done")]);
    let done = world.once().expect(0);
    assert_contains(&done.out, "nothing to do");
}

#[test]
fn exit_1_means_a_failed_run() {
    let world = World::new(&[("1", "todo"), ("2", "todo")]).work(
        "prompt",
        json!("SCRIPT: {{ 'ok' if issue.id == '2' else 'exit 3' }}"),
    );
    let done = world.once().expect(1);
    assert_eq!(world.sessions("1").len(), 2);
    assert_eq!(world.tracker.state("2").as_deref(), Some("done"));
    assert_contains(&done.out, "failed: 1 work");
}

#[test]
fn exit_3_means_an_invalid_workflow() {
    let world = World::new(&[])
        .work("agnet", json!(1))
        .set("/agents/a/runtime", json!("gpt"));
    let done = world.once().expect(3);
    assert_contains(&done.err, "gpt");
    assert!(!world.env.work().join("home").exists());
}

#[test]
fn exit_8_means_no_such_issue() {
    let world = World::new(&[("1", "todo"), ("2", "todo"), ("3", "done")]);
    let done = world.vik(&["run", "--once", "--issue", "nope"]).expect(8);
    assert!((done.out + &done.err).contains("nope"));
    // The issue exists, but matches no stage.
    world.vik(&["run", "--once", "--issue", "3"]).expect(8);
    assert!(world.sessions("1").is_empty());
    world.vik(&["run", "--once", "--issue", "1"]).expect(0);
    assert_eq!((world.sessions("1").len(), world.sessions("2").len()), (1, 0));
    world
        .vik(&["run", "--once", "--issue", "2", "--issue", "nope"])
        .expect(8);
    assert_eq!(world.sessions("2").len(), 1, "what is there was worked on");
}

#[test]
fn exit_9_means_success_without_progress() {
    let world = World::new(&[("1", "todo")])
        .work("hooks/after_run", json!(null))
        .attempts(1);
    let done = world.once().expect(9);
    assert_contains(&done.out, "no progress");
    let world = World::new(&[("1", "todo")]);
    world.once().expect(0);
}

#[test]
fn exit_10_means_work_is_still_waiting() {
    let started = std::time::Instant::now();
    let world = World::new(&[("1", "todo"), ("2", "todo")])
        .work(
            "retry",
            json!({"max_attempts": 3, "initial_backoff": "2m", "max_backoff": "2m"}),
        )
        .work(
            "prompt",
            json!("SCRIPT: {{ 'ok' if issue.id == '2' else 'exit 3' }}"),
        );
    let done = world.once().expect(10);
    assert_contains(&done.out, "waiting: 1 work");
    assert_eq!(world.tracker.state("2").as_deref(), Some("done"));
    // The files changed, but not the state: the issue waits for a person.
    let world = World::new(&[("1", "todo")])
        .work("hooks/after_run", json!(null))
        .attempts(1)
        .script("write x y; ok");
    world.once().expect(10);
    assert!(started.elapsed() < std::time::Duration::from_secs(60));
}

#[test]
fn run_once_waits_for_a_short_backoff() {
    let world = World::new(&[("1", "todo")])
        .work(
            "retry",
            json!({"max_attempts": 2, "initial_backoff": "1s", "max_backoff": "1s"}),
        )
        .script("count calls; on 2 \"ok; exit 0\"; exit 1");
    world.once().expect(0);
    assert_eq!(world.sessions("1").len(), 2);
}

#[test]
fn stage_option_runs_only_the_named_stages() {
    let world = World::new(&[("1", "todo"), ("2", "review")]).stage("review", "review", "SCRIPT: ok");
    world.vik(&["run", "--once", "--stage", "work"]).expect(0);
    assert_eq!((world.sessions("1").len(), world.sessions("2").len()), (1, 0));
    let done = world.vik(&["run", "--once", "--stage", "wrok"]).expect(2);
    assert_contains(&done.err, "work, review");
}

#[test]
fn max_iterations_counts_pulls() {
    let world = World::new(&[]).set("/loop", json!({"max_iterations": 3}));
    world.vik(&["run"]).expect(0);
    assert_eq!(world.tracker.pulls(), 3);
    world.vik(&["run", "--max-iterations", "1"]).expect(0);
    assert_eq!(world.tracker.pulls(), 4);
    world.vik(&["run", "--max-iterations", "0"]).expect(2);
}

#[test]
fn last_iteration_lets_started_work_finish() {
    let world = World::new(&[("1", "todo"), ("2", "todo")]).set("/loop", json!({"max_issue_concurrency": 1}));
    let world = world.script("sleep 300; write x y; ok");
    world.vik(&["run", "--max-iterations", "1"]).expect(0);
    assert_eq!(world.tracker.pulls(), 1);
    for id in ["1", "2"] {
        assert_eq!(world.tracker.state(id).as_deref(), Some("done"));
    }
}

#[test]
fn dry_run_knows_the_ledger() {
    let world = World::new(&[("1", "todo"), ("2", "todo")])
        .work(
            "prompt",
            json!("SCRIPT: {{ {'1': 'exit 3', '2': 'exit 4'}[issue.id] }}"),
        )
        .work("retry", json!({"max_attempts": 1}));
    world.vik(&["run", "--once", "--issue", "1"]).expect(1);
    let dry = || world.vik(&["run", "--dry-run"]).expect(0).out;
    let other = world.vik(&["run", "--dry-run", "--issue", "77"]).expect(8).out;
    assert_contains(&other, "not found: the pull did not return issue 77");
    let text = dry();
    assert_contains(&text, "1 would start");
    assert_contains(&text, "1 is held: parked (attempts_used_up)");
    world.vik(&["retry", "1"]).expect(0);
    let text = dry();
    assert_contains(&text, "2 would start");
    assert!(!text.contains("is held"), "{text}");
    world.vik(&["pause"]).expect(0);
    let text = dry();
    assert_contains(&text, "0 would start");
    assert_contains(&text, "nothing starts: ");
    assert_eq!(world.sessions("1").len(), 1, "nothing was changed");
}

#[test]
fn dry_run_starts_nothing() {
    let world = World::new(&[("1", "todo"), ("2", "done")])
        .work("hooks/before_run", json!("echo {{ issue.title }}"))
        .work(
            "prompt",
            json!("Do {{ issue.title }} `exec(touch {{ workflow_dir }}/pwned)`"),
        );
    world.tracker.set("1", "title", json!("it's"));
    let done = world.vik(&["run", "--dry-run"]).expect(0);
    for part in ["1 would start", "Do it's", "echo 'it'\\''s'"] {
        assert_contains(&done.out, part);
    }
    assert_eq!(world.tracker.pulls(), 1);
    assert!(!world.env.work().join("pwned").exists());
    assert!(world.sessions("1").is_empty() && !world.env.work().join("home").exists());
}

#[test]
fn twenty_starters_claim_an_issue_once() {
    let world = World::new(&[("1", "todo")]).script("touch up; wait-file go; ok");
    let mut starters: Vec<_> = (0..20).map(|_| world.start(&["run", "--once"])).collect();
    world.wait_for_agent(1);
    eventually("all but one have ended", || {
        starters
            .iter_mut()
            .map(Running::is_over)
            .filter(|is_over| *is_over)
            .count()
            == 19
    });
    world.go();
    let mut codes: Vec<_> = starters.into_iter().map(|starter| starter.done().code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [&[0][..], &[5; 19]].concat());
    world.session("1").expect("succeeded", None);
}
