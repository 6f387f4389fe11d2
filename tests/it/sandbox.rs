//! What agents can and cannot do in their sandbox.

use serde_json::json;

use crate::escape::answering;
use crate::support::*;

#[test]
fn network_list_refuses_and_reports_other_hosts() {
    let (open, shut) = (answering("open"), answering("shut"));
    let script = format!(
        "python=$(command -v curl) || exit 0; \
         curl -sS http://127.0.0.1:{open}/ > listed; curl -sS http://127.0.0.1:{shut}/ > refused; \
         curl -sS --noproxy '*' http://127.0.0.1:{open}/ > direct; \
         curl -sS --noproxy '*' -m 5 http://127.0.0.1:{shut}/ > around || true; \
         curl -sS -m 5 --noproxy '*' http://192.0.2.1/ > out || true; echo done"
    );
    let world = World::new(&[("1", "todo")]).set(
        "/agents/a",
        json!({
            "runtime": "command", "command": ["sh", "-c", script],
            "sandbox": {"network": [format!("127.0.0.1:{open}"), "api.example.invalid"]},
        }),
    );
    world.once().expect(0);
    let file = |name: &str| world.workspace_file("1", name);
    assert_eq!(
        (file("listed").as_str(), file("direct").as_str()),
        ("open", "open")
    );
    assert_contains(file("refused"), "not in `sandbox.network`");
    assert_eq!((file("around").as_str(), file("out").as_str()), ("", ""));
    let log = world.session("1").text(".jsonl");
    assert_contains(&log, format!("the sandbox refused 127.0.0.1:{shut}"));
}

#[test]
fn agent_over_its_limits_is_killed_and_reported() {
    for (sandbox, command, message) in [
        (
            json!({"memory": "64MiB"}),
            "head -c 2G /dev/zero | tail -c 2G > /dev/null",
            "the sandbox allows 64 MiB",
        ),
        (
            json!({"pids": 40}),
            "bomb() { bomb | bomb & }; bomb; sleep 600",
            "the sandbox allows 40",
        ),
        (
            json!({"pids": 40}),
            // Zombies, for which the parent never waits, count, too.
            "exec perl -e 'for (1 .. 60) { fork or exit } sleep 600'",
            "the sandbox allows 40",
        ),
        (
            json!({"memory": "64MiB"}),
            // A file in memory without a name; none of it is resident.
            "f=/dev/shm/vik-test-$$; exec 3> $f; rm $f; head -c 100M /dev/zero >&3; sleep 600",
            "the sandbox allows 64 MiB (`sandbox.memory`)",
        ),
        (
            json!({"disk": "64MiB"}),
            "head -c 4G /dev/zero > flood; sleep 600",
            "the sandbox allows 64 MiB (`sandbox.disk`)",
        ),
        (
            json!({"disk": "64MiB"}),
            "exec 3> flood; rm flood; head -c 4G /dev/zero >&3; sleep 600",
            "the sandbox allows 64 MiB (`sandbox.disk`)",
        ),
    ] {
        let world = World::new(&[("1", "todo")])
            .set(
                "/agents/a",
                json!({"runtime": "command", "command": ["bash", "-c", command], "sandbox": sandbox}),
            )
            .set("/issue/stages/work/retry", json!({"max_attempts": 1}));
        world.once().expect(1);
        let log = world.session("1").text(".jsonl");
        assert_contains(&log, message);
    }
}

#[test]
fn verify_is_sandboxed_and_hooks_as_configured() {
    let outside = |world: &World, name: &str| world.env.path(name).display().to_string();
    let mut world = World::new(&[("1", "todo")]).set(
        "/agents/a",
        json!({"runtime": "command", "command": ["sh", "-c", "cat > got"], "sandbox": {}}),
    );
    let (verified, before, after) = (
        outside(&world, "verified"),
        outside(&world, "before"),
        outside(&world, "after"),
    );
    world.put(
        "/issue/stages/work/verify",
        json!(format!("echo x > inside && ! echo x > {verified}")),
    );
    world.put(
        "/issue/stages/work/hooks",
        json!({"before_run": format!("echo x > {before}"), "after_run": format!("echo x > {after}; {}", world.on_success("done"))}),
    );
    world.once().expect(0);
    assert_eq!(world.env.read("verified"), "");
    assert_eq!(
        (world.env.read("before"), world.env.read("after")),
        ("x\n".into(), "x\n".into())
    );
    let mut world = World::new(&[("1", "todo")]).set(
        "/agents/a",
        json!({"runtime": "command", "command": ["sh", "-c", "cat > got"], "sandbox": {}}),
    );
    let before = outside(&world, "before");
    world.put(
        "/issue/stages/work/hooks",
        json!({"before_run": format!("echo x > inside && ! echo x > {before}"), "sandbox": true}),
    );
    world.put("/issue/stages/work/retry", json!({"max_attempts": 1}));
    world.once();
    assert_eq!(world.env.read("before"), "");
    assert_eq!(world.workspace_file("1", "inside"), "x\n");
}

