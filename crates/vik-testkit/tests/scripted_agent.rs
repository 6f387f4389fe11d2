//! The scripted agent and the test environment, tested with each other.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use vik_testkit::{TestEnv, alive, eventually, wait_for};

const AGENT: &str = env!("CARGO_BIN_EXE_vik-scripted-agent");

fn run_as(env: &TestEnv, name: &str, args: &[&str], prompt: &str) -> Output {
    let mut command = env.command(name);
    command.args(args);
    run(command, prompt)
}

fn run(mut command: Command, prompt: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(prompt.as_bytes());
    child.wait_with_output().unwrap()
}

fn scripted(env: &TestEnv, script: &str) -> Output {
    run_as(env, AGENT, &["--script", script], "")
}

fn json_lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn scripted_agent_acts_as_codex_and_claude_by_name() {
    let env = TestEnv::new("/bin/true");
    let prompt = "Do the task.\nSCRIPT: start; do echo hi; usage 10 5 2; done \"All good\"\nMore.";
    let codex = run_as(&env, "codex", &["exec", "--json", "-m", "x", "-"], prompt);
    assert!(codex.status.success());
    let lines = json_lines(&codex);
    let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        [
            "thread.started",
            "turn.started",
            "item.started",
            "item.completed",
            "item.completed",
            "turn.completed"
        ]
    );
    assert_eq!(lines[3]["item"]["aggregated_output"], "hi\n");
    assert_eq!(lines[5]["usage"]["cached_input_tokens"], 2);

    let claude = run_as(&env, "claude", &["-p", "--session-id", "abc"], prompt);
    let lines = json_lines(&claude);
    assert_eq!(lines[0]["subtype"], "init");
    assert_eq!(lines[0]["session_id"], "abc");
    assert_eq!(lines.last().unwrap()["result"], "All good");
    assert_eq!(lines.last().unwrap()["is_error"], false);
    let version = run_as(&env, "codex", &["--version"], "");
    assert_eq!(String::from_utf8_lossy(&version.stdout), "codex-cli 0.169.0\n");
}

#[test]
fn scripted_agent_prefers_the_script_of_the_environment() {
    let env = TestEnv::new("/bin/true");
    let file = env.write("s.txt", "line from file\nexit 7\n");
    let mut command = env.command(AGENT);
    command
        .args(["--script", "line from arg"])
        .env("VIK_SCRIPT", &file);
    let output = run(command, "SCRIPT: line from prompt");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "from file\n");
    assert_eq!(
        String::from_utf8_lossy(&run_as(&env, AGENT, &["x"], "").stdout),
        "Done.\n"
    );
}

#[test]
fn scripted_agent_reports_a_wrong_script() {
    let env = TestEnv::new("/bin/true");
    let output = scripted(&env, "line a; no-such-step b");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown step no-such-step"));
}

#[test]
fn scripted_agent_prints_malformed_output() {
    let env = TestEnv::new("/bin/true");
    assert_eq!(scripted(&env, "bigline 3000000").stdout.len(), 3_000_001);
    assert_eq!(scripted(&env, "garbage 1000").stdout.len(), 1000);
    assert!(std::str::from_utf8(&scripted(&env, "nonutf8").stdout).is_err());
    assert_eq!(scripted(&env, "partial no-newline").stdout, b"no-newline");
    assert_eq!(scripted(&env, "stderrflood 10 50").stderr.len(), 500);
    let flood = scripted(&env, "as codex; start; flood-events 5000 20; done x");
    assert_eq!(json_lines(&flood).len(), 5004);
}

#[test]
fn scripted_agent_ends_as_scripted() {
    use std::os::unix::process::ExitStatusExt;
    let env = TestEnv::new("/bin/true");
    assert_eq!(scripted(&env, "exit 42").status.code(), Some(42));
    for (name, number) in [("TERM", 15), ("SEGV", 11), ("KILL", 9), ("INT", 2)] {
        assert_eq!(
            scripted(&env, &format!("signal {name}")).status.signal(),
            Some(number),
            "{name}"
        );
    }
    let fail = scripted(&env, "emit claude-fail 429 Too many");
    assert_eq!(fail.status.code(), Some(1));
    assert_eq!(json_lines(&fail).last().unwrap()["api_error_status"], 429);
}

#[test]
fn scripted_agent_counts_its_attempts() {
    let env = TestEnv::new("/bin/true");
    let script = format!(
        "count {}; on 1 exit 3; on 2+ \"line again; exit 0\"",
        env.path("n").display()
    );
    let codes: Vec<_> = (0..3)
        .map(|_| scripted(&env, &script).status.code().unwrap())
        .collect();
    assert_eq!(codes, [3, 0, 0]);
}

