//! A world with a workflow and a tracker.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vik_testkit::{FakeTracker, TestEnv, alive, eventually, wait_for_value};

use super::{Done, LONG, Running, Session, list, text};

/// The environment of one test, with a tracker and a workflow.
pub struct World {
    pub env: TestEnv,
    pub tracker: FakeTracker,
    flow: Value,
    started: Cell<usize>,
    /// The folder for the output of `vik`, outside of a disk that a test fills.
    output: tempfile::TempDir,
    /// The worker of this world, once a hub was started.
    worker: RefCell<Option<Running>>,
}

/// The variable with the address of a Temporal server: with it, each world has a hub and a worker on
/// this server instead of a daemon.
const TEMPORAL: &str = "VIK_TEST_TEMPORAL";

/// The name of the worker of each world.
const WORKER: &str = "w";

/// Returns the address of the Temporal server on which the tests run, if they do.
pub fn temporal() -> Option<String> {
    std::env::var(TEMPORAL).ok()
}

/// Returns the program under test: that of this build, or a packaged one (`cargo xtask dist-check
/// sandbox`).
fn program() -> PathBuf {
    let packaged = std::env::var_os("VIK_UNDER_TEST");
    packaged.map_or_else(|| env!("CARGO_BIN_EXE_vik").into(), PathBuf::from)
}

impl World {
    /// Creates a tracker with these issues, and a workflow with one stage `work` for the state
    /// `todo`: its agent is scripted, and a success moves the issue to `done`.
    pub fn new(issues: &[(&str, &str)]) -> Self {
        Self::below(&std::env::temp_dir(), issues)
    }

    /// Does the same in another folder than the one for temporary files.
    pub fn below(parent: &Path, issues: &[(&str, &str)]) -> Self {
        let env = TestEnv::below(parent, program());
        let tracker = env.tracker(issues);
        let mut flow = json!({
            "workspace": {"root": "home"},
            "agents": {"a": {"runtime": "command", "command": ["vik-scripted-agent"]}},
            "issues": {"pull": {"command": tracker.pull_command(), "idle_sec": "100ms"}},
            "issue": {"stages": {}},
        });
        if let Some(address) = temporal() {
            let temporal = json!({"address": address, "task_queue": env.mark(), "heartbeat": "6s"});
            flow["engine"] = json!({"temporal": temporal});
        }
        let world = Self {
            env,
            tracker,
            flow,
            started: Cell::new(0),
            output: tempfile::tempdir().unwrap(),
            worker: RefCell::default(),
        };
        let moves = world.on_success("done");
        let mut world = world
            .stage("work", "todo", "SCRIPT: ok")
            .set("/issue/stages/work/hooks", json!({"after_run": moves}));
        world.write();
        world
    }

    /// Returns the hook that moves an issue after a success.
    pub fn on_success(&self, state: &str) -> String {
        format!(
            "{{% if session.outcome == 'succeeded' %}}{}{{% endif %}}",
            self.tracker.move_command(state)
        )
    }

    /// Sets a value in the workflow by its JSON pointer, and creates missing objects on the way.
    #[must_use]
    pub fn set(mut self, pointer: &str, value: Value) -> Self {
        self.put(pointer, value);
        self
    }

    pub fn put(&mut self, pointer: &str, value: Value) {
        let mut at = &mut self.flow;
        for key in pointer.trim_start_matches('/').split('/') {
            at = &mut at[key];
        }
        *at = value;
        self.write();
    }

    /// Returns a value of the workflow.
    pub fn value(&self, pointer: &str) -> Value {
        self.flow.pointer(pointer).cloned().unwrap_or_default()
    }

    /// Adds a stage that makes two attempts, with a short back-off.
    #[must_use]
    pub fn stage(self, name: &str, state: &str, prompt: &str) -> Self {
        let retry = json!({"max_attempts": 2, "initial_backoff": "50ms", "max_backoff": "50ms"});
        let stage = json!({"when": {"state": state}, "agent": "a", "prompt": prompt, "retry": retry});
        self.set(&format!("/issue/stages/{name}"), stage)
    }

    /// Sets the script of the agent of the stage `work`.
    #[must_use]
    pub fn script(self, script: &str) -> Self {
        let prompt: String = script
            .lines()
            .map(|line| format!("SCRIPT: {}\n", line.trim()))
            .collect();
        self.set("/issue/stages/work/prompt", json!(prompt))
    }

    /// Sets a value of the stage `work`.
    #[must_use]
    pub fn work(self, key: &str, value: Value) -> Self {
        self.set(&format!("/issue/stages/work/{key}"), value)
    }

