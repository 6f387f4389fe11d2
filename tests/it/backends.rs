//! `sandbox.backend: bubblewrap`: the real daemon with agents in namespaces.
#![cfg(target_os = "linux")]

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use vik_proc::{Backend, Sandbox};
use vik_testkit::report_skipped;
use vik_testkit::server::ModelServer;

use crate::escape::answering;
use crate::support::*;

/// Returns a world outside of `/tmp`, which is private in the sandbox. Returns `None`, and prints
/// the reason, where bubblewrap does not work.
fn world(issues: &[(&str, &str)]) -> Option<World> {
    has_bubblewrap().then(|| World::below(Path::new(ELSEWHERE), issues))
}

/// A folder that is the same inside and outside of the sandbox.
pub const ELSEWHERE: &str = "/var/tmp";

/// Returns whether bubblewrap works here, and prints the reason where it does not.
pub fn has_bubblewrap() -> bool {
    let sandbox = Sandbox {
        backend: Backend::Bubblewrap,
        ..Sandbox::default()
    };
    if let Err(error) = sandbox.fence() {
        let required = std::env::var_os("VIK_REQUIRE_BUBBLEWRAP").is_some();
        assert!(!required, "{error}");
        report_skipped(&error.to_string());
        return false;
    }
    true
}

/// Returns the profile of an agent that runs a shell script under bubblewrap.
fn script(script: &str, sandbox: Value) -> Value {
    let mut sandbox = sandbox;
    sandbox["backend"] = json!("bubblewrap");
    json!({"runtime": "command", "command": ["sh", "-c", script], "sandbox": sandbox})
}

#[test]
fn hostile_agent_sees_and_changes_nothing_outside() {
    let Some(world) = world(&[("1", "todo"), ("2", "elsewhere")]) else {
        return;
    };
    let root = world.env.root().canonicalize().unwrap();
    let outside = world.env.write("outside/there", "kept");
    let before = std::fs::metadata(&outside).unwrap();
    for (path, text) in [
        ("home/.ssh/id_ed25519", "SECRET"),
        ("home/.netrc", "SECRET"),
        ("work/home/workflows/another/issues/2/code", "SECRET"),
        ("work/home/workflows/another/service/vik.db", "SECRET"),
        ("state/vik/instances/x/instance.json", "SECRET"),
    ] {
        world.env.write(path, text);
    }
    let _socket = UnixListener::bind(root.join("home/docker.sock")).unwrap();
    let mut victim = Command::new("sleep")
        .arg("600")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let hostile = format!(
        r#"cd {root}
        try() {{ if "$@" >/dev/null 2>&1; then echo "came through: $*"; fi; }}
        for f in outside/there outside home work state work/workflow.yml work/tracker.json; do
          try chmod 777 $f; try chown {uid}:{gid} $f; try touch -d 2001-01-01 $f; try mv $f $f.moved
        done
        for f in outside/new outside/there home/new work/new home/.ssh/authorized_keys state/new; do
          try sh -c "echo x > $f"; try ln outside/there $f; try ln -s / $f
        done
        try rm outside/there
        try truncate -s 0 outside/there
        try cp /bin/sh outside/sh
        grep -rs 'SE[C]RET' home state work && echo 'came through: reading'
        ls home/.ssh work/home/workflows/another state/vik 2>/dev/null
        for s in 0 TERM STOP KILL; do try kill -$s {victim}; done
        try test -e /proc/{victim}
        try cat /proc/{victim}/environ
        try ls /proc/{victim}/root
        try ls /tmp/vk-* /tmp/vik-*
        try curl -m 2 --unix-socket home/docker.sock http://x/
        try mount -t tmpfs none /mnt
        try mount -o remount,rw /
        try umount home/.ssh
        try umount -l /proc
        try unshare -Urm sh -c 'mount -o remount,rw,bind /; echo x > outside/ns'
        try unshare -Urm umount home/.ssh
        try nsenter -t 1 -a true
        try chroot /proc/1/root sh -c 'echo x > {root}/outside/chroot'
        try sh -c 'echo x > /proc/sys/kernel/core_pattern'
        try sh -c 'echo x > /proc/sysrq-trigger'
        try sh -c 'mknod sda b 8 0 && head -c1 sda'
        try head -c1 /dev/mem
        try ls /dev/kmsg
        try kill -KILL 1 && sleep 0.1
        ls home >/dev/null && echo listed
        cat home/.netrc && echo empty
        echo mine > /tmp/own && cat /tmp/own
        echo done"#,
        root = root.display(),
        uid = before.uid(),
        gid = before.gid(),
        victim = victim.id(),
    );
    let world = world.set("/agents/a", script(&hostile, json!({})));
    world.once().expect(0);
    let raw = world.session("1").raw();
    let output = String::from_utf8_lossy(&raw);
    let alive = victim.try_wait().unwrap().is_none();
    let _ = victim.kill();
    let _ = victim.wait();
    // The kernel does not deliver signals to the first process of a namespace from within it,
    // whatever `kill` reports.
    let came = output
        .lines()
        .filter(|line| line.starts_with("came through") && !line.ends_with("kill -KILL 1"));
    assert_eq!(came.collect::<Vec<_>>(), [""; 0], "{output}");
    assert!(output.ends_with("listed\nempty\nmine\ndone\n"), "{output}");
    assert!(alive, "the victim was killed");
    let after = std::fs::metadata(&outside).unwrap();
    assert_eq!(
        (after.mode(), after.mtime(), after.len()),
        (before.mode(), before.mtime(), before.len())
    );
    assert_eq!(list(&world.env.path("outside")), [outside]);
    assert!(!Path::new("/tmp/own").exists());
}