#[test]
fn scripted_agent_writes_files_and_commits() {
    let env = TestEnv::new("/bin/true");
    let output = scripted(
        &env,
        "run git init -q .; write a/b.txt \"x\\ny\\n\"; commit It's \"done\"; touch c; dump-fds fds",
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(env.read("work/a/b.txt"), "x\ny\n");
    let log = env.command("git").args(["log", "--format=%s"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&log.stdout), "It's \"done\"\n");
    // There may be more: inherited ones of the test itself.
    let fds = env.read("work/fds");
    assert!(
        ["0 pipe:", "1 pipe:", "2 pipe:"]
            .iter()
            .all(|fd| fds.contains(fd)),
        "{fds}"
    );
}

#[test]
fn test_env_finds_hidden_children() {
    let env = TestEnv::new("/bin/true");
    let script = "spawn setsid,pid=a 'hang'; spawn double,clearenv,pid=b 'ignore INT,TERM; hang'; \
        spawn double,clearenv,cwd=/,pid=PATH/c 'hang'; spawn hold-stdout,pid=d 'wait-file go'; line ready";
    let started = Instant::now();
    let mut command = env.command(AGENT);
    command.args([
        "--script",
        &script.replace("PATH", &env.work().display().to_string()),
    ]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert!(started.elapsed() < Duration::from_secs(20));
    let pids: Vec<i32> = ["a", "b", "c", "d"]
        .iter()
        .map(|f| env.read_pid(format!("work/{f}")).unwrap())
        .collect();
    let found: Vec<i32> = env.leftovers().iter().map(|left| left.pid).collect();
    for pid in &pids {
        assert!(alive(*pid) && found.contains(pid), "{pid} in {found:?}");
    }
    let session = |pid: i32| {
        nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(pid)))
            .unwrap()
            .as_raw()
    };
    assert_eq!(session(pids[0]), pids[0]);
    assert_ne!(
        session(pids[1]),
        pids[1],
        "the second child of a daemon leads no session"
    );
    assert!(
        std::fs::read(format!("/proc/{}/environ", pids[1]))
            .unwrap()
            .is_empty()
    );
    // The last child holds stdout until the file exists.
    let mut stdout = child.stdout.take().unwrap();
    env.write("work/go", "");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut text).unwrap();
    assert_eq!(text, "ready\n");
    assert!(env.kill_all());
    env.assert_nothing_left();
}

#[test]
fn test_env_fails_a_test_that_leaves_a_process() {
    let env = TestEnv::new("/bin/true");
    scripted(&env, "daemonise 60000 pid=p");
    let pid = env.read_pid("work/p").unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(env)));
    let message = *result.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains(&pid.to_string()), "{message}");
    assert!(wait_for(Duration::from_secs(5), || !alive(pid)));
}

#[test]
fn scripted_agent_traps_and_ignores_signals() {
    use nix::sys::signal::{Signal, kill};
    let env = TestEnv::new("/bin/true");
    let script = "ignore TERM; trap INT \"line cleaned up; exit 5\"; pidfile p; hang";
    let mut command = env.command(AGENT);
    command
        .args(["--script", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    eventually("the agent is ready", || env.read_pid("work/p").is_some());
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    kill(pid, Signal::SIGTERM).unwrap();
    kill(pid, Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn fake_tracker_keeps_concurrent_writes() {
    let env = TestEnv::new("/bin/true");
    let ids: Vec<String> = (0..8).map(|n| n.to_string()).collect();
    let issues: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), "todo")).collect();
    let tracker = env.tracker(&issues);
    let mut children: Vec<_> = ids
        .iter()
        .map(|id| {
            let mut command = env.command("vik-fake-tracker");
            command
                .arg(tracker.path())
                .args(["move", id, "done"])
                .spawn()
                .unwrap()
        })
        .collect();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    assert!(tracker.issues().iter().all(|issue| issue.state == "done"));
    let list = env
        .command("sh")
        .args(["-c", &tracker.pull_command()])
        .output()
        .unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&list.stdout)
            .unwrap()
            .as_array()
            .unwrap()
            .len(),
        8
    );
    assert_eq!(
        (tracker.pulls(), tracker.state("3").as_deref()),
        (1, Some("done"))
    );
    assert!(!tracker.move_to("99", "done"));
}