#[test]
fn sandbox_provides_what_agents_need() {
    let script = "set -e; git init -q . ; git -c user.name=n -c user.email=e commit -q --allow-empty -m x; \
        echo x > \"$TMPDIR/t\"; mktemp > made; mkdir -p \"$XDG_CACHE_HOME/c\"; echo x > /dev/null; cat /etc/hosts > /dev/null; \
        ls /usr/bin > /dev/null; (sleep 100 & kill $!); test -r /proc/self/status; echo done";
    let world = World::new(&[("1", "todo")]).set(
        "/agents/a",
        json!({"runtime": "command", "command": ["sh", "-c", script], "sandbox": {}}),
    );
    world.once().expect(0);
}

#[test]
fn owned_scope_opens_only_its_own_folders() {
    let script = "echo x > src/in; mkdir -p docs; echo x > docs/out; echo x > out; ls -A > seen; true";
    let world = World::new(&[("1", "todo")])
        .set(
            "/agents/a",
            json!({"runtime": "command", "command": ["sh", "-c", script], "sandbox": {}}),
        )
        .set("/issue/stages/work/intent", json!({"owned_scope": ["src/**"]}));
    world.once().expect(0);
    assert_eq!(world.workspace_file("1", "src/in"), "x\n");
    for name in ["docs/out", "out", "seen"] {
        assert_eq!(world.workspace_file("1", name), "", "{name}");
    }
}

/// Writes a program into the folder of the workflow or into a workspace.
fn program(world: &World, path: &str, text: &str) {
    let path = world.env.write(path, format!("#!/bin/sh\n{text}\n"));
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn program_beside_the_workflow_runs_and_cannot_be_changed() {
    let world = World::new(&[("1", "todo")]);
    // The folder of the workflow can be one that agents do not see.
    let hidden = world.env.work().join("agents");
    let profile = json!({
        "runtime": "command", "command": ["./agents/agent.sh", "x"], "sandbox": {"hide": [hidden]},
    });
    let world = world.set("/agents/a", profile);
    program(
        &world,
        "work/agents/agent.sh",
        "pwd > where; echo $1 > argument; (echo changed >> $0) 2> refused; exit 0",
    );
    // A program that an agent left in the workspace has no effect.
    let world = world.set(
        "/issue/hooks",
        json!({"after_create": "mkdir agents; printf '#!/bin/sh\\ntouch planted\\n' > agents/agent.sh; chmod +x agents/agent.sh"}),
    );
    world.once().expect(0);
    let file = |name: &str| world.workspace_file("1", name);
    assert_eq!(file("argument"), "x\n");
    assert_eq!(
        std::path::Path::new(file("where").trim()),
        world.workspace("1").canonicalize().unwrap()
    );
    assert_contains(file("refused"), "ermission denied");
    assert!(!world.workspace("1").join("planted").exists());
    assert!(!world.env.read("work/agents/agent.sh").contains("changed\n"));
}

#[test]
fn program_in_the_workspace_runs_if_the_workflow_has_none() {
    let world = World::new(&[("1", "todo")])
        .set(
            "/agents/a",
            json!({"runtime": "command", "command": ["./agent.sh"]}),
        )
        .set(
            "/issue/hooks",
            json!({"after_create": "printf '#!/bin/sh\\ntouch ran\\n' > agent.sh; chmod +x agent.sh"}),
        );
    world.once().expect(0);
    assert!(world.workspace("1").join("ran").exists());
}
