//! The faults of vik 0.1.3: one test for each row of its list of faults that belongs to the daemon.

use std::time::Duration;

use serde_json::json;

use crate::support::*;

#[test]
fn row_01_commands_in_issue_text_are_not_run() {
    let world = World::new(&[("1", "todo")]).work(
        "prompt",
        json!("!`exec(echo from-the-author)` {{ issue.title }} {{ issue.description }}\nSCRIPT: ok"),
    );
    let pwned = world.env.path("pwned");
    let evil = format!(
        "!`exec(touch {0})` `exec(touch {0})` {{{{ 7 * 7 }}}}",
        pwned.display()
    );
    world.tracker.set("1", "title", json!(evil));
    world.tracker.set("1", "description", json!(evil));
    world.once().expect(0);
    assert!(!pwned.exists());
    let prompt = world.session("1").text(".prompt.md");
    assert_eq!(
        prompt.lines().next().unwrap(),
        format!("from-the-author {evil} {evil}")
    );
}

#[test]
fn row_02_hook_value_is_one_quoted_argument() {
    let world = World::new(&[("1", "todo")]).work(
        "hooks/before_run",
        json!("printf '<%s>' {{ issue.title }} \"{{ issue.title }}\" '{{ issue.title }}' > title.txt"),
    );
    let pwned = world.env.path("pwned");
    let evil = format!(
        "$(touch {0}) `touch {0}` ; touch {0} '\"\\ $HOME * \n-x",
        pwned.display()
    );
    world.tracker.set("1", "title", json!(evil));
    world.once().expect(0);
    assert!(!pwned.exists());
    assert_eq!(
        world.workspace_file("1", "title.txt"),
        format!("<{evil}>").repeat(3)
    );
}

#[test]
fn row_03_issue_id_cannot_leave_the_workspace_root() {
    let ids = [
        "../../../../../evil",
        "..",
        ".",
        "/abs",
        "a/b",
        "-rf",
        "~",
        "a~0123456789abcdef",
        ".git",
        "ü",
        "a b\n",
    ];
    let issues: Vec<_> = ids.iter().map(|id| (*id, "todo")).collect();
    let world = World::new(&issues).script("pidfile here; ok");
    world.once().expect(0);
    let folders = list(&world.workspaces());
    assert_eq!(folders.len(), ids.len(), "{folders:?}");
    for folder in &folders {
        assert!(folder.join("here").exists(), "{folder:?} is no workspace");
    }
    let found = find(world.env.root(), "here");
    assert_eq!(found.len(), ids.len(), "an agent ran elsewhere: {found:?}");
}

fn find(folder: &std::path::Path, name: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for path in list(folder) {
        if path.symlink_metadata().unwrap().is_dir() {
            found.extend(find(&path, name));
        } else if path.ends_with(name) {
            found.push(path);
        }
    }
    found
}

#[test]
fn row_03_link_in_place_of_a_workspace_is_refused() {
    let world = World::new(&[("0", "todo"), ("1", "todo")])
        .script("pidfile here; ok")
        .attempts(1);
    world.vik(&["run", "--once", "--issue", "0"]).expect(0);
    let outside = world.env.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, world.workspace("1")).unwrap();
    let done = world.once().expect(1);
    assert!(list(&outside).is_empty());
    world.session("1").expect("failed", Some("hook"));
    assert_contains(&done.err, "a link");
}

#[test]
fn row_04_invalid_item_is_skipped_and_reported() {
    let world = World::new(&[]).set("/issues/pull/command", json!("cat issues.json"));
    world
        .env
        .issues(&json!([{"id": "1", "title": "no state"}, {"id": "2", "title": "good", "state": "todo"}]));
    let world = world.work(
        "hooks/after_run",
        json!("echo '[{\"id\":\"1\",\"title\":\"no state\"}]' > {{ workflow_dir }}/issues.json"),
    );
    let daemon = world.daemon();
    let status = world.status().unwrap();
    assert_eq!(status["last_pull"]["ok"], true);
    assert_eq!(status["last_pull"]["skipped"], 1);
    eventually("the good one ran", || {
        world.sessions("2").len() == 1 && world.status().unwrap()["sessions"] == json!([])
    });
    let done = daemon.stop().expect(0);
    world.session("2").expect("succeeded", None);
    assert!(
        done.err.contains("state"),
        "the skipped item and its fault are reported: {}",
        done.err
    );
}

