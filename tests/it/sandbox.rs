//! What agents can do in their sandbox, and what they cannot.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use vik_testkit::bins;

use crate::support::*;

/// A world with a hostile agent and everything that it could want to reach.
struct Prison {
    world: World,
    victim: std::process::Child,
    _listeners: (TcpListener, UdpSocket, UnixListener),
}

impl Prison {
    fn new(sandbox: &Value) -> Self {
        let world = World::new(&[("1", "todo"), ("other", "elsewhere")]);
        let root = world.env.root().to_owned();
        world.env.write("outside/there", "kept");
        let home = "work/home/workflows/another";
        let secrets = [
            world.env.write("home/.ssh/id_ed25519", "key"),
            world.env.write("home/.aws/credentials", "key"),
            world.env.write(format!("{home}/service/vik.db"), "ledger"),
            world.env.write(format!("{home}/sessions/2/s.raw.jsonl"), "log"),
            world.env.write(format!("{home}/issues/2/code"), "code"),
            world.env.write("state/vik/instances/x/instance.json", "{}"),
        ];
        let socket = root.join("home/docker.sock");
        let listeners = (
            TcpListener::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            UnixListener::bind(&socket).unwrap(),
        );
        let victim = Command::new("sleep")
            .arg("600")
            .env("SECRET", "of the victim")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let guarded = [
            root.join("home"),
            root.join("home/.gitconfig"),
            root.join("work"),
            root.join("work/workflow.yml"),
            root.join("work/home/workflows/another/issues/2"),
            root.join("state"),
            root.join("tmp"),
            std::env::temp_dir(),
        ];
        let plan = json!({
            "outside": root.join("outside"),
            "secrets": secrets,
            "guarded": guarded,
            "sockets": [socket],
            "victim": victim.id(),
            "tcp": listeners.0.local_addr().unwrap().port(),
            "udp": listeners.1.local_addr().unwrap().port(),
            "offline": sandbox["network"] == "off",
        });
        let plan = world.env.write("work/plan.json", plan.to_string());
        let agent = json!({
            "runtime": "command", "command": [bins::escape()], "env": {"ESCAPE_PLAN": plan}, "sandbox": sandbox,
        });
        Self {
            world: world.set("/agents/a", agent),
            victim,
            _listeners: listeners,
        }
    }

    /// What the agent tells, line for line, and that nothing was harmed.
    fn run(mut self) -> Vec<String> {
        self.world.once().expect(0);
        let said = raw(&self.world);
        let there = self.world.env.read("outside/there");
        let outside: Vec<_> = std::fs::read_dir(self.world.env.path("outside"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!((outside, there.as_str()), (vec!["there".into()], "kept"));
        assert_eq!(self.victim.try_wait().unwrap(), None, "the victim was killed");
        said.lines().map(str::to_owned).collect()
    }
}

impl Drop for Prison {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

fn raw(world: &World) -> String {
    String::from_utf8_lossy(&world.session("1").raw()).into_owned()
}

/// The names of what came through.
fn escaped(said: &[String]) -> Vec<&str> {
    said.iter()
        .filter_map(|line| line.strip_prefix("escaped "))
        .collect()
}

#[test]
fn a_hostile_agent_gets_nowhere() {
    let said = Prison::new(&json!({})).run();
    assert_eq!(escaped(&said), [""; 0], "{said:#?}");
    assert!(said.len() > 60, "{said:#?}");
}

#[test]
fn without_a_network_it_gets_nowhere_either() {
    let said = Prison::new(&json!({"network": "off"})).run();
    assert_eq!(escaped(&said), [""; 0], "{said:#?}");
    assert!(
        said.iter().any(|line| line.starts_with("stopped UDP: ")),
        "{said:#?}"
    );
}

/// The suite must be able to fail.
#[test]
fn without_a_sandbox_it_gets_out() {
    let prison = Prison::new(&json!("off"));
    // It kills its shim and puts a link in place of its workspace: nothing of it is taken for success.
    prison.world.once().expect(1);
    let first = prison.world.sessions("1").remove(0);
    let said: Vec<String> = String::from_utf8_lossy(&first.raw())
        .lines()
        .map(str::to_owned)
        .collect();
    let out = escaped(&said);
    for way in [
        "create",
        "overwrite",
        "truncate by path",
        "read 0",
        "write 4",
        "write through a link",
    ] {
        assert!(out.contains(&way), "{way}: {said:#?}");
    }
}

#[test]
fn only_listed_hosts_are_reached_and_the_others_are_told() {
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
    assert!(
        file("refused").contains("not in `sandbox.network`"),
        "{}",
        file("refused")
    );
    assert_eq!((file("around").as_str(), file("out").as_str()), ("", ""));
    let log = world.session("1").text(".jsonl");
    assert!(
        log.contains(&format!("the sandbox refused 127.0.0.1:{shut}")),
        "{log}"
    );
}

/// A server that answers every request with a word, for as long as the test lives.
fn answering(word: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.read(&mut [0; 4096]);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{word}", word.len());
            let _ = std::io::Write::write_all(&mut client, answer.as_bytes());
        }
    });
    port
}

#[test]
fn what_uses_too_much_is_killed_and_told() {
    for (sandbox, command, words) in [
        (
            json!({"memory": "64MiB"}),
            "head -c 2G /dev/zero | tail -c 2G > /dev/null",
            "its sandbox allows 64 MiB",
        ),
        (
            json!({"pids": 40}),
            "bomb() { bomb | bomb & }; bomb; sleep 600",
            "its sandbox allows 40",
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
        assert!(log.contains(words), "{log}");
    }
}

#[test]
fn verify_runs_in_the_sandbox_and_hooks_where_they_are_told_to() {
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
fn what_an_agent_needs_is_there() {
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
fn a_scope_opens_its_own_folders_only() {
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
