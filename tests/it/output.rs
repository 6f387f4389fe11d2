//! Output of agents: endless output, more output than fits on the disk, and control sequences for a
//! terminal.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vik_testkit::report_skipped;

use crate::support::*;

/// Returns an agent that prints an endless line, then runs `then`; it exits at once when the file
/// `calm` exists.
fn endless(disk: &Path, sandbox: &Value, then: &str) -> Value {
    let calm = disk.join("calm");
    agent(
        &format!("[ -e '{}' ] && exit; cat /dev/zero; {then}", calm.display()),
        sandbox,
    )
}

fn agent(command: &str, sandbox: &Value) -> Value {
    json!({"runtime": "command", "command": ["sh", "-c", command], "sandbox": sandbox})
}

/// Runs `test` on a small file system that no other process sees: it runs the same test once more,
/// in a mount namespace.
fn on_a_small_disk(name: &str, size: &str, test: impl FnOnce(&Path)) {
    const DISK: &str = "VIK_TEST_SMALL_DISK";
    if let Some(disk) = std::env::var_os(DISK) {
        return test(Path::new(&disk));
    }
    let folder = tempfile::Builder::new().prefix("vd-").tempdir().unwrap();
    let disk = folder.path().to_str().unwrap();
    let within = |command: &str| {
        let mount = format!("mount -t tmpfs -o size={size},mode=700 vik-test '{disk}' && {command}");
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private", "sh", "-c", &mount]);
        unshare.stdin(Stdio::null()).env(DISK, disk);
        unshare
    };
    if !within("true").status().is_ok_and(|status| status.success()) {
        report_skipped("only root may mount a file system");
        return;
    }
    let own = std::env::current_exe().unwrap();
    let done = within(&format!("exec '{}' --exact {name} --nocapture", own.display()))
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && output.contains("1 passed"), "{output}");
}

/// Returns the peak memory of a process, in KiB.
fn peak_memory(pid: i64) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Returns the status, and checks that it comes within a second plus the time to start a program on
/// a busy machine.
fn prompt_status(world: &World) -> Value {
    let timed = |args: &[&str]| {
        let started = Instant::now();
        (world.vik(args).expect(0), started.elapsed())
    };
    let (_, start) = timed(&["--version"]);
    let (status, elapsed) = timed(&["status", "--json"]);
    assert!(
        elapsed < Duration::from_secs(1) + 5 * start,
        "{elapsed:?}, {start:?}"
    );
    status.json()
}

