//! Ends of a daemon: by signals, by `stop`, by its death. No process is left, and stopped attempts
//! are marked as such.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::*;

fn exit_record(world: &World) -> Value {
    serde_json::from_str(&world.session("1").text(".exit.json")).unwrap()
}

#[test]
fn sigint_and_sigterm_stop_gracefully() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 0)] {
        let world = World::new(&[("1", "todo")])
            .work("hooks/after_run", json!("touch after-run"))
            .script("trap INT \"touch interrupted; exit 0\"; touch up; hang");
        let daemon = world.daemon();
        world.wait_for_agent(1);
        daemon.signal(signal);
        let done = daemon.done().expect(code);
        world.env.assert_nothing_left();
        assert!(
            world.workspace("1").join("interrupted").exists(),
            "the ladder begins with INT"
        );
        assert!(
            !world.workspace("1").join("after-run").exists(),
            "no after_run for what was cancelled"
        );
        world.session("1").expect("cancelled", None);
        assert_eq!(exit_record(&world)["cause"], "stopped");
        assert!(
            !done.out.contains("failed:"),
            "what was stopped did not fail: {}",
            done.out
        );
        assert_eq!(world.runs()[0]["outcome"], "cancelled");
    }
}

#[test]
fn interrupted_run_once_exits_130() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let world = World::new(&[("1", "todo")]).script("touch up; hang");
        let once = world.start(&["run", "--once"]);
        world.wait_for_agent(1);
        once.signal(signal);
        once.done().expect(130);
        world.env.assert_nothing_left();
    }
}

#[test]
fn second_signal_forces_the_stop() {
    let world = World::new(&[("1", "todo")]).script("ignore INT,TERM; touch up; hang");
    let daemon = world.daemon();
    world.wait_for_agent(1);
    daemon.signal(Signal::SIGTERM);
    eventually("it stops", || daemon.err().contains("stopping"));
    daemon.signal(Signal::SIGTERM);
    daemon.done().expect(0);
    world.env.assert_nothing_left();
    assert_eq!(
        exit_record(&world)["cause"],
        "killed",
        "it did not wait for the ladder"
    );
    world.session("1").expect("cancelled", None);
}

#[test]
fn agent_that_ignores_signals_is_killed() {
    let world = World::new(&[("1", "todo")]).script("ignore INT,TERM; setsid-child 600000; touch up; hang");
    world.vik(&["run", "-d"]).expect(0);
    world.wait_for_agent(1);
    world.vik(&["stop"]).expect(0);
    world.env.assert_nothing_left();
    let ended = world.session("1").expect("cancelled", None);
    assert_eq!(ended["signal"], 9);
}

#[test]
fn stop_is_forced_after_its_timeout() {
    let world = World::new(&[("1", "todo")]).script("ignore INT,TERM; touch up; hang");
    world.vik(&["run", "-d"]).expect(0);
    world.wait_for_agent(1);
    world.vik(&["stop", "--timeout", "0"]).expect(0);
    world.env.assert_nothing_left();
    assert_eq!(exit_record(&world)["cause"], "killed");
}

#[test]
fn simultaneous_stops_both_succeed() {
    let world = World::new(&[("1", "todo")]).script("trap INT \"sleep 300; exit 0\"; touch up; hang");
    world.vik(&["run", "-d"]).expect(0);
    world.wait_for_agent(1);
    let both = [world.start(&["stop"]), world.start(&["stop"])];
    for stop in both {
        let done = stop.done();
        // The second `stop` may come after the daemon has exited.
        assert!(matches!(done.code, 0 | 4), "{done:?}");
    }
    world.env.assert_nothing_left();
    assert_eq!(
        exit_record(&world)["cause"],
        "stopped",
        "asking twice is no reason to hurry"
    );
    world.vik(&["stop"]).expect(4);
}

#[test]
fn status_shows_that_the_daemon_is_stopping() {
    let world = World::new(&[("1", "todo")]).script("trap INT \"wait-file go; exit 0\"; touch up; hang");
    let daemon = world.daemon();
    world.wait_for_agent(1);
    daemon.signal(Signal::SIGTERM);
    world.wait_for_status("it is stopping", |status| status["state"] == "stopping");
    let state = std::fs::read_to_string(world.home().join("service/state.json")).unwrap();
    assert_contains(&state, "\"stopping\"");
    world.go();
    daemon.done().expect(0);
}

