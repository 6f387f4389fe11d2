//! Special files that an agent leaves in place of files and folders that Vik reads, tested with
//! whole daemons.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};

use crate::support::*;

/// Returns the profile of an agent that runs a shell script, in the default sandbox or in another
/// one.
fn shell(script: &str, sandbox: &Value) -> Value {
    json!({"runtime": "command", "command": ["sh", "-c", script], "sandbox": sandbox})
}

#[track_caller]
fn within(limit: Duration, goal: &str, condition: impl FnMut() -> bool) {
    assert!(
        vik_testkit::wait_for(limit, condition),
        "waited in vain for: {goal}"
    );
}

/// Returns the peak memory of a process, in MiB.
fn peak(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        / 1024
}

/// Scripts that each leave one obstacle for `verify` and for the next attempt.
const TRAPS: &[&str] = &[
    "echo gitdir: trap > .git; mkdir trap; mkfifo trap/gitdir trap/commondir trap/HEAD",
    "echo gitdir: trap > .git; mkdir trap; ln -s /dev/zero trap/gitdir; truncate -s 1T trap/commondir",
    "truncate -s 1T .git",
    "mkfifo .git",
    "git init -q .; rm .git/HEAD .git/config; mkfifo .git/HEAD .git/index .git/config .git/packed-refs .git/info/x",
    "git init -q .; ln -sf /dev/zero .git/index; ln -sfn /dev .git/refs; truncate -s 1T .git/info/exclude .git/config",
    "mkfifo .gitignore AGENTS.md CLAUDE.md; ln -s loop loop; ln -s / root",
    "rm -rf $TMPDIR $XDG_CACHE_HOME; mkfifo $TMPDIR; ln -s /dev/zero $XDG_CACHE_HOME",
];

#[test]
fn agent_leftovers_block_neither_verify_nor_the_next_attempt() {
    let issues: Vec<String> = (0..TRAPS.len()).map(|trap| trap.to_string()).collect();
    let states: Vec<_> = issues.iter().map(|issue| (issue.as_str(), "todo")).collect();
    let traps: String = TRAPS
        .iter()
        .enumerate()
        .map(|(nth, trap)| format!("{nth}) {trap};; "))
        .collect();
    let script =
        format!("test -e was-here || {{ touch was-here; case $(basename \"$PWD\") in {traps} esac; }}");
    let world = World::new(&states)
        .set("/agents/a", shell(&script, &json!({})))
        // The first attempt fails here, after the sandbox of this script was prepared.
        .work("verify", json!("test -e second || { touch second; exit 1; }"))
        .attempts(2);
    let daemon = world.daemon();
    within(Duration::from_secs(120), "all are done", || {
        issues
            .iter()
            .all(|issue| world.tracker.state(issue).as_deref() == Some("done"))
    });
    let used = peak(daemon.pid());
    assert!(used < 300, "{used} MiB");
    let started = Instant::now();
    daemon.stop().expect(0);
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn link_in_place_of_the_temporary_folder_is_not_followed() {
    for sandbox in [json!({}), json!({"backend": "bubblewrap"})] {
        if sandbox["backend"] == "bubblewrap" && !crate::backends::has_bubblewrap() {
            continue;
        }
        let world = World::below(Path::new(crate::backends::ELSEWHERE), &[("1", "todo")]);
        let victim = world.env.path("victim");
        std::fs::create_dir(&victim).unwrap();
        std::fs::set_permissions(&victim, Permissions::from_mode(0o755)).unwrap();
        let script = format!(
            "if test -e was-here; then test -d $TMPDIR && test ! -L $TMPDIR && echo x > $TMPDIR/x; \
             else touch was-here; rm -rf $TMPDIR $XDG_CACHE_HOME; ln -s {0} $TMPDIR; ln -s {0} $XDG_CACHE_HOME; exit 1; fi",
            victim.display()
        );
        let world = world.set("/agents/a", shell(&script, &sandbox)).attempts(2);
        world.once().expect(0);
        let mode = victim.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode, list(&victim).len()), (0o755, 0));
    }
}

#[test]
fn unwritable_folder_stops_the_daemon_and_costs_no_attempt() {
    for folder in ["sessions", "issues"] {
        let world = World::new(&[("1", "later")]).attempts(1);
        let mut daemon = world.daemon();
        let (place, aside) = (world.home().join(folder), world.home().join("aside"));
        std::fs::rename(&place, &aside).unwrap();
        File::create(&place).unwrap();
        world.tracker.set("1", "state", json!("todo"));
        within(Duration::from_secs(60), "the daemon has stopped", || {
            daemon.is_over()
        });
        let done = daemon.done().expect(1);
        assert!(done.err.contains(folder), "{done:?}");
        std::fs::remove_file(&place).unwrap();
        std::fs::rename(&aside, &place).unwrap();
        world.once().expect(0);
        assert_eq!(world.tracker.state("1").as_deref(), Some("done"), "{folder}");
    }
}

#[test]
fn lock_or_lease_on_issue_files_blocks_no_writer() {
    let world = World::new(&[]);
    let issues = world.env.path("their-issues");
    std::fs::create_dir(&issues).unwrap();
    let open = |path: &Path| File::open(path).unwrap();
    let _held = Flock::lock(open(&issues), FlockArg::LockExclusiveNonblock).unwrap();
    let new = |title: &str| {
        let mut command = world.env.vik(&["issue", "new", title]);
        command.env("VIK_ISSUES_DIR", &issues);
        world.start_command(command).done()
    };
    let started = Instant::now();
    new("one").expect(0);
    assert!(started.elapsed() < Duration::from_secs(10));
    // A lease on a file delays a process that opens it for writing. An issue file is replaced,
    // which is not delayed.
    let file = list(&issues).remove(0);
    let mut reader = world.env.command("perl");
    let lease = "open(my $f, '<', $ARGV[0]) or die; fcntl($f, 1024, 0) or die \"$!\"; print qq(held\\n); close(STDOUT); sleep 600";
    reader
        .args(["-e", lease])
        .arg(&file)
        .stdout(std::process::Stdio::piped());
    let mut reader = reader.spawn().unwrap();
    let mut output = String::new();
    std::io::Read::read_to_string(reader.stdout.as_mut().unwrap(), &mut output).unwrap();
    assert_eq!(output, "held\n");
    let mut command = world.env.vik(&["issue", "move", "1", "done"]);
    command.env("VIK_ISSUES_DIR", &issues);
    let moved = world.start_command(command).done();
    reader.kill().unwrap();
    reader.wait().unwrap();
    moved.expect(0);
    assert!(started.elapsed() < Duration::from_secs(20));
}