/// Waits until nothing runs and this number of issues is parked, and polls the daemon all the time.
/// Returns its pid.
fn all_parked(world: &World, count: usize) -> i64 {
    let deadline = Instant::now() + LONG;
    loop {
        let status = prompt_status(world);
        if status["parked"].as_array().unwrap().len() == count && status["sessions"] == json!([]) {
            return status["pid"].as_i64().unwrap();
        }
        assert!(Instant::now() < deadline, "{status:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Checks that the daemon still works on an ordinary issue.
fn does_an_ordinary_issue(world: &World, disk: &Path) {
    std::fs::write(disk.join("calm"), "").unwrap();
    world.tracker.add("after", "An ordinary one", "todo");
    let is_done = || world.tracker.state("after").as_deref() == Some("done");
    let done = vik_testkit::wait_for(LONG, is_done);
    assert!(done, "{:?}", world.vik(&["explain", "after"]));
    std::fs::remove_file(disk.join("calm")).unwrap();
}

fn ten() -> Vec<(&'static str, &'static str)> {
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
        .map(|id| (id, "todo"))
        .to_vec()
}

#[test]
fn endless_lines_of_ten_agents_end_at_their_disk_limit() {
    let name = "output::endless_lines_of_ten_agents_end_at_their_disk_limit";
    on_a_small_disk(name, "3g", |disk| {
        let world = World::below(disk, &ten())
            .set(
                "/agents/a",
                endless(disk, &json!({"disk": "200MiB"}), "sleep 600"),
            )
            .set("/loop", json!({"max_issue_concurrency": 10}))
            .attempts(1);
        world.vik(&["run", "-d"]).expect(0);
        let daemon = all_parked(&world, 10);
        let peak = peak_memory(daemon);
        assert!(peak < 150_000, "{peak} KiB");
        for (issue, _) in ten() {
            let session = world.session(issue);
            let ended = session.expect("failed", Some("agent"));
            let reason = ended["reason"].as_str().unwrap();
            assert_contains(reason, "(`sandbox.disk`)");
            assert!(session.raw().len() < 400 << 20);
            std::fs::remove_file(session.file(".raw.jsonl")).unwrap();
        }
        does_an_ordinary_issue(&world, disk);
        assert_eq!(prompt_status(&world)["pid"], daemon);
        world.vik(&["stop"]).expect(0);
    });
}

#[test]
fn agents_that_fill_the_disk_fail_and_the_daemon_survives() {
    let name = "output::agents_that_fill_the_disk_fail_and_the_daemon_survives";
    on_a_small_disk(name, "200m", |disk| {
        for sandbox in [json!({}), json!("off")] {
            // An agent that starts when the disk is full uses no space, so it may not be killed for
            // that: it exits by itself.
            let world = World::below(disk, &ten())
                .set("/agents/a", endless(disk, &sandbox, "exit 1"))
                .set("/loop", json!({"max_issue_concurrency": 10}))
                .attempts(1);
            world.vik(&["run", "-d"]).expect(0);
            let is_over = || prompt_status(&world)["sessions"] == json!([]);
            eventually("what filled the disk has ended", || {
                !world.runs().is_empty() && is_over()
            });
            let daemon = prompt_status(&world)["pid"].clone();
            for run in world.runs() {
                for attempt in run["attempts"].as_array().unwrap() {
                    assert_eq!(attempt["outcome"], "failed", "{attempt:#}");
                    let reason = attempt["reason"].as_str().unwrap();
                    assert_contains(reason, "disk");
                }
            }
            let sessions = ten().into_iter().flat_map(|(issue, _)| world.sessions(issue));
            for session in sessions {
                let _ = std::fs::remove_file(session.file(".raw.jsonl"));
            }
            // Attempts that could not start on the full disk can start now.
            does_an_ordinary_issue(&world, disk);
            assert_eq!(prompt_status(&world)["pid"], daemon);
            world.vik(&["stop"]).expect(0);
        }
    });
}

/// The output of Codex after a line that is too long.
const RESULT: &str = r#"{"type":"item.completed","item":{"id":"i2","type":"agent_message","text":"good"}}
{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":2}}"#;

#[test]
fn overlong_line_does_not_hide_the_result_after_it() {
    let started = r#"{"type":"thread.started","thread_id":"01a1ffcd-34e9-78d1-bc6d-b647a491f028"}"#;
    let script =
        format!("echo '{started}'; head -c 64M /dev/zero | tr '\\0' x; echo; cat <<'END'\n{RESULT}\nEND");
    let mut profile = agent(&script, &json!({}));
    profile["output"] = json!("jsonl");
    let world = World::new(&[("1", "todo")]).set("/agents/a", profile);
    world.once().expect(0);
    let session = world.session("1");
    let ended = session.expect("succeeded", None);
    assert_eq!(ended["last_message"], "good");
    let cut = &session.of_kind("malformed")[0];
    assert_eq!(cut["bytes"], 64 << 20);
    assert_eq!(cut["offset"], started.len() as u64 + 1);
    assert!(session.text(".jsonl").len() < 1 << 20);
    // The raw file contains the whole line, and the command prints it from there.
    let raw = world.vik(&["logs", "--raw"]).expect(0).out;
    assert_eq!(raw.as_bytes(), session.raw());
}

#[test]
fn output_of_an_agent_counts_towards_its_disk_limit() {
    for command in [
        "head -c 4G /dev/zero; sleep 600",
        "head -c 4G /dev/zero >&2; sleep 600",
        // The session log of short lines is many times as large, and is written after all processes
        // of the agent have exited.
        "yes | head -c 4M",
    ] {
        let world = World::new(&[("1", "todo")])
            .set("/agents/a", agent(command, &json!({"disk": "32MiB"})))
            .attempts(1);
        world.once().expect(1);
        let ended = world.session("1").expect("failed", Some("agent"));
        let reason = ended["reason"].as_str().unwrap();
        assert!(
            reason.contains("allows 32 MiB (`sandbox.disk`)"),
            "{command}: {reason}"
        );
        let kept: usize = [".raw.jsonl", ".stderr.log", ".jsonl"]
            .map(|file| world.session("1").text(file).len())
            .iter()
            .sum();
        assert!(kept < 512 << 20, "{command}: {kept}");
    }
}

/// Runs a command with a terminal for its output, and returns what the terminal received.
fn on_a_terminal(world: &World, args: &[&str]) -> Vec<u8> {
    let pty = nix::pty::openpty(None, None).unwrap();
    let (mut screen, terminal) = (std::fs::File::from(pty.master), pty.slave);
    let stdout = |terminal: &OwnedFd| Stdio::from(terminal.try_clone().unwrap());
    let mut child = world
        .env
        .vik(args)
        .stdin(Stdio::null())
        .stdout(stdout(&terminal))
        .stderr(stdout(&terminal))
        .spawn()
        .unwrap();
    drop(terminal);
    let mut shown = Vec::new();
    // Reading from a terminal that no process holds open returns an error instead of an end.
    let _ = screen.read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    shown
}

#[test]
fn terminal_gets_no_control_sequences_and_a_pipe_raw_bytes() {
    let hostile = "\u{1b}]52;c;aGVsbG8=\u{7}\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}2J\u{202e}reversed\u{2066}";
    let mut world = World::new(&[("1", "todo")]);
    let expected = format!("{hostile}\n{hostile} no newline");
    world.env.write("work/hostile", &expected);
    let file = world.env.work().join("hostile");
    world.put(
        "/agents/a",
        agent(&format!("cat '{}'", file.display()), &json!({})),
    );
    world.put("/agents/a/output", json!("text"));
    world.once().expect(0);
    let piped = world.vik(&["logs", "--raw"]).expect(0).out;
    assert_eq!(piped, expected);
    let obeyed =
        |c: char| (c.is_control() && !matches!(c, '\n' | '\r' | '\t')) || "\u{202e}\u{2066}".contains(c);
    for args in [
        &["logs", "--raw"][..],
        &["logs", "--raw", "--unmasked"],
        &["logs", "--json"],
        &["runs", "--json"],
    ] {
        let shown = String::from_utf8(on_a_terminal(&world, args)).unwrap();
        assert!(!shown.contains(obeyed), "{args:?}: {shown:?}");
        assert!(
            args[0] == "runs" || shown.contains("reversed"),
            "{args:?}: {shown:?}"
        );
    }
    // JSON on a terminal has the same events.
    let events = |text: &str| -> Vec<Value> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let shown = String::from_utf8(on_a_terminal(&world, &["logs", "--json"])).unwrap();
    assert_eq!(
        events(&shown),
        events(&world.vik(&["logs", "--json"]).expect(0).out)
    );
}

#[test]
fn logs_show_hooks_where_they_ran() {
    let world = World::new(&[("1", "todo"), ("2", "todo")])
        .work("verify", json!("echo it works"))
        .work(
            "hooks",
            json!({"before_run": "echo prepared", "after_run": "echo cannot move; exit 3"}),
        )
        .work("hand_over", json!({"max_tries": 1}))
        .script("write x y; message hi; ok");
    world.once().expect(1);
    let text = world.vik(&["logs", "--issue", "1"]).expect(0).out;
    let places: Vec<_> = [
        "$ before_run\n",
        "prepared",
        "hi",
        "$ verify\n",
        "it works",
        "$ after_run failed: ",
        "cannot move",
    ]
    .iter()
    .map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")))
    .collect();
    assert!(places.is_sorted(), "{text}");
    let json = world.vik(&["logs", "--json"]).expect(0).out;
    assert!(!json.contains("prepared"), "{json}");
    let last = world.vik(&["logs", "--json", "--tail", "1"]).expect(0).out;
    assert_eq!(json.lines().last(), Some(last.trim_end()));
    let tail = world.vik(&["logs", "--tail", "1"]).expect(0).out;
    assert_contains(&tail, "cannot move");
    assert!(!tail.contains("prepared"), "{tail}");
    let none = world.vik(&["logs", "--json", "--since", "2100-01-01"]).expect(0);
    assert_eq!((none.out.as_str(), none.err.as_str()), ("", ""));
    let of_stage = world.vik(&["logs", "--issue", "1", "--stage", "work"]).expect(0);
    assert_eq!(of_stage.out, text);
    let unknown = world.vik(&["logs", "1", "--stage", "other"]).expect(8);
    assert_contains(&unknown.err, "no matching session");
    let newest = world.vik(&["logs"]).expect(0).err;
    assert!(
        newest.starts_with("the newest of 2 sessions, of issue "),
        "{newest}"
    );
}
