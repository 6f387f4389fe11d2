//! A tracker, a server, and the folders of the machines.

use std::cell::RefCell;
use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vik_testkit::{FakeTracker, TestEnv, wait_for_value};

use crate::support::LONG;

/// The shortest heartbeat that a workflow can have.
pub const HEARTBEAT: &str = "3s";

const LOOPBACK: &str = "127.0.0.1";

/// The arguments of a hub.
pub const HUB: [&str; 4] = ["run", "--role", "hub", "-v"];

/// The arguments of a worker, before its name.
pub const WORKER: [&str; 4] = ["worker", "--capacity", "2", "--name"];

pub struct Cluster {
    pub env: TestEnv,
    pub tracker: FakeTracker,
    server: RefCell<Child>,
    program: String,
    /// The IP address of the server.
    host: &'static str,
    port: u16,
    /// The same for all machines.
    pub flow: Value,
}

impl Cluster {
    /// Starts a server for a workflow with one stage `work` for the state `todo`, whose success moves
    /// the issue to `done`, and which may make one attempt; or prints why not.
    pub fn start(issues: &[(&str, &str)], agent: Value, prompt: &str) -> Option<Self> {
        Self::with(issues, agent, prompt, |_, _| {})
    }

    /// Does the same with changes of the workflow.
    pub fn with(
        issues: &[(&str, &str)],
        agent: Value,
        prompt: &str,
        change: impl FnOnce(&mut Value, &TestEnv),
    ) -> Option<Self> {
        Self::at(LOOPBACK, issues, agent, prompt, change)
    }