#[test]
fn row_05_run_with_only_failed_pulls_fails() {
    let world = World::new(&[]).set("/issues/pull/command", json!("echo no network >&2; exit 7"));
    let done = world.once().expect(8);
    assert!((done.out + &done.err).contains("no network"));
    world.vik(&["run", "--once", "--max-iterations", "2"]).expect(8);
    world.vik(&["run", "--max-iterations", "2"]).expect(8);
    let daemon = world.daemon();
    let status = world.status().unwrap();
    assert_eq!(status["last_pull"]["ok"], false);
    assert_contains(status["last_pull"]["error"].as_str().unwrap(), "no network");
    world.wait_for_status("failures are counted", |status| {
        status["pulls"]["failed_in_a_row"].as_u64() >= Some(3)
    });
    daemon.stop();
}

#[test]
fn row_06_success_without_a_state_change_is_parked() {
    let world = World::new(&[("1", "todo")])
        .work("hooks/after_run", json!(null))
        .attempts(3);
    let daemon = world.daemon();
    world.wait_for_status("it is parked", |status| status["parked"][0]["issue_id"] == "1");
    let parked = &world.status().unwrap()["parked"][0];
    assert_eq!(parked["stage"], "work");
    assert_eq!(parked["reason"], "no_progress");
    assert!(parked["freed_by"].is_string() && parked["since"].is_string() && parked["detail"].is_string());
    let pulls = world.tracker.pulls();
    eventually("more pulls came", || world.tracker.pulls() >= pulls + 5);
    assert_eq!(world.sessions("1").len(), 3, "max_attempts holds");
    daemon.stop().expect(0);
}

#[test]
fn row_07_unknown_line_is_recorded_and_ends_nothing() {
    let world = World::new(&[("1", "todo")]).agent("codex").script(
        "start; line this is not JSON; retry Reconnecting... 2/5; line {\"type\":\"new.thing\",\"x\":1}
        append count x; touch printed; wait-file go; message still here; done",
    );
    let daemon = world.daemon();
    eventually("the lines are out", || {
        world.workspace("1").join("printed").exists()
    });
    eventually("the lines are read", || {
        !world.session("1").of_kind("unknown").is_empty()
    });
    let pulls = world.tracker.pulls();
    eventually("more pulls came", || world.tracker.pulls() >= pulls + 5);
    assert_eq!(
        world.status().unwrap()["sessions"].as_array().unwrap().len(),
        1,
        "the slot is held"
    );
    world.go();
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
    assert_eq!(world.workspace_file("1", "count"), "x", "one agent ran");
    let session = world.session("1");
    session.expect("succeeded", None);
    assert_eq!(session.of_kind("malformed")[0]["line"], "this is not JSON");
    assert_eq!(session.of_kind("unknown")[0]["raw"]["x"], 1);
    assert!(
        session
            .of_kind("error")
            .iter()
            .all(|error| error["fatal"] == false)
    );
    assert!(session.messages().contains(&"still here".to_owned()));
}

#[test]
fn row_08_grandchild_that_holds_stdout_delays_no_end() {
    let world = World::new(&[("1", "todo")])
        .script("spawn hold-stdout,setsid,pid=child \"ignore INT,TERM; hang\"; ok");
    world.once().expect(0);
    let child: i32 = world.workspace_file("1", "child").trim().parse().unwrap();
    assert!(!alive(child));
    world.session("1").expect("succeeded", None);
}

#[test]
fn row_09_stop_ends_all_descendants_of_40_sessions() {
    let ids: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let issues: Vec<_> = ids.iter().map(|id| (id.as_str(), "todo")).collect();
    let world = World::new(&issues)
        .set("/loop", json!({"max_issue_concurrency": 40}))
        .script("setsid-child 600000 clearenv; touch up; hang");
    world.vik(&["run", "-d"]).expect(0);
    eventually("all agents are up", || {
        ids.iter()
            .all(|id| world.sessions(id).len() == 1 && world.workspace(id).join("up").exists())
    });
    world.vik(&["stop"]).expect(0);
    world.env.assert_nothing_left();
    world.vik(&["status"]).expect(4);
}

