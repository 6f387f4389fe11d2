//! One attempt, by processes that die in it: whoever takes it up goes on where the one before ended.
//!
//! Each is this very program, run again with one hidden test of it: what it does is `vik::session::run`, no more.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use vik::host::{Host, own_environment};
use vik::session::{self, Attempt, Finish, Live, Orders, Stop};
use vik::workspace::Layout;
use vik_core::ids::{RunId, SessionId};
use vik_core::issue::Issue;
use vik_core::limits::{Limit, LimitHit, LimitScope, LimitUnit};
use vik_core::machine::Report;
use vik_core::money::MicroUsd;
use vik_core::outcome::{CostSource, Outcome, Usage};
use vik_core::scheduler::{Resume, Start, StopWhy};
use vik_core::workflow::Workflow;
use vik_proc::Supervisor;

use crate::support::*;

/// Where the process that makes the attempt finds what to do.
const SCENE: &str = "VIK_TEST_SCENE";

/// How long an agent of these tests lives without its daemon.
const GRACE: Duration = Duration::from_secs(60);

/// One attempt, and the files by which its processes know it.
struct Scene {
    world: World,
    start: Start,
}

fn read_workflow(path: &Path) -> Workflow {
    let text = std::fs::read_to_string(path).unwrap();
    let loaded = vik_core::workflow::load(&text);
    loaded
        .draft()
        .cloned()
        .unwrap_or_else(|| panic!("{}", loaded.render("workflow.yml", false)))
}

/// The attempt of a scene, in this process.
fn attempt(
    folder: &Path,
    start: Start,
    grace: Duration,
) -> (
    Attempt,
    session::Tell,
    tokio::sync::mpsc::UnboundedReceiver<session::Spent>,
) {
    let workflow_path = folder.join("work/workflow.yml");
    let workflow = read_workflow(&workflow_path);
    let mut layout = Layout::resolve(&workflow_path, &workflow.workspace_root).unwrap();
    layout.create().unwrap();
    let vik = PathBuf::from(env!("CARGO_BIN_EXE_vik"));
    let host = Host {
        workflow_dir: folder.join("work"),
        workflow_path,
        layout,
        environment: own_environment(),
        supervisor: Supervisor::new(&vik, [vik_proc::SHIM_VERB.into()]).unwrap(),
        instance: "test".to_owned(),
        vik,
    };
    let (tell, orders) = Orders::new(Stop::new().1);
    let (spent, hears) = tokio::sync::mpsc::unbounded_channel();
    let attempt = Attempt {
        host: Arc::new(host),
        workflow: Arc::new(workflow),
        start: Box::new(start),
        live: Live::default(),
        orders,
        spent,
        orphan_grace: grace,
        shims: Default::default(),
    };
    (attempt, tell, hears)
}

