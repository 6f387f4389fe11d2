//! Hubs and workers as processes, from the tracker to the agent and back.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vik_core::outcome::Outcome;
use vik_core::outputs::{OutputNote, Progress};
use vik_store::ledger::{Reader, StoredAttempt};
use vik_testkit::{FakeTracker, TestEnv, alive, eventually, wait_for_value};

use crate::server::{PATIENCE, Server};

/// The token of the tracker, which only hubs have.
const TOKEN: &str = "only-hubs-have-this-token";

/// A tracker with one issue, a server, and the folders of the machines.
pub struct Scene {
    pub env: TestEnv,
    tracker: FakeTracker,
    pub server: Server,
    pub workflow: String,
}

impl Scene {
    /// Creates a workflow whose agent runs a script, and whose success moves the issue to `done`.
    pub fn new(script: &str) -> Option<Self> {
        Self::with(script, |_, _| {})
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
            "heartbeat": "6s",
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

    fn wait_for_state(&self, state: &str) {
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
    folder: PathBuf,
    log: PathBuf,
}

impl Machine {
    #[track_caller]
    fn wait_for(&self, line: &str) {
        let is_printed = wait_for_value(PATIENCE, || self.log().contains(line).then_some(()));
        assert!(is_printed.is_some(), "no `{line}` in:\n{}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
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
    fn kill(self) {
        assert_eq!(self.end(Signal::SIGKILL).signal(), Some(9));
    }

    /// Returns the folder of the workflow in the home of this machine.
    fn home(&self) -> Option<PathBuf> {
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

    /// Returns the path of a file in the workspace of the issue.
    fn workspace_file(&self, name: &str) -> PathBuf {
        self.home().unwrap_or_default().join("issues/1").join(name)
    }

    /// Returns the attempts in the ledger of this hub, the latest first.
    pub fn attempts(&self) -> Vec<StoredAttempt> {
        attempts(self.home().as_deref())
    }

    /// Returns the book of the latest attempt in the ledger of this hub.
    fn output_notes(&self) -> Vec<OutputNote> {
        let home = self.home();
        let reader = home.and_then(|home| Reader::open(&home.join("service")).unwrap());
        let attempt = self.attempts().into_iter().next();
        let notes = reader
            .zip(attempt)
            .map(|(reader, attempt)| reader.output_notes(attempt.started.run).unwrap());
        notes.unwrap_or_default()
    }

    /// Returns why the work of the latest attempt was not handed over, by the ledger of this hub.
    fn hand_over_failure(&self) -> Option<String> {
        let attempt = self.attempts().into_iter().next();
        let report = attempt.unwrap().ended.unwrap().report;
        report.hand_over_failure.map(|failure| failure.reason)
    }

    /// Returns the log of the only session that has run on this machine.
    fn session_log(&self) -> String {
        let sessions = self.home().map(|home| list(&home.join("sessions/1")));
        let mut files = sessions.into_iter().flatten();
        let record = files.find(|path| path.to_string_lossy().ends_with(".attempt.json"));
        let log = record
            .unwrap()
            .to_string_lossy()
            .replace(".attempt.json", ".jsonl");
        std::fs::read_to_string(log).unwrap()
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

/// Requests a comment, which the hub makes in `comments` of the folder of the tracker. The command is
/// `steps`, after it has checked the token.
fn comment_scene(steps: &str) -> Option<Scene> {
    let ask = r#"run echo '{"kind":"comment","body":"Done."}' >> "$VIK_OUTPUTS"; ok"#;
    Scene::with(ask, |workflow, folder| {
        let folder = folder.display();
        let run = format!("cd {folder}; test \"$TOKEN\" = {TOKEN} || exit 7; {steps}");
        let check = format!("cd {folder}; touch comments; grep -q \"$VIK_OUTPUT_KEY\" comments");
        workflow["secrets"] = json!({"TOKEN": {"env": "HUB_TOKEN"}});
        workflow["agents"]["a"]["sandbox"] = json!({});
        let backoff = json!({"initial_backoff": "50ms", "max_backoff": "50ms"});
        workflow["issue"]["stages"]["work"]["hand_over"] = backoff;
        workflow["issue"]["stages"]["work"]["outputs"] = json!({
            "secrets": ["TOKEN"],
            "comment": {"run": run, "check": check},
        });
    })
}

/// Makes the comment.
const COMMENT: &str = "echo \"$VIK_OUTPUT_KEY\" >> comments";

/// Shows that the command runs, and waits for the test.
const WAIT: &str = "touch up; while ! test -e go; do sleep 0.05; done";

impl Scene {
    fn path(&self, name: &str) -> PathBuf {
        self.env.work().join(name)
    }

    fn comments(&self) -> usize {
        let comments = std::fs::read_to_string(self.path("comments")).unwrap_or_default();
        comments.lines().count()
    }
}

#[test]
fn hub_carries_out_an_output_with_the_token_that_only_it_has() {
    let Some(scene) = comment_scene(COMMENT) else {
        return;
    };
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    scene.wait_for_state("done");
    assert_eq!(hub.outcomes(1), [Outcome::Succeeded]);
    assert_eq!(hub.hand_over_failure(), None);
    assert_eq!(scene.comments(), 1);
    let notes = hub.output_notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(
        (notes[0].progress, &*notes[0].summary),
        (Progress::Applied, "Done.")
    );
    // The worker has the result in its log, and no book.
    let log = worker.session_log();
    assert!(log.contains(r#""status":"applied""#), "{log}");
    assert!(!worker.log().contains(TOKEN));
    hub.stop();
    worker.stop();
}

#[test]
fn pull_request_is_pushed_by_the_worker_and_opened_by_the_hub() {
    let ask = r#"run echo '{"kind":"pull_request","title":"T"}' >> "$VIK_OUTPUTS"; ok"#;
    let scene = Scene::with(ask, |workflow, _| {
        workflow["issues"] = json!({"tracker": "files", "pull": {"idle_sec": "100ms"}});
        workflow["agents"]["a"]["sandbox"] = json!({});
        workflow["issue"]["stages"]["work"]["outputs"] = json!({"pull_request": {}});
    });
    let Some(scene) = scene else {
        return;
    };
    let calls = scene.path("calls");
    let list = scene.tracker.pull_command();
    let vik = format!(
        "#!/bin/sh\ncase \"$*\" in\n\
         'tracker files list') exec {list} ;;\n\
         'tracker files show 1') exec {} ;;\n\
         *) echo \"$* in $VIK_WORKFLOW\" >> {} ;;\n\
         esac\n",
        list.replace(" list", " show 1"),
        calls.display()
    );
    let vik = scene.env.write("vik.sh", vik);
    std::fs::set_permissions(&vik, Permissions::from_mode(0o755)).unwrap();
    scene.env.link("vik", &vik);
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    assert_eq!(hub.outcomes(1), [Outcome::Succeeded]);
    scene.wait_for_state("done");
    let calls = std::fs::read_to_string(calls).unwrap();
    let [push, open] = calls.lines().collect::<Vec<_>>()[..] else {
        panic!("{calls}")
    };
    assert!(push.starts_with("git push --quiet --branch vik/1 "), "{push}");
    assert!(push.ends_with("/w/workflow.yml"), "{push}");
    assert!(open.starts_with("tracker output --from=todo -- "), "{open}");
    assert!(open.ends_with("/hub/workflow.yml"), "{open}");
    hub.stop();
    worker.stop();
}

#[test]
fn repeated_hand_over_asks_the_hub_again() {
    let Some(scene) = comment_scene(&format!("test -e go || exit 75; {COMMENT}")) else {
        return;
    };
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    eventually("the command has failed", || {
        hub.output_notes()
            .first()
            .is_some_and(|note| note.progress == Progress::Failed)
    });
    std::fs::write(scene.path("go"), "").unwrap();
    scene.wait_for_state("done");
    assert_eq!((scene.comments(), worker.sessions()), (1, 1));
    assert_eq!(hub.output_notes()[0].progress, Progress::Applied);
    hub.stop();
    worker.stop();
}

#[test]
fn output_of_a_killed_hub_is_carried_out_once_by_the_next_one() {
    output_is_carried_out_once_after(&format!("{WAIT}; {COMMENT}"), 0);
}

#[test]
fn output_that_a_killed_hub_has_carried_out_is_not_repeated() {
    output_is_carried_out_once_after(&format!("{COMMENT}; {WAIT}"), 1);
}

fn output_is_carried_out_once_after(steps: &str, comments: usize) {
    let Some(scene) = comment_scene(steps) else {
        return;
    };
    let worker = scene.worker("w");
    let first = scene.hub("first");
    eventually("the command runs", || scene.path("up").exists());
    let second = scene.hub("second");
    second.wait_for("following");
    first.kill();
    second.wait_for("leading");
    assert_eq!(scene.comments(), comments, "the command has ended with its hub");
    std::fs::write(scene.path("go"), "").unwrap();
    scene.wait_for_state("done");
    assert_eq!(second.outcomes(1), [Outcome::Succeeded]);
    assert_eq!(second.hand_over_failure(), None);
    assert_eq!(scene.comments(), 1);
    assert_eq!(worker.sessions(), 1);
    let notes = second.output_notes();
    assert_eq!(notes[0].progress, Progress::Applied);
    // The ledger of the first hub gets the book from the log.
    let first = scene.hub("first");
    first.wait_for("following");
    eventually("the book is copied", || first.output_notes() == notes);
    first.stop();
    second.stop();
    worker.stop();
}