/// What namespaces add: without them the same calls succeed.
#[test]
fn landlock_alone_allows_chmod_but_no_listing_of_secrets() {
    let world = World::below(Path::new("/var/tmp"), &[("1", "todo")]);
    let outside = world.env.write("outside/there", "kept");
    world.env.write("home/.ssh/id_ed25519", "key");
    let tries = format!(
        "cd {}; chmod 777 outside/there && touch -d 2001-01-01 outside/there && echo came; ls home || echo shut",
        world.env.root().display()
    );
    let world = world.set(
        "/agents/a",
        json!({"runtime": "command", "command": ["sh", "-c", tries], "sandbox": {"backend": "landlock"}}),
    );
    world.once().expect(0);
    assert_eq!(world.session("1").raw(), b"came\nshut\n");
    let after = std::fs::metadata(&outside).unwrap();
    assert_eq!(
        (after.mode() & 0o777, after.mtime() < 1_000_000_000),
        (0o777, true)
    );
}

#[test]
fn sandbox_provides_what_agents_need_and_confines_verify() {
    let Some(world) = world(&[("1", "todo")]) else {
        return;
    };
    let needs = "set -e; git init -q . ; git -c user.name=n -c user.email=e commit -q --allow-empty -m x; \
        echo x > \"$TMPDIR/t\"; mktemp > made; mkdir -p \"$XDG_CACHE_HOME/c\"; echo x > /dev/null; cat /etc/hosts > /dev/null; \
        ls /usr/bin > /dev/null; (sleep 100 & kill $!); test -r /proc/self/status; mkdir sub; mv made sub/; \
        head -c 100 /dev/urandom | wc -c; test -w /dev/shm; echo done";
    let outside = world.env.path("verified");
    let mut world = world.set("/agents/a", script(needs, json!({"pids": 100, "memory": "1GiB"})));
    world.put(
        "/issue/stages/work/verify",
        json!(format!(
            "test \"$(cat /proc/1/comm)\" = bwrap && test -e sub/made && ! echo x > {}",
            outside.display()
        )),
    );
    world.once().expect(0);
    assert!(!outside.exists());
    assert!(String::from_utf8_lossy(&world.session("1").raw()).ends_with("100\ndone\n"));
}

#[test]
fn end_of_an_agent_is_reported_as_without_bubblewrap() {
    let Some(world) = world(&[("1", "todo")]) else {
        return;
    };
    for (way, message) in [
        ("kill -TERM $$", "\"exit_code\":null,\"signal\":15"),
        ("exit 143", "\"exit_code\":143"),
        ("exec ./not-there", "\"exit_code\":127"),
        (
            "head -c 2G /dev/zero | tail -c 2G > /dev/null",
            "the sandbox allows 64 MiB",
        ),
        (
            "bomb() { bomb | bomb & }; bomb; sleep 600",
            "the sandbox allows 40",
        ),
    ] {
        let world = World::below(Path::new("/var/tmp"), &[("1", "todo")])
            .set("/agents/a", script(way, json!({"memory": "64MiB", "pids": 40})))
            .attempts(1);
        world.once().expect(1);
        let log = world.session("1").text(".jsonl");
        assert!(log.contains(message), "{way}: {log}");
    }
    let world = world.set("/agents/a/sandbox", json!({"backend": "bubblewrap"}));
    let world = world
        .set("/agents/a/command", json!(["no-such-program"]))
        .attempts(1);
    world.once().expect(1);
    let log = world.session("1").text(".jsonl");
    assert_contains(&log, "could not be started");
    assert_contains(&log, "not found on PATH");
}