/// Makes the attempt of a scene to its end, and leaves word of it.
#[test]
fn hidden_process() {
    let Some(folder) = std::env::var_os(SCENE).map(PathBuf::from) else {
        return;
    };
    let start = serde_json::from_slice(&std::fs::read(folder.join("start.json")).unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let finish = runtime.block_on(async {
        let (attempt, tell, mut hears) = attempt(&folder, start, GRACE);
        let detach = folder.join("detach");
        let limit = folder.join("limit");
        let made = tokio::spawn(session::run(attempt));
        let mut warned = false;
        // What an orchestrator would say.
        while !made.is_finished() {
            if detach.exists() {
                tell.detach();
            }
            while let Ok(spent) = hears.try_recv() {
                let Ok(most) = std::fs::read_to_string(&limit) else {
                    continue;
                };
                let hit = LimitHit {
                    scope: LimitScope::Attempt,
                    unit: LimitUnit::Tokens,
                    spent: spent.spend.tokens,
                    limit: most.trim().parse().unwrap(),
                };
                if hit.is_reached() {
                    tell.stop(StopWhy::OverBudget(hit));
                } else if hit.is_near() && !warned {
                    warned = true;
                    tell.warn(hit);
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        made.await.unwrap()
    });
    let word = match finish {
        Finish::Ended(end) => serde_json::to_value(&end.report).unwrap(),
        Finish::Detached => json!("detached"),
    };
    std::fs::write(folder.join("end.json"), word.to_string()).unwrap();
}

impl Scene {
    fn new(world: World) -> Self {
        let workflow = read_workflow(&world.env.path("work/workflow.yml"));
        let start = Start {
            issue: Issue::parse(r#"{"id":"1","title":"An issue","state":"todo"}"#).unwrap(),
            stage: workflow.issue.stages[0].clone(),
            run: RunId(uuid::Uuid::now_v7()),
            session: SessionId(uuid::Uuid::now_v7()),
            attempt: 1,
            previous: None,
            resume: None,
            budget: Limit::default(),
        };
        Self { world, start }
    }

    /// Starts a process that takes the attempt up.
    fn begin(&self) -> Made {
        let folder = self.world.env.root().to_owned();
        std::fs::write(
            folder.join("start.json"),
            serde_json::to_string(&self.start).unwrap(),
        )
        .unwrap();
        let _ = std::fs::remove_file(folder.join("end.json"));
        std::fs::create_dir_all(folder.join("points")).unwrap();
        let mut command: Command = self.world.env.command(std::env::current_exe().unwrap());
        let child = command
            .args([
                "attempts::hidden_process",
                "--exact",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(SCENE, &folder)
            .env("VIK_CRASH_DIR", folder.join("points"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Made { child, folder }
    }

    /// The attempt, taken up to its end.
    #[track_caller]
    fn finish(&self) -> Report {
        self.begin().report()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.world.env.path(name)
    }

    /// How often a script of this scene noted that it ran.
    fn count(&self, name: &str) -> usize {
        std::fs::read_to_string(self.file(name)).map_or(0, |text| text.lines().count())
    }

    /// Every line of the log, the agent's messages among them, has its number.
    #[track_caller]
    fn expect_whole_log(&self, messages: &[&str]) {
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

    fn steps(&self) -> Vec<Value> {
        let text = self.world.session("1").text(".steps.jsonl");
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// A process that makes the attempt.
struct Made {
    child: Child,
    folder: PathBuf,
}

impl Made {
    /// Dies at once, as the daemon of `kill -9` does.
    fn die(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    #[track_caller]
    fn word(mut self) -> Value {
        let ended = wait_for_value(LONG, || self.child.try_wait().unwrap());
        assert!(ended.is_some(), "it did not end");
        serde_json::from_str(&std::fs::read_to_string(self.folder.join("end.json")).unwrap()).unwrap()
    }

    #[track_caller]
    fn report(self) -> Report {
        let word = self.word();
        serde_json::from_value(word.clone()).unwrap_or_else(|error| panic!("{error}: {word}"))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An attempt with every hook, each of which counts its runs; the agent says `one`, waits for `go` and says `two`.
fn with_hooks() -> Scene {
    let world = World::new(&[("1", "todo")]).agent("codex");
    let root = world.env.root().display().to_string();
    let counts = |name: &str| json!(format!("echo ran >> {root}/{name}"));
    let script = format!(
        "append {root}/agent ran\\n; start; message one; wait-file {root}/go; message two; usage 100 10; done fine"
    );
    let world = world
        .script(&script)
        .set("/issue/hooks", json!({"after_create": counts("after_create")}))
        .work(
            "hooks",
            json!({"before_run": counts("before_run"), "after_run": counts("after_run")}),
        )
        .work("verify", counts("verify"));
    Scene::new(world)
}

#[test]
fn an_attempt_goes_on_after_a_death_at_any_point() {
    let points = [
        "begun",
        "locked",
        "workspace_ready",
        "before_run_started",
        "before_run_ended",
        "prompt_ready",
        "shim_started",
        "agent_started",
        "agent_ended",
        "verify_ended",
        "log_ended",
        "after_run_started",
        "after_run_ended",
    ];
    for point in points {
        let scene = with_hooks();
        std::fs::create_dir_all(scene.file("points")).unwrap();
        let armed = scene.file(&format!("points/{point}.armed"));
        std::fs::write(&armed, "").unwrap();
        if point != "agent_started" {
            std::fs::write(scene.file("go"), "").unwrap();
        }
        let first = scene.begin();
        eventually(&format!("the point {point}"), || !armed.exists());
        first.die();
        let _ = std::fs::remove_file(armed.with_extension("hit"));
        std::fs::write(scene.file("go"), "").unwrap();
        let report = scene.finish();
        // A shim that was told nothing has started nothing.
        let lost = point == "shim_started";
        let outcome = if lost { Outcome::Lost } else { Outcome::Succeeded };
        assert_eq!(report.outcome, outcome, "{point}: {report:?}");
        assert_eq!(report.ran, !lost, "{point}");
        assert!(report.proof.is_some(), "{point}");
        let ran = |name| scene.count(name);
        assert_eq!(ran("agent"), usize::from(!lost), "{point}");
        assert_eq!((ran("after_create"), ran("before_run")), (1, 1), "{point}");
        assert_eq!(
            (ran("verify"), ran("after_run")),
            (usize::from(!lost), 1),
            "{point}"
        );
        if lost {
            assert_eq!(scene.world.session("1").ended()["outcome"], "lost");
        } else {
            scene.expect_whole_log(&["one", "two"]);
            let ended = scene.world.session("1").expect("succeeded", None);
            assert_eq!(ended["usage"]["input_tokens"], 100, "{point}");
        }
        // Taken up once more, it says the same and does nothing.
        assert_eq!(scene.finish(), report, "{point}");
        assert_eq!(
            (ran("after_run"), ran("agent")),
            (1, usize::from(!lost)),
            "{point}"
        );
        scene.world.env.assert_nothing_left();
    }
}

#[test]
fn a_hook_that_was_cut_off_is_ended_and_run_again() {
    for hook in ["before_run", "after_run"] {
        let world = World::new(&[("1", "todo")]).agent("codex").script("ok");
        let root = world.env.root().display().to_string();
        let script =
            format!("echo ran >> {root}/hook; test -e {root}/go || {{ touch {root}/waits; sleep 1000; }}");
        let scene = Scene::new(world.work("hooks", json!({hook: script})));
        let first = scene.begin();
        eventually("the hook waits", || scene.file("waits").exists());
        first.die();
        std::fs::write(scene.file("go"), "").unwrap();
        assert_eq!(scene.finish().outcome, Outcome::Succeeded, "{hook}");
        assert_eq!(scene.count("hook"), 2, "{hook}");
        let begun = scene
            .steps()
            .iter()
            .filter(|step| step["step"] == "started" && step["script"] == hook)
            .count();
        assert_eq!(begun, 2, "the journal shows both");
        scene.world.env.assert_nothing_left();
    }
}

#[test]
fn many_deaths_in_a_flood_lose_and_double_no_line() {
    let world = World::new(&[("1", "todo")]).agent("codex");
    let root = world.env.root().display().to_string();
    let scene = Scene::new(world.script(&format!(
        "append {root}/agent ran\\n; start; repeat 40 \"flood-events 500 100; sleep 50\"; done fine"
    )));
    for deaths in 1..=6 {
        let made = scene.begin();
        let least = 1500 * deaths;
        let log = || {
            scene
                .world
                .sessions("1")
                .first()
                .map_or(0, |session| session.raw().len() / 150)
        };
        eventually("it has gone on", || {
            log() >= least || made.folder.join("end.json").exists()
        });
        made.die();
    }
    let report = scene.finish();
    assert_eq!(
        (report.outcome, scene.count("agent")),
        (Outcome::Succeeded, 1),
        "{report:?}"
    );
    let session = scene.world.session("1");
    let printed = String::from_utf8(session.raw()).unwrap();
    let printed: Vec<_> = printed
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["item"]["text"]
                .as_str()
                .map(str::to_owned)
        })
        .collect();
    assert!(printed.len() >= 20_000, "{}", printed.len());
    assert!(session.messages() == printed, "each line once, in order");
}

#[test]
fn an_agent_that_is_let_go_is_taken_up() {
    let scene = with_hooks();
    let first = scene.begin();
    let heard = || {
        scene
            .world
            .sessions("1")
            .first()
            .is_some_and(|session| session.text(".jsonl").contains("one"))
    };
    eventually("the agent is heard", heard);
    std::fs::write(scene.file("detach"), "").unwrap();
    assert_eq!(first.word(), "detached");
    std::fs::remove_file(scene.file("detach")).unwrap();
    assert_eq!(scene.count("after_run"), 0, "it is not over");
    std::fs::write(scene.file("go"), "").unwrap();
    assert_eq!(scene.finish().outcome, Outcome::Succeeded);
    scene.expect_whole_log(&["one", "two"]);
    let ran = ["agent", "before_run", "verify", "after_run"].map(|name| scene.count(name));
    assert_eq!(ran, [1; 4]);
}

#[test]
fn a_stop_that_was_begun_is_finished_by_the_next() {
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .script("start; ignore INT,TERM; message one; hang")
        .work("timeout", json!("1s"));
    let scene = Scene::new(world);
    let first = scene.begin();
    let stopping = || {
        let sessions = scene.world.sessions("1");
        sessions
            .first()
            .is_some_and(|session| session.text(".steps.jsonl").contains("\"stopping\""))
    };
    eventually("it is being stopped", stopping);
    first.die();
    let report = scene.finish();
    assert_eq!(report.outcome, Outcome::TimedOut, "{report:?}");
    scene.expect_whole_log(&["one"]);
    scene.world.env.assert_nothing_left();
}

#[test]
fn everything_that_was_killed_leaves_nothing_and_is_lost() {
    let world = World::new(&[("1", "todo")]).agent("codex");
    let root = world.env.root().display().to_string();
    let scene = Scene::new(world.script(&format!(
        "start 01a1ffcd-34e9-78d1-bc6d-b647a491f028; daemonise 100000 clearenv,pid={root}/daemon; pidfile {root}/agent; message one; hang"
    )));
    let first = scene.begin();
    let heard = || {
        scene
            .world
            .sessions("1")
            .first()
            .is_some_and(|session| session.text(".jsonl").contains("one"))
    };
    eventually("the agent is heard", heard);
    let shim = scene.steps().iter().find(|step| step["step"] == "shim").unwrap()["shim"]["pid"]
        .as_i64()
        .unwrap();
    first.die();
    let shim = nix::unistd::Pid::from_raw(i32::try_from(shim).unwrap());
    nix::sys::signal::kill(shim, nix::sys::signal::Signal::SIGKILL).unwrap();
    let report = scene.finish();
    assert_eq!(report.outcome, Outcome::Lost, "{report:?}");
    assert!(report.ran && report.proof.is_some(), "{report:?}");
    // The next attempt can go on with the conversation.
    let id = report.provider_session_id.as_deref();
    assert_eq!(id, Some("01a1ffcd-34e9-78d1-bc6d-b647a491f028"));
    scene.expect_whole_log(&["one"]);
    scene.world.env.assert_nothing_left();
}

// --- limits

#[test]
fn a_limit_is_warned_of_and_stops_the_attempt() {
    let world = World::new(&[("1", "todo")]).agent("vex");
    let world = world.set("/agents/a/command", json!(["vik-scripted-agent"]));
    let usage =
        |input: u64| format!("line '{{\"type\":\"usage\",\"input_tokens\":{input},\"output_tokens\":0}}'");
    let scene = Scene::new(world.script(&format!(
        "as vex; start; {}; sleep 400; {}; hang",
        usage(850),
        usage(1200)
    )));
    std::fs::write(scene.file("limit"), "1000").unwrap();
    let report = scene.finish();
    assert_eq!(report.outcome, Outcome::OverBudget, "{report:?}");
    assert_eq!(
        report.reason.as_deref(),
        Some("a limit is reached: 1200 of 1000 tokens for the attempt")
    );
    assert_eq!(report.spend.unwrap().tokens, 1200);
    let limits = scene.world.session("1").of_kind("limit");
    let seen: Vec<_> = limits
        .iter()
        .map(|limit| (limit["scope"].clone(), limit["percent"].clone()))
        .collect();
    assert_eq!(
        seen,
        [(json!("attempt"), json!(85)), (json!("attempt"), json!(120))]
    );
}

#[test]
fn what_was_cut_off_without_figures_is_charged_the_estimate() {
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .set("/agents/a/estimate", json!({"usd": 0.5, "tokens": 1000}))
        .script("start; hang")
        .work("timeout", json!("1s"));
    let scene = Scene::new(world);
    let report = scene.finish();
    assert_eq!(
        (report.outcome, report.ran, report.spend),
        (Outcome::TimedOut, true, None)
    );
    let ended = scene.world.session("1").ended();
    assert_eq!(
        (&ended["cost_usd"], &ended["cost_source"]),
        (&json!(0.5), &json!("estimate"))
    );
}

#[test]
fn the_budget_goes_to_an_agent_that_keeps_one() {
    let mut scene = Scene::new(
        World::new(&[("1", "todo")])
            .agent("claude_code")
            .script("dump-argv argv.txt; ok"),
    );
    scene.start.budget.usd = Some(MicroUsd::from_usd(1.25));
    assert_eq!(scene.finish().outcome, Outcome::Succeeded);
    let argv = scene.world.workspace_file("1", "argv.txt");
    assert!(argv.contains("--max-budget-usd\n1.250000"), "{argv}");
}

// --- going on with a conversation

const THREAD: &str = "01a1ffcd-34e9-78d1-bc6d-b647a491f028";

fn resuming(agent: &str, script: &str, id: &str) -> Scene {
    let world = World::new(&[("1", "todo")]).agent(agent);
    let mut scene = Scene::new(world);
    scene.start.attempt = 2;
    scene.start.previous = Some(Report {
        feedback: Some("the test failed".to_owned()),
        ..Report::of(Outcome::TimedOut)
    });
    scene.start.resume = Some(Resume {
        session: SessionId(uuid::Uuid::now_v7()),
        provider_session_id: id.to_owned(),
        total: Usage {
            input_tokens: 100,
            output_tokens: 10,
            ..Usage::default()
        },
    });
    scene.start.stage.resume_prompt = Some(format!(
        "{script}\nGo on. {{{{ attempt.feedback }}}} {{{{ attempt.resumed }}}}"
    ));
    scene
}

#[test]
fn a_conversation_is_gone_on_with() {
    for agent in ["codex", "claude_code"] {
        let script =
            "SCRIPT: expect-prompt \"Go on. the test failed true\"; dump-argv argv.txt; usage 250 30; ok";
        let scene = resuming(agent, script, THREAD);
        let report = scene.finish();
        assert_eq!(
            (report.outcome, report.resume_failed),
            (Outcome::Succeeded, false),
            "{agent}: {report:?}"
        );
        let argv = scene.world.workspace_file("1", "argv.txt");
        assert!(argv.contains(THREAD) && argv.contains("resume"), "{argv}");
        let session = scene.world.session("1");
        let first = &session.events()[0];
        assert_eq!(
            (&first["kind"], &first["provider_session_id"]),
            (&json!("resumed"), &json!(THREAD))
        );
        if agent == "codex" {
            // Codex tells the total of the conversation.
            assert_eq!((report.usage.input_tokens, report.usage.output_tokens), (150, 20));
        }
    }
}

#[test]
fn vik_has_words_of_its_own_for_one_that_goes_on() {
    let mut scene = resuming("codex", "", THREAD);
    scene.start.stage.resume_prompt = None;
    scene.finish();
    let prompt = scene.world.session("1").text(".prompt.md");
    assert!(
        prompt.contains("Go on where you were") && prompt.contains("the test failed"),
        "{prompt}"
    );
}

#[test]
fn an_id_that_is_none_begins_anew_and_says_so() {
    let mut scene = resuming("codex", "", "--last");
    let prompt = "SCRIPT: dump-argv argv.txt; ok".to_owned();
    scene.start.stage.prompt = vik_core::workflow::PromptSource::Inline(prompt);
    let report = scene.finish();
    assert_eq!((report.outcome, report.resume_failed), (Outcome::Succeeded, true));
    assert!(!scene.world.workspace_file("1", "argv.txt").contains("resume"));
    assert_eq!(scene.world.session("1").events()[0]["kind"], "resume_failed");
}

#[test]
fn a_conversation_that_is_not_found_is_told() {
    let unknown = "SCRIPT: stderr 'Error: thread/resume failed: no rollout found for thread id x'; exit 1";
    let scene = resuming("codex", unknown, THREAD);
    let report = scene.finish();
    assert_eq!((report.outcome, report.resume_failed), (Outcome::Failed, true));
    assert!(report.reason.unwrap().contains("no rollout found"));
    assert_eq!(scene.world.session("1").of_kind("resume_failed").len(), 1);
    // Another conversation came back: the work counts, and it is told.
    let other = resuming(
        "codex",
        "SCRIPT: start 01a1ffcd-0000-78d1-bc6d-b647a491f028; message hi; done",
        THREAD,
    );
    let report = other.finish();
    assert_eq!(
        (report.outcome, report.resume_failed),
        (Outcome::Succeeded, true),
        "{report:?}"
    );
    assert_eq!(report.cost_source, CostSource::None);
}