    /// Makes the agent a scripted Codex or Claude Code.
    #[must_use]
    pub fn agent(self, runtime: &str) -> Self {
        self.set("/agents/a", json!({"runtime": runtime, "model": "scripted"}))
    }

    /// Sets how many attempts the stage `work` may make.
    #[must_use]
    pub fn attempts(self, max: u32) -> Self {
        self.set("/issue/stages/work/retry/max_attempts", json!(max))
    }

    /// Gives the agent `a`, which is vex, these settings.
    pub fn vex_settings(&mut self, settings: &str) {
        let file = self.env.write("home/vex/config.toml", settings);
        self.put("/agents/a/env/VEX_HOME", json!(file.parent()));
    }

    /// Gives the agent `a`, which is vex, a provider `house` with this protocol and address; its key
    /// is in `HOUSE_KEY`.
    pub fn house(&mut self, protocol: &str, base_url: &str) {
        self.vex_settings(&format!(
            "[providers.house]\nprotocol = \"{protocol}\"\nbase_url = \"{base_url}\"\napi_key_env = \"HOUSE_KEY\"\n"
        ));
    }

    fn write(&mut self) {
        let mut flow = self.flow.clone();
        // Scripted agents access files that tests put elsewhere in their world; the sandbox has
        // tests of its own.
        let roomy = json!({"write": [self.env.root()], "read": [self.env.root()], "unix_sockets": true});
        let agents = flow["agents"].as_object_mut().into_iter().flatten();
        for (_, agent) in agents {
            if let Some(agent) = agent.as_object_mut() {
                agent.entry("sandbox").or_insert_with(|| roomy.clone());
            }
        }
        self.env.workflow(&serde_json::to_string_pretty(&flow).unwrap());
    }

    // --- running

    /// Starts a command of `vik` in the background.
    pub fn start(&self, args: &[&str]) -> Running {
        self.start_command(self.env.vik(args))
    }

    /// Starts a command of `vik` in the background, with these additional variables.
    pub fn start_with(&self, args: &[&str], env: &[(&str, &str)]) -> Running {
        let mut command = self.env.vik(args);
        command.envs(env.iter().copied());
        self.start_command(command)
    }

    pub fn start_command(&self, mut command: Command) -> Running {
        let args: Vec<_> = command.get_args().collect();
        let is_hub = args.first().is_some_and(|verb| *verb == "run") && !args.contains(&"--dry-run".as_ref());
        if is_hub && temporal().is_some() {
            command.arg("--role=hub");
            self.worker
                .borrow_mut()
                .get_or_insert_with(|| self.start_worker(&command));
        }
        self.spawn(command)
    }

    /// Starts the worker, with the variables of this command.
    fn start_worker(&self, command: &Command) -> Running {
        let mut worker = self.env.vik(["worker", "--name", WORKER, "--capacity", "100"]);
        let variables = command.get_envs();
        worker.envs(variables.filter_map(|(name, value)| Some((name, value?))));
        let worker = self.spawn(worker);
        self.env.set_worker(worker.pid());
        worker
    }

