//! The limit on open files: how many sessions it allows, and a daemon that reaches it.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::*;

/// Enough open files for two sessions.
const TWO_SESSIONS: u64 = 312;

/// Returns `vik run` in the foreground with this limit on open files.
fn limited(world: &World, files: u64) -> Command {
    let mut command = world.env.command("sh");
    command
        .args(["-c", "ulimit -n $0; exec \"$@\"", &files.to_string()])
        .args([env!("CARGO_BIN_EXE_vik"), "run"]);
    command
}

/// Agents wait for the file `go` in the folder of the workflow in Vik's home.
fn waiting_agents(issues: &[(&str, &str)]) -> World {
    World::new(issues)
        .set(
            "/loop",
            json!({"max_issue_concurrency": 8, "orphan_grace": "60s"}),
        )
        .set("/issue/terminal_states", json!(["done"]))
        .set("/issue/remove_workspace", json!("never"))
        .script("touch up; wait-file ../../go; ok")
}

/// Returns the number of sessions that a daemon has; 0 before it answers.
fn sessions(world: &World) -> usize {
    let status = world.status().unwrap_or_default();
    status["sessions"].as_array().map_or(0, Vec::len)
}

fn up(world: &World, issues: &[(&str, &str)]) -> usize {
    let is_up = |(issue, _): &&(&str, &str)| world.workspace(issue).join("up").exists();
    issues.iter().filter(is_up).count()
}

fn all_done(world: &World, issues: &[(&str, &str)]) -> bool {
    issues
        .iter()
        .all(|(issue, _)| world.tracker.state(issue).as_deref() == Some("done"))
}

#[test]
fn more_issues_than_files_allow_wait_and_are_done() {
    let issues = [
        ("1", "todo"),
        ("2", "todo"),
        ("3", "todo"),
        ("4", "todo"),
        ("5", "todo"),
    ];
    let world = waiting_agents(&issues);
    let daemon = world.start_command(limited(&world, TWO_SESSIONS));
    eventually("two are alive", || sessions(&world) == 2);
    eventually("two are up", || up(&world, &issues) == 2);
    let reason = "the limit on open files allows 2 sessions";
    eventually("the others wait", || {
        let waiting = world.status().unwrap()["waiting"].clone();
        waiting.as_array().is_some_and(|waiting| {
            waiting.len() == 3 && waiting.iter().all(|one| one["reason"] == "open_files")
        })
    });
    let explained = world.vik(&["explain", "5"]).expect(0).out;
    assert_contains(&explained, reason);
    let pulls = world.tracker.pulls();
    eventually("more pulls", || world.tracker.pulls() > pulls + 2);
    assert_eq!(up(&world, &issues), 2);
    fs::write(world.home().join("go"), "").unwrap();
    eventually("all are done", || all_done(&world, &issues));
    let err = daemon.err();
    let warning =
        "`loop.max_issue_concurrency` is 8, but the limit on open files (312) allows only 2 sessions";
    assert_eq!(err.matches(warning).count(), 1, "{err}");
    daemon.stop().expect(0);
}

/// The shims keep the agents for which no files can be opened yet.
#[test]
fn more_adopted_sessions_than_files_allow_all_succeed() {
    let issues = [("1", "todo"), ("2", "todo"), ("3", "todo"), ("4", "todo")];
    let world = waiting_agents(&issues);
    let daemon = world.daemon();
    eventually("all are up", || up(&world, &issues) == 4);
    daemon.signal(Signal::SIGKILL);
    drop(daemon.done());
    let daemon = world.start_command(limited(&world, TWO_SESSIONS));
    eventually("all are known", || sessions(&world) == 4);
    fs::write(world.home().join("go"), "").unwrap();
    eventually("all are done", || all_done(&world, &issues));
    daemon.stop().expect(0);
    for (issue, _) in issues {
        world.session(issue).expect("succeeded", None);
    }
}

/// Takes from a running daemon all files that are not open yet, or gives them back.
#[cfg(target_os = "linux")]
fn limit_new_files(daemon: &Running, soft: &str) {
    let status = Command::new("prlimit")
        .args([format!("--pid={}", daemon.pid()), format!("--nofile={soft}:")])
        .status();
    assert!(status.unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn daemon_without_any_file_left_goes_on_and_counts_no_attempt() {
    let issues = [("1", "todo"), ("2", "todo")];
    let world = waiting_agents(&issues)
        .set("/loop/max_issue_concurrency", json!(1))
        .attempts(1);
    let daemon = world.start(&["run", "-v"]);
    eventually("one is alive", || sessions(&world) == 1);
    eventually("it is up", || up(&world, &issues) == 1);
    let go = world.home().join("go");
    limit_new_files(&daemon, "3");
    fs::write(go, "").unwrap();
    eventually("the next attempt waits", || {
        daemon.err().contains("the attempt waits until some are closed")
    });
    limit_new_files(&daemon, "1024");
    eventually("all are done", || all_done(&world, &issues));
    let err = daemon.err();
    daemon.stop().expect(0);
    let first = &world.sessions("1")[0];
    let ended = first.expect("failed", Some("internal"));
    let reason = ended["reason"].as_str().unwrap();
    assert!(reason.starts_with("too many open files: "), "{reason}\n{err}");
    world.session("2").expect("succeeded", None);
}
