//! Hubs and workers as processes, from the tracker to the agent and back.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vik_core::outcome::Outcome;
use vik_store::ledger::{Reader, StoredAttempt};
use vik_testkit::{FakeTracker, HttpClient, TestEnv, alive, eventually, wait_for_value};

use crate::server::{PATIENCE, Server};

mod outputs;

/// The token of the tracker, which only hubs have.
const TOKEN: &str = "only-hubs-have-this-token";

/// A tracker with one issue, a server, and the folders of the machines.
pub struct Scene {
    pub env: TestEnv,
    pub tracker: FakeTracker,
    pub server: Server,
    pub workflow: String,
}

impl Scene {
    /// Creates a workflow whose agent runs a script, and whose success moves the issue to `done`.
    pub fn new(script: &str) -> Option<Self> {
        Self::with(script, |_, _| {})
    }

    /// Creates such a workflow, with further keys of `issue`.
    pub fn with_issue_keys(script: &str, keys: &Value) -> Option<Self> {
        Self::with(script, |workflow, _| {
            let issue = workflow["issue"].as_object_mut().unwrap();
            issue.extend(keys.as_object().unwrap().clone());
        })
    }

    /// Creates such a workflow, with changes of its own.
    fn with(script: &str, change: impl FnOnce(&mut Value, &Path)) -> Option<Self> {
        let server = Server::start()?;
        let env = TestEnv::new(env!("CARGO_BIN_EXE_vik-test-machine"));
        let tracker = env.tracker(&[("1", "todo")]);
        let moves = format!(
            "{{% if session.outcome == 'succeeded' %}}{}{{% endif %}}",
            tracker.move_command("done")
        );
        let retry = json!({"max_attempts": 1, "initial_backoff": "50ms", "max_backoff": "50ms"});
        let sandbox = json!({"write": [env.root()], "read": [env.root()], "unix_sockets": true});
        let temporal = json!({
            "address": format!("127.0.0.1:{}", server.port()),
            "task_queue": "test",
            // The shortest one.
            "heartbeat": "3s",
        });
        let mut workflow = json!({
            "engine": {"temporal": temporal},
            "workspace": {"root": "home"},
            "agents": {"a": {"runtime": "command", "command": ["vik-scripted-agent"], "sandbox": sandbox}},
            "issues": {"pull": {"command": tracker.pull_command(), "idle_sec": "100ms"}},
            "issue": {"stages": {"work": {
                "when": {"state": "todo"},
                "agent": "a",
                "prompt": format!("SCRIPT: {script}"),
                "retry": retry,
                "hooks": {"after_run": moves},
            }}},
        });
        change(&mut workflow, &env.work());
        Some(Self {
            workflow: workflow.to_string(),
            env,
            tracker,
            server,
        })
    }

    pub fn hub(&self, name: &str) -> Machine {
        self.start(name, &["hub"])
    }

    pub fn worker(&self, name: &str) -> Machine {
        let machine = self.start(name, &["worker"]);
        machine.wait_for("ready");
        machine
    }