    fn spawn(&self, mut command: Command) -> Running {
        let number = self.started.replace(self.started.get() + 1);
        let folder = self.output.path();
        let (out, err) = (
            folder.join(format!("{number}.out")),
            folder.join(format!("{number}.err")),
        );
        command
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap());
        Running {
            child: command.spawn().unwrap(),
            out,
            err,
        }
    }

    /// Runs a command of `vik` and waits for it.
    #[track_caller]
    pub fn vik(&self, args: &[&str]) -> Done {
        self.start(args).done()
    }

    /// Runs `vik run --once` and waits for it.
    #[track_caller]
    pub fn once(&self) -> Done {
        self.vik(&["run", "--once"])
    }

    /// Starts a daemon in the foreground, and waits for its first pull.
    #[track_caller]
    pub fn daemon(&self) -> Running {
        let daemon = self.start(&["run"]);
        self.wait_for_status("the daemon has pulled", |status| !status["last_pull"].is_null());
        daemon
    }

    /// Waits until the status of the daemon has a property.
    #[track_caller]
    pub fn wait_for_status(&self, property: &str, holds: impl Fn(&Value) -> bool) {
        eventually(property, || self.status().is_some_and(|status| holds(&status)));
    }

    /// Kills the daemon, which may run detached, and waits until it is dead.
    #[track_caller]
    pub fn kill_daemon(&self) {
        let pid = i32::try_from(self.status().unwrap()["pid"].as_i64().unwrap()).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        eventually("the daemon is dead", || !alive(pid));
    }

    /// Kills a daemon, or a hub and its worker, as the end of the machine does.
    #[track_caller]
    pub fn kill_machine(&self, daemon: Running) {
        daemon.kill();
        if let Some(worker) = self.worker.take() {
            worker.kill();
        }
    }

    /// Runs a command without a daemon. It needs a hub if the workflow has an engine.
    #[track_caller]
    pub fn offline(&self, args: &[&str]) -> Done {
        let hub = temporal().map(|_| self.daemon());
        let done = self.vik(args);
        if let Some(hub) = hub {
            hub.stop().expect(0);
        }
        done
    }

    /// Waits until the agent of this attempt at issue 1 has created the file `up`.
    #[track_caller]
    pub fn wait_for_agent(&self, attempt: usize) {
        eventually("the agent is up", || {
            self.sessions("1").len() == attempt && self.workspace("1").join("up").exists()
        });
    }

    /// Creates the file `go` for the agent of issue 1.
    pub fn go(&self) {
        std::fs::write(self.workspace("1").join("go"), "").unwrap();
    }

    /// Waits until an issue is in this state in the tracker.
    #[track_caller]
    pub fn wait_for_state(&self, issue: &str, state: &str) {
        eventually(&format!("issue {issue} is in `{state}`"), || {
            self.tracker.state(issue).as_deref() == Some(state)
        });
    }

    /// Returns `vik explain --json` of an issue.
    #[track_caller]
    pub fn explained(&self, issue: &str) -> Value {
        self.vik(&["explain", issue, "--json"]).expect(0).json()
    }

    /// Returns `vik status --json`, or `None` where no daemon runs.
    pub fn status(&self) -> Option<Value> {
        let done = self.vik(&["status", "--json"]);
        (done.code == 0).then(|| done.json())
    }

    /// Returns `vik runs --json`.
    #[track_caller]
    pub fn runs(&self) -> Vec<Value> {
        self.vik(&["runs", "--json"])
            .expect(0)
            .json()
            .as_array()
            .unwrap()
            .clone()
    }

    // --- results

    /// Returns the folder `<home>/workflows/<key>`.
    pub fn home(&self) -> PathBuf {
        let mut folders = self.homes();
        assert_eq!(folders.len(), 1, "one workflow has one folder: {folders:?}");
        folders.remove(0)
    }

    /// Returns the folder with the workspaces and sessions.
    fn sessions_home(&self) -> Option<PathBuf> {
        if temporal().is_none() {
            return self.homes().into_iter().next();
        }
        let workers = self.env.work().join("home/workers").join(WORKER);
        list(&workers.join("workflows")).into_iter().next()
    }

    fn homes(&self) -> Vec<PathBuf> {
        list(&self.env.work().join("home/workflows"))
            .into_iter()
            // Some tests put a folder of another workflow beside it.
            .filter(|path| path.is_dir() && !path.ends_with("another"))
            .collect()
    }

    /// Returns the folder with the workspaces.
    pub fn workspaces(&self) -> PathBuf {
        self.sessions_home().unwrap_or_else(|| self.home()).join("issues")
    }

    /// Returns the workspace of an issue.
    pub fn workspace(&self, issue: &str) -> PathBuf {
        self.workspaces().join(issue)
    }

    /// Returns the file `name` in the workspace of an issue; empty where it is missing.
    pub fn workspace_file(&self, issue: &str, name: &str) -> String {
        text(&self.workspace(issue).join(name))
    }

    /// Returns the folder of the only instance.
    pub fn instance(&self) -> PathBuf {
        let mut folders = list(&self.env.state().join("vik/instances"));
        // A worker has only a lock.
        folders.retain(|folder| temporal().is_none() || folder.join("instance.json").exists());
        assert_eq!(folders.len(), 1, "{folders:?}");
        folders.remove(0)
    }

    /// Returns the sessions of an issue, oldest first.
    pub fn sessions(&self, issue: &str) -> Vec<Session> {
        let Some(home) = self.sessions_home() else {
            return Vec::new();
        };
        let mut stems: Vec<_> = list(&home.join("sessions").join(issue))
            .into_iter()
            .filter_map(|path| {
                let stem = path.to_str()?.strip_suffix(".attempt.json")?;
                // The name ends with the time-ordered id.
                Some((stem[stem.len() - 36..].to_owned(), stem.to_owned()))
            })
            .collect();
        stems.sort();
        stems.into_iter().map(|(_, stem)| Session { stem }).collect()
    }

    /// Returns the only session of an issue.
    #[track_caller]
    pub fn session(&self, issue: &str) -> Session {
        let mut sessions = self.sessions(issue);
        assert_eq!(sessions.len(), 1);
        sessions.remove(0)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut worker) = self.worker.get_mut().take() {
            worker.signal(Signal::SIGTERM);
            // Otherwise the end of the environment reports what is left.
            let _ = wait_for_value(LONG, || worker.is_over().then_some(()));
        }
    }
}
