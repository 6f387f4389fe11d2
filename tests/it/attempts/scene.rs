//! One attempt, and the processes that make it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use vik_core::attempt::{AttemptResult, NewActivity, Start, StopReason};
use vik_core::ids::{AttemptId, RunId};
use vik_core::issue::Issue;
use vik_core::limits::{Limit, LimitHit, LimitScope, LimitUnit};
use vik_core::workflow::Workflow;
use vik_proc::{BootTime, Lease, LeaseSender, Supervisor};
use vik_session::attempt::{self, Attempt, AttemptHandle, AttemptUpdate, Finish};
use vik_session::host::{Host, own_environment};
use vik_workspace::Layout;

use crate::support::*;

/// The variable with the folder of the scene, set for the process that makes the attempt.
const SCENE: &str = "VIK_TEST_SCENE";

/// The orphan grace of these tests: how long an agent lives without its daemon.
const GRACE: Duration = Duration::from_secs(60);

/// The time between two checks of the files of a scene.
const UPDATE_INTERVAL: Duration = Duration::from_millis(5);

/// The number of renewals before a process stops itself: the last ones have reached the shims.
const RENEWALS_UNTIL_FREEZE: u32 = 20;

/// One attempt, and the files through which its processes find it.
pub struct Scene {
    pub world: World,
    pub start: Start,
}

fn read_workflow(path: &Path) -> Workflow {
    let text = std::fs::read_to_string(path).unwrap();
    let loaded = vik_workflow_reader::load(&text);
    loaded
        .draft()
        .cloned()
        .unwrap_or_else(|| panic!("{}", loaded.render("workflow.yml", false)))
}

/// Returns the attempt of a scene, to be run in this process.
fn attempt(folder: &Path, start: Start, grace: Duration) -> (Attempt, AttemptHandle) {
    let workflow_path = folder.join("work/workflow.yml");
    let workflow = read_workflow(&workflow_path);
    let mut layout = Layout::resolve(&workflow_path, &workflow.workspace_root).unwrap();
    layout.create().unwrap();
    let vik = PathBuf::from(env!("CARGO_BIN_EXE_vik"));
    let host = Host {
        workflow_dir: folder.join("work"),
        workflow_path,
        layout,
        environment: own_environment().into(),
        supervisor: Supervisor::new(&vik, [vik_proc::SHIM_VERB.into()]).unwrap(),
        instance: "test".to_owned(),
        vik,
        agent_shims: Default::default(),
    };
    let (handle, link) = AttemptHandle::new();
    let attempt = Attempt {
        host: Arc::new(host),
        workflow: Arc::new(workflow),
        prompts: Default::default(),
        start: Arc::new(start),
        commands: link.commands,
        updates: link.updates,
        orphan_grace: grace,
        lease: None,
        hub: None,
    };
    (attempt, handle)
}

/// The lease of an attempt. A thread renews it for as long as the file `lease` has milliseconds, also
/// while the attempt waits at a point, and ends it when there is a file `lease-end`.
struct ScriptedLease {
    folder: PathBuf,
    sender: LeaseSender,
    renewals_until_freeze: u32,
}

impl ScriptedLease {
    /// Returns the lease of the attempt, if the scene has one, which is updated until the sender is
    /// dropped.
    fn start(folder: &Path) -> Option<(mpsc::Sender<()>, Lease)> {
        let length = Self::length(folder)?;
        let (sender, lease) = Lease::new(BootTime::now().saturating_add(length));
        let mut scripted = Self {
            folder: folder.to_owned(),
            sender,
            renewals_until_freeze: RENEWALS_UNTIL_FREEZE,
        };
        scripted.update();
        let (stop, stopped) = mpsc::channel();
        std::thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(UPDATE_INTERVAL) {
                scripted.update();
            }
        });
        Some((stop, lease))
    }

    fn length(folder: &Path) -> Option<Duration> {
        let length = std::fs::read_to_string(folder.join("lease")).ok()?;
        Some(Duration::from_millis(length.parse().unwrap()))
    }

    fn update(&mut self) {
        if self.folder.join("lease-end").exists() {
            self.sender.end();
            std::fs::write(self.folder.join("lease-ended"), "").unwrap();
            return;
        }
        let length = Self::length(&self.folder).unwrap();
        self.sender.renew(BootTime::now().saturating_add(length));
        if self.folder.join("freeze").exists() {
            self.renewals_until_freeze -= 1;
            if self.renewals_until_freeze == 0 {
                self.renewals_until_freeze = RENEWALS_UNTIL_FREEZE;
                std::fs::remove_file(self.folder.join("freeze")).unwrap();
                raise(Signal::SIGSTOP).unwrap();
            }
        }
    }
}