#[test]
fn row_10_killed_daemon_leaves_nothing_and_is_shown_dead() {
    let mut world = World::new(&[("1", "todo")])
        .set("/loop", json!({"orphan_grace": 0}))
        .script("setsid-child 600000 clearenv; touch up; hang");
    world.env.allow_leftovers();
    world.vik(&["run", "-d"]).expect(0);
    world.wait_for_agent(1);
    let pid = world.status().unwrap()["pid"].as_i64().unwrap();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap()),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    let dead = || world.vik(&["status", "--json"]);
    eventually("the daemon is dead", || dead().code == 4);
    assert_eq!(dead().json()["state"], "dead");
    eventually("its shims ended what it ran", || world.env.leftovers().is_empty());
    world.vik(&["run", "-d"]).expect(0);
    assert_eq!(world.status().unwrap()["state"], "running");
    world.vik(&["stop"]).expect(0);
    world.env.assert_nothing_left();
}

#[test]
fn row_11_simultaneous_starts_leave_one_daemon() {
    for args in [&["run", "-d"][..], &["run"]] {
        let world = World::new(&[("1", "todo")]).script("append count x; wait-file go; ok");
        let mut both = vec![world.start(args), world.start(args)];
        let second = wait_for_value(LONG, || {
            let at = both.iter_mut().position(|one| one.is_over())?;
            // The process that exits first may be the detached winner.
            Some(at)
        })
        .unwrap();
        let first_over = both.remove(second).done();
        if args.contains(&"-d") {
            let mut codes = [first_over.code, both.remove(0).done().code];
            codes.sort_unstable();
            assert_eq!(codes, [0, 5]);
        } else {
            first_over.expect(5);
        }
        eventually("the agent runs", || {
            world.sessions("1").len() == 1 && world.workspace("1").join("count").exists()
        });
        let pulls = world.tracker.pulls();
        eventually("more pulls came", || world.tracker.pulls() >= pulls + 3);
        assert_eq!(world.workspace_file("1", "count"), "x");
        world.vik(&["stop"]).expect(0);
    }
}

#[test]
fn row_12_status_and_stop_need_no_workflow_file() {
    for broken in [true, false] {
        let world = World::new(&[("1", "todo")]).script("hang");
        world.vik(&["run", "-d"]).expect(0);
        if broken {
            world.env.workflow("agents: [");
        } else {
            std::fs::remove_file(world.env.work().join("workflow.yml")).unwrap();
        }
        assert_eq!(world.status().unwrap()["state"], "running");
        world.vik(&["stop"]).expect(0);
        world.env.assert_nothing_left();
    }
}

