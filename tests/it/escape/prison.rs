//! A machine with a hostile agent, and with what it must not reach.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use vik_testkit::bins;

use super::*;

/// A world with a hostile agent and everything that it could want to reach: another process, an
/// agent that works on another issue, keys, sockets, servers on the loopback interface, and the
/// daemon itself.
pub struct Prison {
    pub world: World,
    victim: Victim,
    /// A listening socket, and a terminal in use.
    _in_use: (UnixListener, nix::pty::OpenptyResult),
    /// The receiver of datagrams.
    datagrams: UnixDatagram,
    /// The ports of three servers: listed, listed by name, not listed.
    pub(super) ports: [u16; 3],
}

impl Prison {
    /// Returns a prison whose hostile agent is `vik-escape` itself.
    pub fn new(sandbox: &Value) -> Self {
        let agent = json!({"runtime": "command", "command": ["vik-escape"], "sandbox": sandbox});
        Self::of(agent)
    }

    /// Returns a prison whose sandbox lists two of the three servers as hosts.
    pub(super) fn with_listed_hosts() -> Self {
        let mut prison = Self::new(&json!({}));
        let [open, named, _] = prison.ports;
        let hosts = json!([format!("127.0.0.1:{open}"), format!("127.1:{named}")]);
        prison.world.put("/agents/a/sandbox/network", hosts);
        prison.plan();
        prison
    }

    /// Returns a prison whose agent has this profile.
    pub(super) fn of(mut agent: Value) -> Self {
        let issues = [("1", "todo"), ("2", "beside"), ("other", "elsewhere")];
        let is_within = agent["sandbox"]["backend"] == "bubblewrap";
        let world = match is_within {
            true => World::below(Path::new(ELSEWHERE), &issues),
            false => World::new(&issues),
        };
        let root = world.env.root().to_owned();
        if is_within {
            // The folder in which it was built may be another one in the sandbox.
            std::fs::copy(bins::escape(), world.env.path("bin/vik-escape")).unwrap();
        } else {
            world.env.link("vik-escape", &bins::escape());
        }
        world.env.write("outside/there", "kept");
        let docker = UnixListener::bind(root.join("home/docker.sock")).unwrap();
        let datagrams = UnixDatagram::bind(root.join("home/log.sock")).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        let victim = Victim::new();
        world.env.write("beside/victim", victim.0.id().to_string());
        let terminal = nix::pty::openpty(None, None).unwrap();
        let name = nix::unistd::ttyname(&terminal.slave).unwrap();
        world.env.write("beside/terminal", name.to_str().unwrap());
        // The folder of the workflow is a repository, as in practice.
        let mut git = world.env.command("git");
        assert!(git.args(["init", "-q"]).status().unwrap().success());
        for secret in SECRETS {
            world.env.write(secret, "a secret");
        }
        agent["env"]["ESCAPE_PLAN"] = json!(root.join("work/plan.json"));
        let is_alone = agent["sandbox"] == "off";
        if agent["sandbox"].is_null() {
            // The default sandbox.
            agent["sandbox"] = json!({});
        }
        let prison = Self {
            world: world
                .set("/agents/a", agent)
                .set("/issue/terminal_states", json!(["done"]))
                .work("prompt", json!("Do the task.")),
            victim,
            _in_use: (docker, terminal),
            datagrams,
            ports: ["open", "named", "shut"].map(answering),
        };
        prison.plan();
        if is_alone {
            prison
        } else {
            prison.with_a_neighbour()
        }
    }

    /// Writes the list of the targets.
    pub(super) fn plan(&self) {
        let at = |path: &str| self.world.env.path(path);
        let [open, named, shut] = self.ports;
        let services = json!({"tcp": shut, "udp": echoing()});
        let network = match &self.world.value("/agents/a/sandbox/network") {
            Value::Null => json!("on"),
            Value::Array(_) => json!({"hosts": {"open": open, "named": named, "services": services}}),
            _ => json!({"off": services}),
        };
        let guarded: Vec<PathBuf> = GUARDED.iter().map(|path| at(path)).collect();
        let plan = json!({
            "outside": at("outside"),
            "secrets": SECRETS.map(at),
            "guarded": guarded.into_iter().chain(at("").parent().map(Path::to_owned)).collect::<Vec<_>>(),
            "sockets": [at("home/docker.sock")],
            "datagrams": at("home/log.sock"),
            "vik": at("bin/vik"),
            "beside": at("beside"),
            "network": network,
        });
        self.world.env.write("work/plan.json", plan.to_string());
    }