#[test]
fn stop_signal_reaches_the_agent() {
    let Some(world) = world(&[("1", "todo")]) else {
        return;
    };
    let waits = "trap 'echo bye > bye; exit 0' INT; echo > up; while :; do sleep 0.05; done";
    let world = world.set("/agents/a", script(waits, json!({})));
    let daemon = world.daemon();
    eventually("the agent is up", || !world.workspace_file("1", "up").is_empty());
    daemon.stop();
    assert_eq!(world.workspace_file("1", "bye"), "bye\n");
    world.env.assert_nothing_left();
}

#[test]
fn network_list_admits_only_listed_hosts() {
    let Some(world) = world(&[("1", "todo")]) else {
        return;
    };
    if Command::new("curl").arg("--version").output().is_err() {
        report_skipped("no curl");
        return;
    }
    let (open, shut) = (answering("open"), answering("shut"));
    let requests = format!(
        "curl -sS http://127.0.0.1:{open}/ > listed; curl -sS http://127.0.0.1:{shut}/ > refused; \
         curl -sS --noproxy '*' -m 5 http://127.0.0.1:{shut}/ > around; \
         curl -sS -m 5 --noproxy '*' http://192.0.2.1/ > out; echo done"
    );
    let hosts = json!({"network": [format!("127.0.0.1:{open}")]});
    let world = world.set("/agents/a", script(&requests, hosts));
    world.once().expect(0);
    let file = |name: &str| world.workspace_file("1", name);
    assert_eq!(file("listed"), "open");
    assert_contains(file("refused"), "not in `sandbox.network`");
    assert_eq!((file("around").as_str(), file("out").as_str()), ("", ""));
}

#[test]
fn missing_bubblewrap_prevents_the_start() {
    let world = World::new(&[("1", "todo")]).set("/agents/a", script("echo x > ran", json!({})));
    let bin = world.env.root().join("bin").display().to_string();
    let done = world.start_with(&["run", "--once"], &[("PATH", &bin)]).done();
    assert_ne!(done.code, 0);
    for message in [
        "bubblewrap (`bwrap`) is not installed",
        "apt-get install bubblewrap",
    ] {
        assert_contains(&done.err, message);
    }
    assert!(world.sessions("1").is_empty());
    let doctor = world.start_with(&["doctor"], &[("PATH", &bin)]).done();
    assert_contains(&doctor.out, "apt-get install bubblewrap");
}

#[test]
fn unusable_bubblewrap_is_refused_at_the_start() {
    let world = World::new(&[("1", "todo")]).set("/agents/a", script("echo x > ran", json!({})));
    let refusing = world.env.write(
        "fake/bwrap",
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n",
    );
    std::fs::set_permissions(&refusing, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.env.link("bwrap", &refusing);
    let done = world.once();
    assert_ne!(done.code, 0);
    for message in ["No permissions to create new namespace", "user namespaces"] {
        assert_contains(&done.err, message);
    }
    assert!(world.sessions("1").is_empty());
}

/// vex is the program of Vik itself, wherever that file is.
#[test]
fn vex_works_inside_bubblewrap() {
    let Some(world) = world(&[("1", "todo")]) else {
        return;
    };
    let server = ModelServer::start_json(json!([
        {"run": "echo made > made; true"},
        {"text": "Done."},
    ]));
    let server = server.unwrap();
    let agent = json!({
        "runtime": "vex", "model": "scripted", "provider": "house", "sandbox": {"backend": "bubblewrap"},
        "env": {"HOUSE_KEY": "sk-scripted"},
    });
    let mut world = world
        .set("/agents/a", agent)
        .work("prompt", json!("Do the task."));
    world.house("chat", &server.v1());
    world.once().expect(0);
    assert_eq!(server.failures(), [""; 0]);
    world.session("1").expect("succeeded", None);
    assert_eq!(world.workspace_file("1", "made"), "made\n");
}