#[test]
fn stop_ends_pulls_hooks_and_prompt_commands() {
    let hang = "touch {{ workflow_dir }}/up; sleep 600 & sleep 600";
    let worlds = [
        World::new(&[]).set("/issues/pull/command", json!("touch up; sleep 600 & sleep 600")),
        World::new(&[("1", "todo")]).work("hooks/before_run", json!(hang)),
        World::new(&[("1", "todo")]).set("/issue/hooks", json!({"after_create": hang})),
        World::new(&[("1", "todo")]).work("verify", json!(hang)),
        World::new(&[("1", "todo")]).work("prompt", json!("!`exec(touch {{ workflow_dir }}/up; sleep 600)`")),
    ];
    for (at, world) in worlds.iter().enumerate() {
        world.vik(&["run", "-d"]).expect(0);
        eventually("it hangs", || world.env.work().join("up").exists());
        let started = Instant::now();
        world.vik(&["stop"]).expect(0);
        world.env.assert_nothing_left();
        assert!(started.elapsed() < Duration::from_secs(30), "world {at}");
        if at > 0 {
            world.session("1").expect("cancelled", None);
        }
    }
}

#[test]
fn graceful_stop_lets_after_run_finish() {
    // The agent has finished; without the hook, the tracker would never receive the new state.
    let world = World::new(&[("1", "todo")]);
    let moves = world.tracker.move_command("done");
    let world = world.work(
        "hooks/after_run",
        json!(format!("touch {{{{ workflow_dir }}}}/up; while [ ! -e {{{{ workflow_dir }}}}/go ]; do sleep 0.02; done; {moves}")),
    );
    let daemon = world.daemon();
    eventually("after_run runs", || world.env.work().join("up").exists());
    daemon.signal(Signal::SIGTERM);
    eventually("it stops", || daemon.err().contains("stopping"));
    world.env.write("work/go", "");
    daemon.done().expect(0);
    world.session("1").expect("succeeded", None);
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
}

#[test]
fn forced_stop_ends_after_run() {
    let world = World::new(&[("1", "todo")]).work(
        "hooks/after_run",
        json!("touch {{ workflow_dir }}/up; trap '' INT TERM; while true; do sleep 0.05; done"),
    );
    let daemon = world.daemon();
    eventually("after_run runs", || world.env.work().join("up").exists());
    daemon.signal(Signal::SIGTERM);
    eventually("it stops", || daemon.err().contains("stopping"));
    daemon.signal(Signal::SIGTERM);
    daemon.done().expect(0);
    world.env.assert_nothing_left();
}

#[test]
fn stop_after_a_daemon_crash_leaves_nothing() {
    // These processes have no mark in their environment and ignore signals: only their shim can end
    // them.
    let world = World::new(&[("1", "todo")]).script(
        "spawn setsid,clearenv \"ignore INT,TERM; hang\"; clearenv \"ignore INT,TERM; touch up; hang\"",
    );
    world.vik(&["run", "-d"]).expect(0);
    world.wait_for_agent(1);
    world.kill_daemon();
    let done = world.vik(&["stop"]).expect(0);
    world.env.assert_nothing_left();
    assert_contains(&done.out, "no daemon was running");
    world.vik(&["stop"]).expect(4);
    // An attempt that was cut off is lost, and not shown as running for ever.
    let run = &world.runs()[0];
    assert_eq!(run["outcome"], "lost");
    assert_eq!(run["state"], "waiting");
}

#[test]
fn daemon_killed_during_a_hook_leaves_no_hook() {
    let world = World::new(&[("1", "todo")]).work(
        "hooks/before_run",
        json!("touch {{ workflow_dir }}/up; trap '' INT TERM; setsid sleep 600 & sleep 600"),
    );
    world.vik(&["run", "-d"]).expect(0);
    eventually("the hook runs", || world.env.work().join("up").exists());
    world.kill_daemon();
    eventually("all is gone", || world.env.leftovers().is_empty());
}