    /// Does the same with a server at this IP address.
    #[expect(clippy::print_stdout, reason = "`cargo xtask test` lists what was skipped")]
    pub fn at(
        host: &'static str,
        issues: &[(&str, &str)],
        agent: Value,
        prompt: &str,
        change: impl FnOnce(&mut Value, &TestEnv),
    ) -> Option<Self> {
        let Ok(program) = std::env::var("VIK_TEMPORAL_BIN") else {
            println!("skipped: VIK_TEMPORAL_BIN does not name the program of a Temporal server");
            return None;
        };
        let env = TestEnv::new(env!("CARGO_BIN_EXE_vik"));
        let tracker = env.tracker(issues);
        let listener = TcpListener::bind((host, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let temporal = json!({
            "address": format!("{host}:{port}"), "task_queue": "test", "heartbeat": HEARTBEAT,
        });
        let moves = format!(
            "{{% if session.outcome == 'succeeded' %}}{}{{% endif %}}",
            tracker.move_command("done")
        );
        let mut agent = agent;
        agent["sandbox"] = json!({"write": [env.root()], "read": [env.root()], "unix_sockets": true});
        let mut flow = json!({
            "engine": {"temporal": temporal},
            "workspace": {"root": "home"},
            "agents": {"a": agent},
            "issues": {"pull": {"command": tracker.pull_command(), "idle_sec": "100ms"}},
            "issue": {"stages": {"work": {
                "when": {"state": "todo"},
                "agent": "a",
                "prompt": prompt,
                "retry": {"max_attempts": 1, "initial_backoff": "50ms", "max_backoff": "50ms"},
                "hooks": {"after_run": moves},
            }}},
        });
        change(&mut flow, &env);
        let server = RefCell::new(spawn_server(&program, (host, port), env.root()));
        let cluster = Self {
            env,
            tracker,
            server,
            program,
            host,
            port,
            flow,
        };
        cluster.wait_for_server();
        Some(cluster)
    }

    fn wait_for_server(&self) {
        let listens = || TcpStream::connect((self.host, self.port)).ok();
        assert!(
            wait_for_value(LONG, listens).is_some(),
            "the server does not listen"
        );
    }

    /// Returns the port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends the server a signal.
    pub fn signal_server(&self, signal: Signal) {
        kill(Pid::from_raw(self.server.borrow().id().cast_signed()), signal).unwrap();
    }

    /// Kills the server, without a warning.
    pub fn stop_server(&self) {
        let mut server = self.server.borrow_mut();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// Kills the server, and starts it again with its database.
    pub fn restart_server(&self) {
        self.stop_server();
        *self.server.borrow_mut() = spawn_server(&self.program, (self.host, self.port), self.env.root());
        self.wait_for_server();
    }

    /// Starts a hub in a folder of its own, which an earlier one may have used.
    pub fn hub(&self, name: &str) -> Machine {
        self.machine(name, self.env.vik(HUB))
    }

    /// Starts a hub that ends when no work is left.
    pub fn hub_once(&self, name: &str) -> Machine {
        self.machine(name, self.env.vik(["run", "--role", "hub", "--once"]))
    }

    /// Starts a worker, and waits until it has announced itself.
    pub fn worker(&self, name: &str) -> Machine {
        let machine = self.start_worker(name);
        machine.wait_for("ready");
        machine
    }

    /// Starts a worker, and does not wait for it.
    pub fn start_worker(&self, name: &str) -> Machine {
        self.start_worker_in(name, name)
    }

    /// Starts a worker with the files in this folder, and does not wait for it.
    pub fn start_worker_in(&self, folder: &str, name: &str) -> Machine {
        let mut command = self.env.vik(WORKER);
        command.arg(name);
        self.machine(folder, command)
    }

    /// Runs the queue once on a machine alone, in the folder of a later hub.
    pub fn run_alone(&self, name: &str) -> Output {
        let mut flow = self.flow.clone();
        flow.as_object_mut().unwrap().remove("engine");
        let workflow = self.env.work().join(name).join("workflow.yml");
        let workflow = self.env.write(workflow, flow.to_string());
        self.env.vik(["run", "--once"]).arg(&workflow).output().unwrap()
    }

    /// Writes the workflow in the folder of a machine.
    fn workflow(&self, name: &str) -> PathBuf {
        let path = self.env.work().join(name).join("workflow.yml");
        self.env.write(path, serde_json::to_string(&self.flow).unwrap())
    }

    /// Starts a hub in the background, and returns its workflow when it is ready.
    pub fn detached_hub(&self, name: &str) -> PathBuf {
        let workflow = self.workflow(name);
        let args = ["run", "-d", "--role", "hub"];
        let done = self.env.vik(args).arg(&workflow).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        workflow
    }

    /// Starts a machine by a command, which gets the workflow file as its last argument.
    pub fn machine(&self, name: &str, mut command: Command) -> Machine {
        let workflow = self.workflow(name);
        let log = workflow.with_file_name("log");
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let child = command
            .env("VIK_CRASH_DIR", self.env.path("crash"))
            .arg(&workflow)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap();
        Machine { child, workflow, log }
    }

    /// Runs a command for the workflow of a machine, and returns what it prints on stdout.
    #[track_caller]
    pub fn vik(&self, machine: &Machine, args: &[&str]) -> String {
        self.vik_at(&machine.workflow, args)
    }

    /// Runs a command for a workflow, and returns what it prints on stdout.
    #[track_caller]
    pub fn vik_at(&self, workflow: &Path, args: &[&str]) -> String {
        let command = self.env.vik(args).arg("--workflow").arg(workflow).output();
        let done = command.unwrap();
        assert!(
            done.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8(done.stdout).unwrap()
    }

    /// Runs a command that fails, and returns what it prints on stderr.
    #[track_caller]
    pub fn fails(&self, machine: &Machine, args: &[&str]) -> String {
        let done = self
            .env
            .vik(args)
            .arg("--workflow")
            .arg(&machine.workflow)
            .output()
            .unwrap();
        assert!(!done.status.success(), "{args:?}");
        String::from_utf8(done.stderr).unwrap()
    }

    /// Edits the workflow of a machine.
    pub fn edit(&self, machine: &Machine, from: &str, to: &str) {
        let text = std::fs::read_to_string(&machine.workflow).unwrap();
        self.env.write(&machine.workflow, text.replace(from, to));
    }

    /// Returns `vik status --json` of a hub; `None` if none leads.
    pub fn status(&self, hub: &Machine) -> Option<Value> {
        let done = self
            .env
            .vik(["status", "--json", "--workflow"])
            .arg(&hub.workflow)
            .output()
            .unwrap();
        serde_json::from_slice(&done.stdout)
            .ok()
            .filter(|_| done.status.success())
    }

    pub fn leads(&self, hub: &Machine) -> bool {
        let status = self.status(hub);
        status
            .is_some_and(|status| status["hub"]["leader"].is_string() && status["hub"]["follower"].is_null())
    }

    /// Returns the moves of issues in the tracker, sorted.
    pub fn moves(&self) -> Vec<String> {
        let calls = self.tracker.calls().into_iter();
        let mut moves: Vec<_> = calls.filter(|call| call.starts_with("move")).collect();
        moves.sort();
        moves
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let server = self.server.get_mut();
        let _ = server.kill();
        let _ = server.wait();
    }
}

fn spawn_server(program: &str, (host, port): (&str, u16), folder: &Path) -> Child {
    // A part of the server uses another address of the machine. Another host than this one is that
    // of a network of the test's own.
    let host = if host == LOOPBACK { host } else { "0.0.0.0" };
    Command::new(program)
        .args(["server", "start-dev", "--headless", "--ip", host])
        .args(["--log-level", "never", "--port", &port.to_string()])
        .arg("--db-filename")
        .arg(folder.join("temporal.db"))
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A hub or a worker, which is killed when it is dropped.
pub struct Machine {
    child: Child,
    pub workflow: PathBuf,
    log: PathBuf,
}

impl Machine {
    #[track_caller]
    pub fn wait_for(&self, line: &str) {
        let is_printed = wait_for_value(LONG, || self.log().contains(line).then_some(()));
        assert!(is_printed.is_some(), "no `{line}` in:\n{}", self.log());
    }

    /// Returns what it has logged, and those before it in its folder.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until the machine has ended.
    #[track_caller]
    pub fn ended(mut self) -> ExitStatus {
        let status = wait_for_value(LONG, || self.child.try_wait().unwrap());
        status.unwrap_or_else(|| panic!("it did not end:\n{}", self.log()))
    }

    /// Kills it at once, and waits for its end.
    pub fn kill(self) {
        self.signal(Signal::SIGKILL);
        self.ended();
    }

    /// Ends it, and waits for it.
    #[track_caller]
    pub fn stop(self) {
        let log = self.log.clone();
        self.signal(Signal::SIGTERM);
        let status = self.ended();
        assert!(
            status.success(),
            "{status}:\n{}",
            std::fs::read_to_string(log).unwrap()
        );
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