    /// Adds the agent of another issue, which runs as long as the hostile one. `before_run` writes
    /// the files of the daemon to a list for the hostile agent, and `after_run` inspects what its
    /// attempt left behind.
    pub(super) fn with_a_neighbour(mut self) -> Self {
        let at = |path: &str| self.world.env.path(path).display().to_string();
        let (beside, home, state) = (at("beside"), at("work/home/workflows"), at("state"));
        let works = format!(
            "echo x > own; echo $$ > {beside}/neighbour; \
             for i in $(seq 1200); do [ -e {beside}/over ] && exit 0; sleep 0.05; done; exit 1"
        );
        let before = format!(
            "for i in $(seq 1200); do [ -s {beside}/neighbour ] && break; sleep 0.05; done; \
             find {home} {state} \\( -path '*/issues/1' -o -path '*/scratch/1' \\) -prune -o \
             \\( -type f -o -type p -o -type s \\) -print > {beside}/vik"
        );
        let after = format!(
            "pwd -P > {beside}/where; kill -0 $(cat left-behind) 2> {beside}/why && touch {beside}/alive; \
             touch {beside}/over; {}",
            self.world.on_success("done")
        );
        let moves = self.world.on_success("done");
        self.world = self
            .world
            .set("/loop", json!({"max_issue_concurrency": 2}))
            .set(
                "/agents/b",
                json!({"runtime": "command", "command": ["sh", "-c", works], "sandbox": {"write": [beside]}}),
            )
            .stage("beside", "beside", "Wait.")
            .set("/issue/stages/beside/agent", json!("b"))
            .set("/issue/stages/beside/hooks", json!({"after_run": moves}))
            .work("hooks", json!({"before_run": before, "after_run": after}))
            .attempts(1);
        self
    }

    /// Runs the agent, checks that nothing was harmed, and returns the lines that the agent
    /// printed.
    pub fn run(mut self) -> Vec<String> {
        self.world.once().expect(0);
        self.nothing_was_harmed();
        self.lines()
    }

    /// Returns the lines that `vik-escape` printed as the agent.
    pub(super) fn lines(&self) -> Vec<String> {
        let output = self.world.session("1").raw();
        String::from_utf8_lossy(&output)
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[track_caller]
    pub(super) fn nothing_was_harmed(&mut self) {
        self.nothing_came_out();
        self.victim.is_well();
        // Both attempts succeeded in their own workspaces, and none of their processes is left.
        for issue in ["1", "2"] {
            self.world.session(issue).expect("succeeded", None);
        }
        let workspace = self.world.workspace("1").canonicalize().unwrap();
        assert_eq!(
            self.world.env.read("beside/where").trim(),
            workspace.to_string_lossy()
        );
        // In a pid namespace the process has another pid than here.
        if self.world.value("/agents/a/sandbox/backend").is_null() {
            assert!(
                self.world.env.read("beside/why").contains("No such process"),
                "the one that was left"
            );
            assert!(
                !self.world.env.path("beside/alive").exists(),
                "a process outlived its attempt"
            );
        }
        self.world.env.assert_nothing_left();
        assert_eq!(self.world.workspace_file("2", "own"), "x\n");
        daemons_files_were_seen(self);
    }

    /// Checks that nothing outside of the sandbox changed.
    #[track_caller]
    pub(super) fn nothing_came_out(&self) {
        let outside: Vec<_> = list(&self.world.env.path("outside"));
        assert_eq!(outside, [self.world.env.path("outside/there")]);
        assert_eq!(self.world.env.read("outside/there"), "kept");
        let received = self.datagrams.recv(&mut [0; 16]);
        assert!(received.is_err(), "a datagram came out: {received:?}");
        for secret in SECRETS {
            assert_eq!(self.world.env.read(secret), "a secret", "{secret}");
        }
    }
}

/// A process of this user that no agent may touch.
struct Victim(Child);

impl Victim {
    fn new() -> Self {
        let null = Stdio::null;
        let mut sleep = Command::new("sleep");
        let sleep = sleep.arg("600").env("SECRET", "of the victim");
        Self(sleep.stdin(null()).stdout(null()).stderr(null()).spawn().unwrap())
    }

    #[track_caller]
    fn is_well(&mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "the victim was killed");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()));
        assert!(
            !stat.unwrap_or_default().contains(") T "),
            "the victim was stopped"
        );
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Keys, and the files of another workflow.
const SECRETS: [&str; 6] = [
    "home/.ssh/id_ed25519",
    "home/.aws/credentials",
    "work/home/workflows/another/service/vik.db",
    "work/home/workflows/another/sessions/2/s.raw.jsonl",
    "work/home/workflows/another/issues/2/code",
    "state/vik/instances/x/instance.json",
];

/// Paths that this user could write to.
const GUARDED: [&str; 9] = [
    "home",
    "home/.gitconfig",
    "work",
    "work/workflow.yml",
    "work/.git/config",
    "work/.git/hooks",
    "work/home/workflows/another/issues/2",
    "state",
    "tmp",
];

/// Starts a server on the loopback interface that answers every request with a word, and returns
/// its port. It runs as long as the test.
pub fn answering(body: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.read(&mut [0; 4096]);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let _ = std::io::Write::write_all(&mut client, answer.as_bytes());
        }
    });
    port
}

/// Starts a server that answers every datagram, as a name server does.
fn echoing() -> std::net::SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut datagram = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            let _ = socket.send_to(&datagram[..length], from);
        }
    });
    address
}