#[test]
fn restart_after_a_crash_starts_no_second_agent() {
    let script =
        "if-file busy \"touch two-at-once\"; touch busy; trap INT \"sleep 1000; run rm busy; exit 0\"
        touch up; unless-file second \"touch second; hang\"; run rm busy; ok";
    let world = World::new(&[("1", "todo")])
        .set("/loop", json!({"orphan_grace": 0}))
        .script(script);
    world.vik(&["run", "-d"]).expect(0);
    world.wait_for_agent(1);
    world.kill_daemon();
    world.vik(&["run", "-d"]).expect(0);
    world.wait_for_state("1", "done");
    world.vik(&["stop"]).expect(0);
    assert!(!world.workspace("1").join("two-at-once").exists());
    // The log that the dead daemon left incomplete has an end.
    world.sessions("1")[0].expect("lost", None);
}

#[test]
fn killed_shim_costs_the_attempt_and_leaves_nothing() {
    let world = World::new(&[("1", "todo")])
        .script("if-file second ok; unless-file second \"touch second; setsid-child 600000 clearenv; pidfile pid; touch up; hang\"");
    let daemon = world.daemon();
    world.wait_for_agent(1);
    eventually("the pid is there", || {
        !world.workspace_file("1", "pid").is_empty()
    });
    let agent: i32 = world.workspace_file("1", "pid").trim().parse().unwrap();
    let shim: i32 = stat_fields(agent)[1].parse().unwrap();
    kill(Pid::from_raw(shim), Signal::SIGKILL).unwrap();
    eventually("the agent is gone", || !alive(agent));
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
    world.env.assert_nothing_left();
    let sessions = world.sessions("1");
    sessions[0].expect("lost", None);
    assert_eq!(
        sessions.last().unwrap().expect("succeeded", None)["outcome"],
        "succeeded"
    );
    assert_eq!(
        world.runs()[0]["attempts"][1]["attempt"],
        1,
        "losing a host uses no attempt"
    );
}

#[test]
fn hook_may_stop_its_own_daemon() {
    let world = World::new(&[("1", "todo"), ("2", "todo")]).set("/loop", json!({"max_issue_concurrency": 1}));
    let moves = world.on_success("done");
    let world = world.work(
        "hooks/after_run",
        json!(format!(
            "vik stop -w {{{{ workflow_path }}}}; {moves}; sleep 0.2; touch ended"
        )),
    );
    let started = Instant::now();
    let daemon = world.start(&["run"]);
    daemon.done().expect(0);
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "it waited for itself"
    );
    assert!(world.workspace("1").join("ended").exists());
    assert_eq!((world.sessions("1").len(), world.sessions("2").len()), (1, 0));
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
}

#[test]
fn stop_reaches_a_daemon_that_is_just_starting() {
    for _ in 0..5 {
        let world = World::new(&[]);
        let starting = world.start(&["run", "-d"]);
        eventually("the lock is there", || {
            list(&world.env.state().join("vik/instances"))
                .first()
                .is_some_and(|folder| folder.join("lock").exists())
        });
        let stop = world.vik(&["stop", "--timeout", "20"]);
        let start = starting.done();
        assert!(matches!(stop.code, 0 | 4), "{stop:?}");
        if stop.code == 0 {
            world.vik(&["status"]).expect(4);
        } else {
            // `stop` came before the daemon held the lock.
            assert_eq!(start.code, 0, "{start:?}");
            world.vik(&["stop"]).expect(0);
        }
        world.env.assert_nothing_left();
    }
}

#[test]
fn restart_after_a_crash_starts_nothing_beside_an_old_hook() {
    let hook = "if [ -e pid ] && kill -0 $(cat pid); then touch {{ workflow_dir }}/two-at-once; fi; echo $$ > pid; \
        touch {{ workflow_dir }}/up; test -e {{ workflow_dir }}/go || { trap '' INT TERM; while true; do sleep 0.05; done; }";
    let world = World::new(&[("1", "todo")]).work("hooks/before_run", json!(hook));
    world.vik(&["run", "-d"]).expect(0);
    eventually("the hook runs", || world.env.work().join("up").exists());
    world.env.write("work/go", "");
    world.kill_daemon();
    world.once().expect(0);
    assert!(!world.env.work().join("two-at-once").exists());
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
}
