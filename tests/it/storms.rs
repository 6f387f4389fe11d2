//! Agents that fork as fast as they can: their attempts end in time, with a proof, and leave
//! nothing.
//!
//! A cgroup bounds the number of processes; where none can be created, the tests print that they
//! are skipped.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::*;

/// The number of tasks that the cgroup of a test allows.
const ROOM: u32 = 1500;

/// A cgroup whose processes are killed at the end of the test.
struct Bounded(PathBuf);

impl Bounded {
    fn new(test: &str) -> Option<Self> {
        let name = format!("vik-test-{}-{test}", std::process::id());
        for root in ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"] {
            let group = Self(Path::new(root).join(&name));
            if std::fs::create_dir(&group.0).is_ok()
                && std::fs::write(group.0.join("pids.max"), ROOM.to_string()).is_ok()
            {
                return Some(group);
            }
        }
        // The test runner captures `eprintln!`.
        let text = format!("skipped: storms::{test}: no cgroup that bounds tasks can be made here\n");
        let _ = std::io::stderr().write_all(text.as_bytes());
        None
    }

    fn pids(&self) -> Vec<i32> {
        let list = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        list.lines().filter_map(|pid| pid.parse().ok()).collect()
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(60);
        let _ = std::fs::write(self.0.join("pids.max"), "0");
        while std::fs::remove_dir(&self.0).is_err() && Instant::now() < until {
            for pid in self.pids() {
                let pid = nix::unistd::Pid::from_raw(pid);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
        }
    }
}

/// Adopts the orphans of its tree, where it may, and never waits for them. Starts 40 chains of
/// processes in new sessions, in which each process starts the next one and exits, for a minute at
/// most.
const COMETS: &str = r#"use POSIX;
    $SIG{INT} = $SIG{TERM} = "IGNORE";
    my $prctl = (POSIX::uname())[4] eq "aarch64" ? 167 : 157;
    syscall($prctl, 36, 1, 0, 0, 0) if $ENV{REAPER};
    my $until = time + 60;
    open(my $up, ">", "up"); close($up);
    for (1 .. 40) {
        my $comet = fork;
        next if $comet || !defined $comet;
        while (time < $until) { POSIX::setsid(); my $next = fork; POSIX::_exit(0) if $next }
        POSIX::_exit(0);
    }
    sleep 1 while time < $until;"#;

fn run(test: &str, sandbox: &Value, reaper: bool) {
    let Some(group) = Bounded::new(test) else { return };
    let group_file = group.0.join("cgroup.procs");
    let script = format!("echo 0 > {} && exec perl comets", group_file.display());
    let mut world = World::new(&[("1", "todo")])
        .work("timeout", json!("4s"))
        .attempts(1);
    world.env.write("comets", COMETS);
    let path = world.env.path("comets").display().to_string();
    world.put(
        "/issue/stages/work/hooks/before_run",
        json!(format!("cp {path} comets")),
    );
    let mut sandbox = sandbox.clone();
    if let Some(sandbox) = sandbox.as_object_mut() {
        sandbox.insert("write".to_owned(), json!([group.0]));
    }
    let env = if reaper { json!({"REAPER": "1"}) } else { json!({}) };
    world.put(
        "/agents/a",
        json!({"runtime": "command", "command": ["sh", "-c", script], "sandbox": sandbox, "env": env}),
    );
    let before = Instant::now();
    world.once().expect(1);
    // The timeout of the attempt, the stop ladder, and the other steps of a run: the end alone may
    // take 30 s.
    assert!(
        before.elapsed() < Duration::from_secs(45),
        "{:?}",
        before.elapsed()
    );
    assert!(world.workspace("1").join("up").exists(), "the storm raged");
    let record: Value = serde_json::from_str(&world.session("1").text(".exit.json")).unwrap();
    assert_eq!(record["proof"], "subreaper", "{record}");
    assert_eq!(group.pids(), [0; 0]);
    world.env.assert_nothing_left();
}

#[test]
fn fork_storm_with_its_own_reaper_ends_without_a_sandbox() {
    run("reaper", &json!("off"), true);
}

#[test]
fn fork_storm_in_a_sandbox_ends() {
    run("sandbox", &json!({}), true);
    run("plain", &json!({}), false);
}
