//! Deaths of the daemon, of the shim, of both.

use serde_json::{Value, json};
use vik_base::failpoint::STREAM_POINTS;
use vik_core::outcome::Outcome;

use super::scene::Scene;
use crate::support::*;

/// Returns an attempt with every hook, each of which counts its runs; the agent prints `one`, waits
/// for `go` and prints `two`.
fn with_hooks() -> Scene {
    let world = World::new(&[("1", "todo")]).agent("codex");
    let root = world.env.root().display().to_string();
    let counts = |name: &str| json!(format!("echo ran >> {root}/{name}"));
    let script = format!(
        "append {root}/agent ran\\n; start; message one; wait-file {root}/go; message two; usage 100 10; done"
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
fn attempt_resumes_after_a_crash_at_any_point() {
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
        if point != "agent_started" {
            scene.go();
        }
        scene.die_at(point);
        scene.go();
        let report = scene.finish();
        // A shim that received no command has started nothing.
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
        // Recovering the attempt once more gives the same result and does nothing.
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
fn hook_interrupted_by_a_crash_is_ended_and_run_again() {
    for hook in ["before_run", "after_run"] {
        let world = World::new(&[("1", "todo")]).agent("codex").script("ok");
        let root = world.env.root().display().to_string();
        let script =
            format!("echo ran >> {root}/hook; test -e {root}/go || {{ touch {root}/waits; sleep 1000; }}");
        let scene = Scene::new(world.work("hooks", json!({hook: script})));
        let first = scene.spawn();
        eventually("the hook waits", || scene.file("waits").exists());
        first.die();
        scene.go();
        assert_eq!(scene.finish().outcome, Outcome::Succeeded, "{hook}");
        assert_eq!(scene.count("hook"), 2, "{hook}");
        let hook_starts = scene
            .steps()
            .iter()
            .filter(|step| step["step"] == "started" && step["script"] == hook)
            .count();
        assert_eq!(hook_starts, 2, "the journal shows both");
        scene.world.env.assert_nothing_left();
    }
}

#[test]
fn login_refreshed_without_a_daemon_reaches_the_profile() {
    let world = World::new(&[]);
    let root = world.env.root().display().to_string();
    let script = format!(
        "touch {root}/waits; while [ ! -e {root}/go ]; do sleep 0.01; done; \
        echo '{{\"last_refresh\":\"new\"}}' > \"$CODEX_HOME/auth.json\"; exec codex \"$@\""
    );
    let command = ["sh", "-c", &script, "sh"];
    let world = world.script("ok").set(
        "/agents/a",
        json!({"runtime": "codex", "model": "m", "home": "private", "command": command}),
    );
    world.once();
    let profile = world.home().join("homes/a");
    std::fs::create_dir_all(&profile).unwrap();
    let login = profile.join("auth.json");
    std::fs::write(&login, r#"{"last_refresh":"old"}"#).unwrap();
    let scene = Scene::new(world);
    let first = scene.spawn();
    eventually("the agent waits", || scene.file("waits").exists());
    first.die();
    scene.go();
    let exit = scene.world.session("1").file(".exit.json");
    eventually("the agent has ended", || exit.exists());
    assert_eq!(scene.finish().outcome, Outcome::Succeeded);
    let kept = std::fs::read_to_string(login).unwrap();
    assert_contains(&kept, "new");
    scene.world.env.assert_nothing_left();
}

#[test]
fn output_flood_across_crashes_loses_and_doubles_no_line() {
    let world = World::new(&[("1", "todo")]).agent("codex");
    let root = world.env.root().display().to_string();
    let scene = Scene::new(world.script(&format!(
        "append {root}/agent ran\\n; start; repeat 40 \"flood-events 500 100; sleep 50\"; done fine"
    )));
    for deaths in 1..=6 {
        let made = scene.spawn();
        let min_bytes = 225_000 * deaths;
        let printed = || {
            let sessions = scene.world.sessions("1");
            let raw = sessions.first().map(|session| session.file(".raw.jsonl"));
            raw.and_then(|raw| raw.metadata().ok())
                .map_or(0, |meta| meta.len())
        };
        eventually("the agent continues", || {
            printed() >= min_bytes || made.folder.join("end.json").exists()
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
fn crash_around_the_removal_of_partial_lines_keeps_the_log() {
    for point in STREAM_POINTS.iter().chain(&["agent_ended", "log_ended"]) {
        let part = json!({"type": "stream_event", "event": {"type": "ping"}}).to_string() + "\n";
        let print = format!("partial {}", json!(part));
        let world = World::new(&[("1", "todo")])
            .set(
                "/agents/a",
                json!({"runtime": "claude_code", "model": "scripted", "stream": true}),
            )
            .script(&format!(
                "start; {print}; message one; {print}; message two; done"
            ));
        let scene = Scene::new(world);
        scene.die_at(point);
        let report = scene.finish();
        assert_eq!(report.outcome, Outcome::Succeeded, "{point}: {report:?}");
        scene.expect_whole_log(&["one", "two"]);
        let session = scene.world.session("1");
        let raw = String::from_utf8(session.raw()).unwrap();
        assert!(
            raw.contains("two") && !raw.contains("stream_event"),
            "{point}: {raw}"
        );
        assert!(!session.file(".raw.kept").exists(), "{point}");
    }
}

#[test]
fn detached_agent_is_adopted_by_the_next_process() {
    let scene = with_hooks();
    let first = scene.spawn();
    scene.wait_for_output();
    std::fs::write(scene.file("detach"), "").unwrap();
    assert_eq!(first.result(), "detached");
    std::fs::remove_file(scene.file("detach")).unwrap();
    assert_eq!(scene.count("after_run"), 0, "it is not over");
    scene.go();
    assert_eq!(scene.finish().outcome, Outcome::Succeeded);
    scene.expect_whole_log(&["one", "two"]);
    let ran = ["agent", "before_run", "verify", "after_run"].map(|name| scene.count(name));
    assert_eq!(ran, [1; 4]);
}

#[test]
fn interrupted_stop_is_finished_by_the_next_process() {
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .script("start; ignore INT,TERM; message one; hang")
        .work("timeout", json!("1s"));
    let scene = Scene::new(world);
    let first = scene.spawn();
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
fn attempt_is_lost_when_its_shim_is_killed_too() {
    let world = World::new(&[("1", "todo")]).agent("codex");
    let root = world.env.root().display().to_string();
    let scene = Scene::new(world.script(&format!(
        "start 01a1ffcd-34e9-78d1-bc6d-b647a491f028; daemonise 100000 clearenv,pid={root}/daemon; pidfile {root}/agent; message one; hang"
    )));
    let first = scene.spawn();
    scene.wait_for_output();
    let shim = scene.steps().iter().find(|step| step["step"] == "shim").unwrap()["shim"]["pid"]
        .as_i64()
        .unwrap();
    first.die();
    let shim = nix::unistd::Pid::from_raw(i32::try_from(shim).unwrap());
    nix::sys::signal::kill(shim, nix::sys::signal::Signal::SIGKILL).unwrap();
    let report = scene.finish();
    assert_eq!(report.outcome, Outcome::Lost, "{report:?}");
    assert!(report.ran && report.proof.is_some(), "{report:?}");
    // The next attempt can resume the conversation.
    let id = report.provider_session_id.as_deref();
    assert_eq!(id, Some("01a1ffcd-34e9-78d1-bc6d-b647a491f028"));
    scene.expect_whole_log(&["one"]);
    scene.world.env.assert_nothing_left();
}

// --- stages beside each other

#[test]
fn parallel_stage_runs_beside_another() {
    let world = World::new(&[("1", "todo")]);
    let root = world.env.root().display().to_string();
    let script = format!("touch {root}/up; wait-file {root}/go; ok");
    let world = world
        .set("/issue/hooks", json!({"after_create": "echo made > made"}))
        .script(&script)
        .stage("beside", "todo", "SCRIPT: unless-file made \"exit 3\"; ok")
        .set("/issue/stages/beside/parallel", json!(true));
    let mut scene = Scene::new(world);
    let first = scene.spawn();
    eventually("the first works", || scene.file("up").exists());
    let alone = scene.start.clone();
    scene.become_another("beside");
    // The first attempt still waits and holds the workspace.
    assert_eq!(scene.finish().outcome, Outcome::Succeeded);
    scene.go();
    first.end();
    scene.start = alone;
    assert_eq!(scene.finish().outcome, Outcome::Succeeded);
    scene.world.env.assert_nothing_left();
}

#[test]
fn trace_record_is_written_once_despite_a_crash_at_any_point() {
    let points = [
        "base_taken",
        "agent_ended",
        "changes_found",
        "trace_appended",
        "changes_traced",
        "verify_ended",
    ];
    for point in points {
        let world = World::new(&[("1", "todo")]).agent("codex");
        let hook = json!("echo hook >> by-hook; echo hook >> changed");
        let world = world
            .script("append changed agent\\n; ok")
            .work("hooks", json!({"before_run": hook, "after_run": hook}))
            .work("verify", hook);
        let scene = Scene::new(world);
        scene.die_at(point);
        assert_eq!(scene.finish().outcome, Outcome::Succeeded, "{point}");
        scene.finish();
        let trace = std::fs::read_to_string(scene.world.home().join("trace/trace.jsonl")).unwrap();
        assert_eq!(trace.lines().count(), 1, "{point}: {trace}");
        let record: Value = serde_json::from_str(trace.trim_end()).unwrap();
        let changes = record["metadata"]["dev.vik"]["changes"].as_array().unwrap();
        assert_eq!(changes.len(), 1, "{point}: {changes:?}");
        assert_eq!(changes[0]["path"], "changed");
        assert_eq!(
            changes[0]["hunks"],
            json!([{"old": {"start": 2, "count": 0}, "new": {"start": 2, "count": 1}}])
        );
        assert!(!scene.world.session("1").file(".base.json").exists(), "{point}");
    }
}