    /// Starts a machine with a folder of its own, which another one with this name may have used.
    fn start(&self, name: &str, role: &[&str]) -> Machine {
        let folder = self.env.work().join(name);
        let workflow = self.env.write(folder.join("workflow.yml"), &self.workflow);
        let log = folder.join("log");
        let mut command = self.env.vik(role);
        command.arg(workflow);
        // Scripts find the programs of the test before those beside the program of the machine.
        let own = Path::new(env!("CARGO_BIN_EXE_vik-test-machine"))
            .parent()
            .unwrap();
        let path = std::env::var("PATH").unwrap();
        let bin = self.env.root().join("bin");
        command.env("PATH", format!("{}:{path}:{}", bin.display(), own.display()));
        if role == ["worker"] {
            command.arg(name);
        } else {
            command.env("HUB_TOKEN", TOKEN);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Machine { child, folder, log }
    }

    pub fn wait_for_state(&self, state: &str) {
        eventually(&format!("the issue is in `{state}`"), || {
            self.tracker.state("1").as_deref() == Some(state)
        });
    }

    fn moves(&self) -> Vec<String> {
        let calls = self.tracker.calls().into_iter();
        calls.filter(|call| call.starts_with("move")).collect()
    }
}

/// A hub or a worker, which is killed when it is dropped.
pub struct Machine {
    child: Child,
    pub folder: PathBuf,
    log: PathBuf,
}

impl Machine {
    #[track_caller]
    pub fn wait_for(&self, line: &str) {
        let is_printed = wait_for_value(PATIENCE, || self.log().contains(line).then_some(()));
        assert!(is_printed.is_some(), "no `{line}` in:\n{}", self.log());
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Ends the machine with a signal, and waits for it.
    #[track_caller]
    fn end(self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.ended()
    }

    /// Waits until the machine has ended.
    #[track_caller]
    fn ended(mut self) -> ExitStatus {
        let status = wait_for_value(PATIENCE, || self.child.try_wait().unwrap());
        status.unwrap_or_else(|| panic!("it did not end:\n{}", self.log()))
    }

    #[track_caller]
    pub fn stop(self) {
        let log = self.log.clone();
        let status = self.end(Signal::SIGTERM);
        assert!(
            status.success(),
            "{status}:\n{}",
            std::fs::read_to_string(log).unwrap()
        );
    }

    #[track_caller]
    pub fn kill(self) {
        assert_eq!(self.end(Signal::SIGKILL).signal(), Some(9));
    }

    /// Returns the folder of the workflow in the home of this machine.
    pub fn home(&self) -> Option<PathBuf> {
        let name = self.folder.file_name().unwrap();
        let homes = ["home".into(), Path::new("home/workers").join(name)];
        let homes = homes.map(|home| list(&self.folder.join(home).join("workflows")));
        let homes = homes.into_iter().flatten();
        homes.into_iter().find(|path| path.is_dir())
    }

    /// Returns the number of sessions that have run on this machine.
    fn sessions(&self) -> usize {
        let sessions = self.home().map(|home| list(&home.join("sessions/1")));
        let records = sessions.into_iter().flatten();
        let is_record = |path: &PathBuf| path.to_string_lossy().ends_with(".attempt.json");
        records.filter(is_record).count()
    }

    /// Returns a client of the API of this hub, on its control socket.
    #[track_caller]
    pub fn api(&self) -> HttpClient {
        let state = self.folder.parent().unwrap().parent().unwrap().join("state");
        let workflow = self.folder.join("workflow.yml").canonicalize().unwrap();
        let socket = wait_for_value(PATIENCE, || {
            let records = list(&state.join("vik/instances"))
                .into_iter()
                .map(|folder| folder.join("instance.json"));
            let mut records = records.filter_map(|path| std::fs::read_to_string(path).ok());
            let record = records.find_map(|text| {
                let record: Value = serde_json::from_str(&text).ok()?;
                (record["workflow_path"] == json!(workflow)).then_some(record)
            });
            Some(PathBuf::from(record?["socket"].as_str()?))
        });
        HttpClient::unix(socket.unwrap_or_else(|| panic!("no instance:\n{}", self.log())))
    }

    /// Returns the path of a file in the workspace of the issue.
    pub fn workspace_file(&self, name: &str) -> PathBuf {
        self.home().unwrap_or_default().join("issues/1").join(name)
    }

    /// Returns the attempts in the ledger of this hub, the latest first.
    pub fn attempts(&self) -> Vec<StoredAttempt> {
        attempts(self.home().as_deref())
    }

    /// Waits until the ledger has this many attempts, all ended, and returns their outcomes from the
    /// first one on.
    #[track_caller]
    pub fn outcomes(&self, count: usize) -> Vec<Outcome> {
        let ended = wait_for_value(PATIENCE, || {
            let attempts = self.attempts();
            let ended: Vec<_> = attempts.iter().rev().flat_map(|attempt| &attempt.ended).collect();
            (ended.len() == count && attempts.len() == count)
                .then(|| ended.iter().map(|ended| ended.report.outcome).collect())
        });
        ended.unwrap_or_else(|| panic!("{:#?}\n{}", self.attempts(), self.log()))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn attempts(home: Option<&Path>) -> Vec<StoredAttempt> {
    let reader = home.and_then(|home| Reader::open(&home.join("service")).unwrap());
    reader.map_or_else(Vec::new, |reader| reader.attempts(None, 10).unwrap())
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn issue_runs_on_a_worker_to_its_end() {
    let Some(scene) = Scene::new("write result x; ok") else {
        return;
    };
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    scene.wait_for_state("done");
    assert_eq!(hub.outcomes(1), [Outcome::Succeeded]);
    assert_eq!((hub.sessions(), worker.sessions()), (0, 1));
    assert_eq!(
        std::fs::read_to_string(worker.workspace_file("result")).unwrap(),
        "x"
    );
    let attempt = &hub.attempts()[0];
    let report = &attempt.ended.as_ref().unwrap().report;
    assert!(report.ran, "{report:?}");
    assert_eq!(scene.moves(), ["move 1 done"]);
    hub.stop();
    worker.stop();
}

#[test]
fn attempt_continues_after_its_hub_was_killed() {
    attempt_continues_after(Machine::kill);
}

#[test]
fn attempt_continues_after_its_hub_has_stopped() {
    attempt_continues_after(Machine::stop);
}

fn attempt_continues_after(end: fn(Machine)) {
    let Some(scene) = Scene::new("touch up; wait-file go; ok") else {
        return;
    };
    let worker = scene.worker("w");
    let first = scene.hub("first");
    eventually("the agent runs", || worker.workspace_file("up").exists());
    let second = scene.hub("second");
    second.wait_for("following");
    assert!(!second.log().contains("leading"), "{}", second.log());
    end(first);
    second.wait_for("leading");
    std::fs::write(worker.workspace_file("go"), "").unwrap();
    scene.wait_for_state("done");
    assert_eq!(second.outcomes(1), [Outcome::Succeeded]);
    assert_eq!(worker.sessions(), 1);
    assert_eq!(scene.moves(), ["move 1 done"]);
    // What was decided while the first hub was dead reaches its ledger, too.
    let first = scene.hub("first");
    assert_eq!(first.outcomes(1), [Outcome::Succeeded]);
    assert_eq!(first.attempts(), second.attempts());
    first.stop();
    second.stop();
    worker.stop();
}

#[test]
fn frozen_hub_ends_when_it_wakes_and_decides_nothing() {
    let Some(scene) = Scene::new("touch up; wait-file go; ok") else {
        return;
    };
    let worker = scene.worker("w");
    let first = scene.hub("first");
    eventually("the agent runs", || worker.workspace_file("up").exists());
    let second = scene.hub("second");
    first.signal(Signal::SIGSTOP);
    second.wait_for("leading");
    std::fs::write(worker.workspace_file("go"), "").unwrap();
    assert_eq!(second.outcomes(1), [Outcome::Succeeded]);
    let (home, log) = (first.home(), first.log.clone());
    assert_eq!(first.end(Signal::SIGCONT).code(), Some(1));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("another hub leads now"), "{log}");
    let attempts = attempts(home.as_deref());
    assert!(attempts[0].ended.is_none(), "{attempts:?}");
    second.stop();
    worker.stop();
}

#[test]
fn machines_end_without_a_server() {
    let Some(mut scene) = Scene::new("pidfile pid; touch up; wait-file go; ok") else {
        return;
    };
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    eventually("the agent runs", || worker.workspace_file("up").exists());
    let pid = std::fs::read_to_string(worker.workspace_file("pid")).unwrap();
    scene.server.kill();
    assert_eq!(hub.ended().code(), Some(1), "it leads no longer");
    eventually("the lease of the agent is lost", || {
        !alive(pid.trim().parse().unwrap())
    });
    worker.stop();
}

#[test]
fn attempt_of_a_killed_worker_starts_on_another_one() {
    let Some(scene) = Scene::new("touch up; wait-file go; ok") else {
        return;
    };
    let first = scene.worker("first");
    let hub = scene.hub("hub");
    eventually("the agent runs", || first.workspace_file("up").exists());
    let second = scene.worker("second");
    first.kill();
    eventually("the agent runs again", || second.workspace_file("up").exists());
    std::fs::write(second.workspace_file("go"), "").unwrap();
    scene.wait_for_state("done");
    // A lost attempt uses up none of the stage, which may make only one.
    assert_eq!(hub.outcomes(2), [Outcome::Lost, Outcome::Succeeded]);
    assert_eq!(scene.moves(), ["move 1 done"]);
    hub.stop();
    second.stop();
}

#[test]
fn agent_of_a_frozen_worker_has_ended_when_another_one_starts() {
    let Some(scene) = Scene::new("pidfile pid; touch up; wait-file go; ok") else {
        return;
    };
    let first = scene.worker("first");
    let hub = scene.hub("hub");
    eventually("the agent runs", || first.workspace_file("up").exists());
    let pid = std::fs::read_to_string(first.workspace_file("pid")).unwrap();
    let pid = pid.trim().parse().unwrap();
    let second = scene.worker("second");
    assert!(alive(pid));
    first.signal(Signal::SIGSTOP);
    eventually("the agent runs again", || second.workspace_file("up").exists());
    assert!(!alive(pid));
    std::fs::write(second.workspace_file("go"), "").unwrap();
    assert_eq!(hub.outcomes(2), [Outcome::Lost, Outcome::Succeeded]);
    first.signal(Signal::SIGCONT);
    hub.stop();
    first.stop();
    second.stop();
}

#[test]
fn attempt_of_a_worker_that_stops_starts_on_another_one() {
    let Some(scene) = Scene::new("touch up; wait-file go; ok") else {
        return;
    };
    let first = scene.worker("first");
    let hub = scene.hub("hub");
    eventually("the agent runs", || first.workspace_file("up").exists());
    let second = scene.worker("second");
    first.stop();
    eventually("the agent runs again", || second.workspace_file("up").exists());
    std::fs::write(second.workspace_file("go"), "").unwrap();
    assert_eq!(hub.outcomes(2), [Outcome::Lost, Outcome::Succeeded]);
    let lost = &hub.attempts()[1];
    let reason = lost.ended.as_ref().unwrap().report.reason.as_deref();
    assert_eq!(reason, Some("the worker `first` was drained"));
    hub.stop();
    second.stop();
}