#[test]
fn row_13_port_is_served_with_a_token_required() {
    let world = World::new(&[]);
    let output = world.vik(&["run", "-d", "--port", "0"]).expect(0).out;
    let address = world.status().unwrap()["api"]["address"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_contains(&output, &address);
    let _ = vik_testkit::HttpClient::tcp(&address)
        .get("/api/v1/state")
        .expect_status(401);
    world.vik(&["stop"]).expect(0);
    // An address without a port would never be served.
    let done = world.vik(&["run", "--bind-address", "::1"]).expect(2);
    assert_contains(&done.err, "--port");
}

#[test]
fn row_14_state_change_during_a_run_starts_no_second_agent() {
    let script = "SCRIPT: if-file busy \"touch two-at-once\"; touch busy; append order {{ issue.stage }}; wait-file go; run rm busy; ok";
    let world = World::new(&[("1", "todo")])
        .stage("work", "todo", script)
        .stage("review", "review", script);
    let moves = world.on_success("done");
    let world = world.set("/issue/stages/review/hooks", json!({"after_run": moves}));
    let daemon = world.daemon();
    eventually("the first runs", || {
        world.sessions("1").len() == 1 && world.workspace("1").join("busy").exists()
    });
    world.tracker.move_to("1", "review");
    let pulls = world.tracker.pulls();
    eventually("more pulls came", || world.tracker.pulls() >= pulls + 5);
    assert_eq!(world.sessions("1").len(), 1);
    world.go();
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
    assert_eq!(world.workspace_file("1", "order"), "workreview");
    assert!(!world.workspace("1").join("two-at-once").exists());
}

#[test]
fn row_15_incomplete_workspace_is_created_again() {
    let world = World::new(&[("1", "todo")])
        .set(
            "/issue/hooks",
            json!({"after_create": "touch half; mkdir -p deep/er; if [ -e {{ workflow_dir }}/second ]; then touch whole; else \
                touch {{ workflow_dir }}/second; echo cannot clone; exit 3; fi"}),
        )
        .script("if-file whole \"touch ran\"; unless-file whole \"exit 1\"; ok");
    std::fs::remove_dir_all(world.env.work().join("home")).unwrap_or_default();
    world.once().expect(0);
    let sessions = world.sessions("1");
    let failed = sessions[0].expect("failed", Some("hook"));
    assert_contains(failed["reason"].as_str().unwrap(), "cannot clone");
    assert!(
        !sessions[0].file(".raw.jsonl").exists(),
        "no agent was started in the half-made workspace"
    );
    sessions[1].expect("succeeded", None);
    assert!(world.workspace("1").join("ran").exists());
}

#[test]
fn row_16_error_in_the_result_is_a_failure() {
    let world = World::new(&[("1", "todo")])
        .agent("claude_code")
        .attempts(1)
        .script("start; failed 500 it broke; exit 0");
    world.once().expect(1);
    let session = world.session("1");
    let ended = session.ended();
    assert_eq!(ended["outcome"], "failed");
    assert_eq!(ended["exit_code"], 0);
    assert!(ended["reason"].as_str().unwrap().contains("it broke"), "{ended}");
    assert_eq!(world.tracker.state("1").as_deref(), Some("todo"));
}

#[test]
fn row_17_usage_reported_twice_counts_once() {
    let line = r#"line {"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":40,"output_tokens":7}}"#;
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .script(&format!("start; message hi\n{line}\n{line}"));
    world.once().expect(0);
    let usage = &world.session("1").ended()["usage"];
    assert_eq!(usage["input_tokens"], 100);
    assert_eq!(usage["cached_input_tokens"], 40);
    assert_eq!(usage["output_tokens"], 7);
}

#[test]
fn row_18_stderr_is_kept_and_its_tail_shown() {
    let world = World::new(&[("1", "todo")])
        .attempts(1)
        .script("stderr the disk is on fire; exit 3");
    let done = world.once().expect(1);
    let session = world.session("1");
    assert_eq!(session.text(".stderr.log"), "the disk is on fire\n");
    let ended = session.expect("failed", Some("agent"));
    assert_eq!(ended["exit_code"], 3);
    assert!(ended["reason"].as_str().unwrap().contains("the disk is on fire"));
    assert_contains(&done.err, "the disk is on fire");
    assert_contains(&world.vik(&["show", "1"]).expect(0).out, "the disk is on fire");
}

#[test]
fn row_19_timeouts_are_set_in_the_workflow() {
    let world = World::new(&[("agent", "todo"), ("hook", "todo")])
        .attempts(1)
        .work("timeout", json!("300ms"))
        .work(
            "hooks/before_run",
            json!("if [ {{ issue.id }} = hook ]; then sleep 600; fi"),
        )
        .work("hooks/timeout", json!("300ms"))
        .script("hang");
    let started = std::time::Instant::now();
    world.once().expect(1);
    world.session("agent").expect("timed_out", None);
    let hook = world.session("hook").expect("failed", Some("hook"));
    assert!(hook["reason"].as_str().unwrap().contains("300ms"), "{hook}");
    let world = World::new(&[])
        .set("/issues/pull/command", json!("sleep 600"))
        .set("/issues/pull/timeout", json!("200ms"));
    let done = world.once().expect(8);
    assert_contains(&done.out, "200ms");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn row_20_session_log_drops_no_line() {
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .script("start; flood-events 20000 100; done");
    world.once().expect(0);
    let session = world.session("1");
    session.expect("succeeded", None);
    let raw = session.raw();
    let printed = raw
        .split(|&byte| byte == b'\n')
        .filter(|line| line.windows(15).any(|w| w == b"\"agent_message\""))
        .count();
    assert!(printed >= 20_000);
    assert_eq!(session.messages().len(), printed);
}
