//! How attempts end: processes that are left, exit codes, and timeouts.

use std::time::{Duration, Instant};

use super::*;

#[test]
fn leftover_processes_are_ended_however_they_hide() {
    for left in [
        "fork-hold-stdout 600000",
        "setsid-child 600000",
        "daemonise 600000",
        "setsid-child 600000 clearenv",
        "daemonise 600000 clearenv,hold-stdout,cwd=/",
        "spawn double,clearenv,cwd=/ \"ignore INT,TERM; hang\"",
        "spawn setsid \"spawn double,clearenv \\\"hang\\\"; exit 0\"",
        "run sleep 600 > /dev/null 2>&1 & sleep 600 > /dev/null 2>&1 &",
    ] {
        let world = single(&format!("{left}; touch up; ok"));
        let done = world.once();
        assert_eq!(done.code, 0, "{left}: {done:?}");
        world.env.assert_nothing_left();
        let session = world.session("1");
        let ended = session.expect("succeeded", None);
        assert_eq!(ended["proof"], "subreaper", "{left}");
        let record = exit_record(&session);
        assert!(record["leftovers_killed"].as_u64() >= Some(1), "{left}: {record}");
    }
}

#[test]
fn fork_storm_of_an_agent_is_ended() {
    let storm = "for n in 1 2 3 4 5 6 7 8 9 10; do setsid sh -c 'while :; do sleep 0.02; setsid sleep 600 & done' > /dev/null 2>&1 & done; sleep 0.3";
    let world = single(&format!("try \"{storm}\"; ok"));
    world.once().expect(0);
    world.env.assert_nothing_left();
    world.session("1").expect("succeeded", None);
}

#[test]
fn exit_code_and_signal_are_distinguished() {
    let world = single("exit 7");
    world.once().expect(1);
    let ended = world.session("1").expect("failed", Some("agent"));
    assert_eq!((&ended["exit_code"], &ended["signal"]), (&json!(7), &Value::Null));
    let world = single("signal SEGV");
    world.once().expect(1);
    let ended = world.session("1").expect("failed", Some("agent"));
    assert_eq!(ended["exit_code"], Value::Null);
    assert_eq!(ended["signal"], 11);
    let record = exit_record(&world.session("1"));
    assert_eq!(record["signal"], 11);
    assert_eq!(record["cause"], "exited");
}

#[test]
fn agent_that_cannot_start_is_reported_with_the_cause() {
    for (command, message) in [
        (json!(["no-such-agent-anywhere"]), "no-such-agent-anywhere"),
        (json!(["/etc/hostname"]), "/etc/hostname"),
        (json!(["./broken-interpreter"]), "interpreter"),
    ] {
        let world = single("ok").set("/agents/a/command", command);
        let world = world.work(
            "hooks/before_run",
            json!("printf '#!/no/such/interpreter\\n' > broken-interpreter; chmod +x broken-interpreter"),
        );
        let done = world.once().expect(1);
        let ended = world.session("1").expect("failed", Some("usage"));
        let reason = ended["reason"].as_str().unwrap();
        assert_contains(reason, message);
        assert_contains(&done.err, message);
    }
}

#[test]
fn timeout_with_exit_code_zero_is_no_success() {
    // A stop stays a stop when the agent exits cleanly.
    let world = single("trap INT \"ok All done; exit 0\"; hang").work("timeout", json!("300ms"));
    world.once().expect(1);
    world.session("1").expect("timed_out", None);
    assert_eq!(world.tracker.state("1").as_deref(), Some("todo"));
}

#[test]
fn stage_timeout_kills_an_agent_that_ignores_signals() {
    let world = single("ignore INT,TERM; setsid-child 600000; hang").work("timeout", json!("300ms"));
    let started = Instant::now();
    world.once().expect(1);
    let ended = world.session("1").expect("timed_out", None);
    assert_eq!(ended["signal"], 9);
    assert!(ended["reason"].as_str().unwrap().contains("300ms"));
    assert!(started.elapsed() < Duration::from_secs(40));
    world.env.assert_nothing_left();
}

#[test]
fn stall_timeout_ends_silence_but_not_tool_calls() {
    let world = World::new(&[("silent", "todo"), ("tool", "todo"), ("stderr", "todo")])
        .agent("codex")
        .attempts(1)
        .work("stall_timeout", json!("700ms"))
        .work(
            "prompt",
            json!("SCRIPT: start; message hi; {{ {'silent': 'hang', 'tool': 'tool t1 make; sleep 2000; toolend t1 0; sleep 100', \
                'stderr': 'repeat 10 \"stderr .; sleep 200\"'}[issue.id] }}; message end; done"),
        );
    world.once().expect(1);
    let ended = world.session("silent").expect("stalled", None);
    assert!(ended["reason"].as_str().unwrap().contains("700ms"), "{ended}");
    world.session("tool").expect("succeeded", None);
    world.session("stderr").expect("succeeded", None);
}

#[test]
fn tool_timeout_ends_a_long_tool_call() {
    let world = single("start; tool t1 sleep; hang")
        .agent("claude_code")
        .work("tool_timeout", json!("300ms"));
    world.once().expect(1);
    let ended = world.session("1").expect("timed_out", None);
    assert!(ended["reason"].as_str().unwrap().contains("tool"), "{ended}");
}

#[test]
fn tool_timeout_applies_to_each_call_separately() {
    // One call ends and the next one starts in one write, so that a call is open at any time.
    let item = |phase: &str, id: u32| {
        let item = json!({"id": format!("t{id}"), "type": "command_execution", "command": "make", "aggregated_output": "",
            "exit_code": (phase == "completed").then_some(0), "status": if phase == "completed" { phase } else { "in_progress" }});
        json!({"type": format!("item.{phase}"), "item": item}).to_string()
    };
    // Quoted text in a script is escaped as in JSON.
    let print = |text: String| format!("partial {}", json!(text));
    let mut script = format!("start; {}", print(item("started", 0) + "\n"));
    for id in 0..4 {
        script += &format!(
            "; sleep 600; {}",
            print(format!(
                "{}\n{}\n",
                item("completed", id),
                item("started", id + 1)
            ))
        );
    }
    script += &format!("; sleep 100; {}; done", print(item("completed", 4) + "\n"));
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .attempts(1)
        .work("tool_timeout", json!("1s"));
    let world = world.script(&script);
    world.once().expect(0);
    world.session("1").expect("succeeded", None);
    assert_eq!(world.session("1").of_kind("tool_call").len(), 5);
}