/// Runs the attempt of a scene to its end, and writes the result to a file.
#[test]
fn child_process_runs_the_attempt_of_a_scene() {
    let Some(folder) = std::env::var_os(SCENE).map(PathBuf::from) else {
        return;
    };
    let start = serde_json::from_slice(&std::fs::read(folder.join("start.json")).unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (_renewing, lease) = ScriptedLease::start(&folder).unzip();
    let finish = runtime.block_on(async {
        let (mut attempt, handle) = attempt(&folder, start, GRACE);
        attempt.lease = lease;
        let AttemptHandle {
            commands,
            mut updates,
        } = handle;
        let detach = folder.join("detach");
        let limit = folder.join("limit");
        attempt::spawn(attempt, Arc::new(Semaphore::new(1)));
        let mut warned = false;
        // Sends the commands that an orchestrator would send.
        loop {
            if detach.exists() {
                commands.detach();
            }
            let Ok(update) = tokio::time::timeout(UPDATE_INTERVAL, updates.next()).await else {
                continue;
            };
            let spent = match update {
                AttemptUpdate::Finished(finish) => return finish,
                AttemptUpdate::Awaits(_) | AttemptUpdate::MessagesTaken(_) | AttemptUpdate::TurnEnded(_) => {
                    continue;
                }
                AttemptUpdate::Spent(spent) => spent,
            };
            let Ok(max) = std::fs::read_to_string(&limit) else {
                continue;
            };
            let hit = LimitHit {
                scope: LimitScope::Attempt,
                unit: LimitUnit::Tokens,
                spent: spent.tokens,
                limit: max.trim().parse().unwrap(),
            };
            if hit.is_reached() {
                commands.stop(StopReason::OverBudget(hit));
            } else if hit.is_near() && !warned {
                warned = true;
                commands.warn(hit);
            }
        }
    });
    let result = match finish {
        Finish::Ended(end) => serde_json::to_value(&end.ended.result).unwrap(),
        Finish::StorageFailed(error) => panic!("{error}"),
        Finish::Detached => json!("detached"),
        Finish::HandedOver(result) => panic!("{result:?}"),
    };
    std::fs::write(folder.join("end.json"), result.to_string()).unwrap();
}

impl Scene {
    pub fn new(world: World) -> Self {
        let workflow = read_workflow(&world.env.path("work/workflow.yml"));
        let start = Start {
            issue: Issue::parse(r#"{"id":"1","title":"An issue","state":"todo"}"#).unwrap(),
            stage: workflow.issue.stages[0].clone(),
            run: RunId(uuid::Uuid::now_v7()),
            attempt_id: AttemptId(uuid::Uuid::now_v7()),
            worker: None,
            attempt: 1,
            fencing_number: 1,
            turn: 0,
            previous: None,
            resume: None,
            budget: Limit::default(),
            intent: Default::default(),
            fenced: false,
            message: None,
            messages: Vec::new(),
            answers: Vec::new(),
            handed_back: None,
            activity: NewActivity::default(),
        };
        Self { world, start }
    }

    /// Replaces the attempt with one of another stage of the same issue.
    pub fn become_another(&mut self, stage: &str) {
        let workflow = read_workflow(&self.world.env.path("work/workflow.yml"));
        self.start.stage = workflow.stage(&stage.into()).unwrap().clone();
        self.start.attempt_id = AttemptId(uuid::Uuid::now_v7());
    }

    /// Starts a process that runs or recovers the attempt.
    pub fn spawn(&self) -> AttemptProcess {
        let folder = self.world.env.root().to_owned();
        std::fs::write(
            folder.join("start.json"),
            serde_json::to_string(&self.start).unwrap(),
        )
        .unwrap();
        let _ = std::fs::remove_file(folder.join("end.json"));
        let mut command: Command = self.world.env.command(std::env::current_exe().unwrap());
        let child = command
            .args([
                "attempts::scene::child_process_runs_the_attempt_of_a_scene",
                "--exact",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(SCENE, &folder)
            .env("VIK_CRASH_DIR", self.world.crash_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        AttemptProcess { child, folder }
    }

    /// Runs the attempt until it reaches this point, and kills its process there.
    #[track_caller]
    pub fn die_at(&self, point: &str) {
        self.world.arm(point);
        let process = self.spawn();
        self.world.wait_for_point(point);
        process.die();
        self.world.leave_point(point);
    }

    /// Gives the attempt a lease of this length, or changes the length of its renewals.
    pub fn lease(&self, length: Duration) {
        let new = self.file("lease-new");
        std::fs::write(&new, length.as_millis().to_string()).unwrap();
        std::fs::rename(new, self.file("lease")).unwrap();
    }

    /// Stops the process of the attempt, as if its machine froze, and leaves the shims a lease of this
    /// length.
    #[track_caller]
    pub fn freeze(&self, process: &AttemptProcess, length: Duration) {
        self.lease(length);
        std::fs::write(self.file("freeze"), "").unwrap();
        // On a very busy machine, the lease may be lost before.
        eventually("the process is stopped", || {
            matches!(&*process.state(), "T" | "Z")
        });
    }

    /// Ends the lease of the attempt, and waits until its process has done so.
    #[track_caller]
    pub fn end_lease(&self) {
        std::fs::write(self.file("lease-end"), "").unwrap();
        eventually("the lease is ended", || self.file("lease-ended").exists());
    }

    /// Creates the file that the scripts of a scene wait for.
    pub fn go(&self) {
        std::fs::write(self.file("go"), "").unwrap();
    }

    /// Waits until the output `one` of the agent is in the session log.
    #[track_caller]
    pub fn wait_for_output(&self) {
        eventually("the output of the agent is read", || {
            let sessions = self.world.sessions("1");
            sessions
                .first()
                .is_some_and(|session| session.text(".jsonl").contains("one"))
        });
    }

    /// Runs or recovers the attempt, and returns its result.
    #[track_caller]
    pub fn finish(&self) -> AttemptResult {
        self.spawn().report()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.world.env.path(name)
    }

    /// Returns how often a script of this scene recorded that it ran.
    pub fn count(&self, name: &str) -> usize {
        std::fs::read_to_string(self.file(name)).map_or(0, |text| text.lines().count())
    }

    /// Checks that the log has no gap in its numbers and contains these messages of the agent.
    #[track_caller]
    pub fn expect_whole_log(&self, messages: &[&str]) {
        let session = self.world.session("1");
        let numbers: Vec<_> = session
            .events()
            .iter()
            .map(|event| event["seq"].as_u64().unwrap())
            .collect();
        assert!(
            numbers.iter().copied().eq(1..=numbers.len() as u64),
            "{numbers:?}"
        );
        assert_eq!(session.messages(), messages);
    }

    pub fn steps(&self) -> Vec<Value> {
        self.world.session("1").steps()
    }
}

/// A process that runs the attempt.
pub struct AttemptProcess {
    child: Child,
    pub folder: PathBuf,
}

impl AttemptProcess {
    /// Kills the process at once, as `kill -9` kills a daemon.
    pub fn die(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the letter of the state of the process.
    fn state(&self) -> String {
        stat_fields(self.pid())[0].clone()
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Continues the process, which is stopped or about to stop.
    #[track_caller]
    pub fn resume(&self) {
        eventually("the process is stopped", || matches!(&*self.state(), "T" | "Z"));
        kill(Pid::from_raw(self.pid()), Signal::SIGCONT).unwrap();
    }

    /// Returns whether the attempt has ended.
    pub fn has_ended(&self) -> bool {
        self.folder.join("end.json").exists()
    }

    /// Waits for the process to exit, whatever the result is.
    #[track_caller]
    pub fn end(mut self) {
        let ended = wait_for_value(LONG, || self.child.try_wait().unwrap());
        assert!(ended.is_some_and(|status| status.success()));
    }

    #[track_caller]
    pub fn result(mut self) -> Value {
        let ended = wait_for_value(LONG, || self.child.try_wait().unwrap());
        assert!(ended.is_some(), "it did not end");
        serde_json::from_str(&std::fs::read_to_string(self.folder.join("end.json")).unwrap()).unwrap()
    }

    #[track_caller]
    pub fn report(self) -> AttemptResult {
        let result = self.result();
        serde_json::from_value(result.clone()).unwrap_or_else(|error| panic!("{error}: {result}"))
    }
}

impl Drop for AttemptProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
