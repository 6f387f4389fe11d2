//! The lease of a worker on an attempt: when it is lost, the attempt ends at once.

use std::time::{Duration, Instant};

use serde_json::json;
use vik_core::attempt::AttemptResult;
use vik_core::outcome::Outcome;

use super::scene::{AttemptProcess, Scene};
use crate::support::*;

/// The steps of an attempt that leave a trace, in their order.
const STEPS: [&str; 6] = ["before_run", "prompt", "agent", "verify", "output", "after_run"];

/// A lease that a test does not wait for.
const LONG_LEASE: Duration = Duration::from_secs(300);
/// A lease that a test waits for.
const SHORT_LEASE: Duration = Duration::from_millis(300);
/// The longest lease that has to be renewed in time, on a very busy machine.
const MAX_LEASE: Duration = Duration::from_secs(20);

/// Returns an attempt with a lease, whose steps count their runs. The step `hanging` writes its pid to
/// the file `up`, ignores all signals of the stop ladder, and hangs; an agent prints `two` when there is
/// a file `report`.
fn scene_that_hangs_in(hanging: &str) -> Scene {
    let world = World::new(&[("1", "todo")]).agent("codex");
    let root = world.env.root().display().to_string();
    let script = |step: &str| {
        let count = format!("echo ran >> {root}/{step}");
        if step == hanging {
            let hang = format!("echo $$ > {root}/pid && mv {root}/pid {root}/up");
            format!("trap '' INT TERM; {count}; {hang}; while :; do sleep 0.02; done")
        } else {
            count
        }
    };
    let request = world
        .env
        .write("request", "{\"kind\":\"comment\",\"body\":\"Done.\"}\n");
    let request = format!("run cat {} >> \"$VIK_OUTPUTS\"", request.display());
    let hang = match hanging {
        "agent" => {
            let report = format!("wait-file {root}/report {}; message two", LONG_LEASE.as_millis());
            format!("ignore INT,TERM; pidfile {root}/up; {report}; hang; ")
        }
        _ => String::new(),
    };
    let agent = format!("append {root}/agent ran\\n; start; message one; {hang}{request}; done");
    let prompt = format!("SCRIPT: {agent}\n\n`exec({})`\n", script("prompt"));
    let world = world
        // Without sockets, which could reach what carries out outputs.
        .set("/agents/a/sandbox", json!({"write": [root], "read": [root]}))
        .work("prompt", json!(prompt))
        .work(
            "hooks",
            json!({"before_run": script("before_run"), "after_run": script("after_run")}),
        )
        .work("verify", json!(script("verify")))
        .work("outputs", json!({"comment": {"run": script("output")}}));
    let scene = Scene::new(world);
    scene.lease(LONG_LEASE);
    scene
}

impl Scene {
    /// Asserts that the steps of the attempt have run once up to the step `last`, and the others not.
    #[track_caller]
    fn expect_steps_up_to(&self, last: Option<&str>) {
        let count = last.map_or(0, |last| STEPS.iter().position(|step| *step == last).unwrap() + 1);
        let expected: Vec<_> = (0..STEPS.len()).map(|at| usize::from(at < count)).collect();
        let ran: Vec<_> = STEPS.iter().map(|step| self.count(step)).collect();
        assert_eq!(ran, expected, "{last:?}");
    }

    /// Asserts that the journal has no success of this script.
    #[track_caller]
    fn expect_no_success_of(&self, script: &str) {
        let steps = self.steps();
        let mut ends = steps.iter().filter(|step| step["step"] == "finished");
        assert!(ends.all(|end| end["script"] != script), "{script}: {steps:?}");
    }

    fn wait_until_it_hangs(&self, step: &str) {
        eventually(&format!("{step} hangs"), || self.count("up") == 1);
    }

    /// Returns whether the process of the step that hangs exists.
    fn hangs(&self) -> bool {
        let pid = std::fs::read_to_string(self.file("up")).unwrap();
        std::fs::exists(format!("/proc/{}", pid.trim())).unwrap()
    }

    fn wait_until_it_is_killed(&self, step: &str) {
        eventually(&format!("{step} is killed"), || !self.hangs());
    }
}

/// Waits for longer than a lease.
fn outlive(lease: Duration) {
    let started = Instant::now();
    eventually("a lease ends", || started.elapsed() > lease);
}

#[track_caller]
fn expect_lost(process: AttemptProcess, context: &str) -> AttemptResult {
    let result = process.report();
    assert_eq!(result.outcome, Outcome::Lost, "{context}: {result:?}");
    assert_eq!(result.failure_class, None, "{context}: {result:?}");
    assert_contains(result.reason.as_deref().unwrap_or_default(), "lease");
    result
}

#[test]
fn no_step_follows_the_loss_of_a_lease() {
    // The point at which the lease is lost, and the last step before it.
    for (point, last) in [
        ("begun", None),
        ("locked", None),
        ("workspace_ready", None),
        ("before_run_started", None),
        ("before_run_ended", Some("before_run")),
        ("prompt_ready", Some("prompt")),
        ("base_taken", Some("prompt")),
        ("agent_ended", Some("agent")),
        ("outputs_taken", Some("agent")),
        ("verify_ended", Some("verify")),
        ("output_applying", Some("verify")),
        ("output_ran", Some("output")),
        ("output_applied", Some("output")),
        ("log_ended", Some("output")),
        ("after_run_started", Some("output")),
        ("after_run_ended", Some("after_run")),
    ] {
        let scene = scene_that_hangs_in("none");
        scene.world.arm(point);
        let process = scene.spawn();
        scene.world.wait_for_point(point);
        // The attempt waits at the point until it is left, but its lease does not.
        process.resume();
        scene.end_lease();
        scene.world.leave_point(point);
        expect_lost(process, point);
        scene.expect_steps_up_to(last);
        if let Some(script) = point.strip_suffix("_started") {
            scene.expect_no_success_of(script);
        }
        scene.world.env.assert_nothing_left();
    }
}

#[test]
fn lost_lease_kills_the_step_that_runs() {
    for step in STEPS {
        let scene = scene_that_hangs_in(step);
        let process = scene.spawn();
        scene.wait_until_it_hangs(step);
        scene.end_lease();
        expect_lost(process, step);
        scene.expect_steps_up_to(Some(step));
        scene.expect_no_success_of(step);
        scene.world.env.assert_nothing_left();
    }
}

#[test]
fn step_of_a_frozen_worker_ends_with_the_lease() {
    for step in ["before_run", "agent", "output"] {
        let scene = scene_that_hangs_in(step);
        let process = scene.spawn();
        scene.wait_until_it_hangs(step);
        scene.freeze(&process, SHORT_LEASE);
        scene.wait_until_it_is_killed(step);
        process.resume();
        expect_lost(process, step);
        scene.expect_steps_up_to(Some(step));
        scene.expect_no_success_of(step);
        scene.world.env.assert_nothing_left();
    }
}

#[test]
fn step_of_a_killed_worker_ends_with_the_lease() {
    for step in ["before_run", "agent", "output"] {
        let scene = scene_that_hangs_in(step);
        let process = scene.spawn();
        scene.wait_until_it_hangs(step);
        scene.freeze(&process, SHORT_LEASE);
        process.die();
        scene.wait_until_it_is_killed(step);
        // A worker that starts again has no lease on the attempt.
        std::fs::write(scene.file("lease-end"), "").unwrap();
        expect_lost(scene.spawn(), step);
        scene.expect_steps_up_to(Some(step));
        scene.world.env.assert_nothing_left();
    }
}

#[test]
fn recovered_agent_is_killed_when_the_lease_is_lost() {
    for is_lost in [true, false] {
        let scene = scene_that_hangs_in("agent");
        let first = scene.spawn();
        scene.wait_until_it_hangs("agent");
        first.die();
        if is_lost {
            std::fs::write(scene.file("lease-end"), "").unwrap();
        }
        let second = scene.spawn();
        if !is_lost {
            std::fs::write(scene.file("report"), "").unwrap();
            eventually("the agent is recovered", || {
                scene.world.session("1").text(".jsonl").contains("two")
            });
            scene.end_lease();
        }
        let result = expect_lost(second, "agent");
        assert!(result.ran, "{result:?}");
        scene.expect_steps_up_to(Some("agent"));
        scene.world.env.assert_nothing_left();
    }
}

#[test]
fn renewed_lease_keeps_the_attempt() {
    let mut length = SHORT_LEASE;
    while !is_kept_by_renewals(length) {
        length *= 2;
        assert!(length < MAX_LEASE, "it is not renewed");
    }
}

/// Returns whether an attempt, whose hook and agent take longer than the lease, is not lost.
fn is_kept_by_renewals(lease: Duration) -> bool {
    let world = World::new(&[("1", "todo")]).agent("codex");
    let root = world.env.root().display().to_string();
    let wait = format!("touch {root}/waits; while [ ! -e {root}/go ]; do sleep 0.02; done; rm {root}/go");
    let world = world
        .script(&format!("start; touch {root}/starts; wait-file {root}/go; done"))
        .work(
            "hooks",
            json!({"before_run": wait, "after_run": format!("echo ran >> {root}/after_run")}),
        );
    let scene = Scene::new(world);
    scene.lease(lease);
    let process = scene.spawn();
    for step in ["waits", "starts"] {
        eventually(&format!("it {step}"), || {
            scene.file(step).exists() || process.has_ended()
        });
        outlive(lease);
        scene.go();
    }
    let result = process.report();
    if result.outcome == Outcome::Lost {
        return false;
    }
    assert_eq!(result.outcome, Outcome::Succeeded, "{result:?}");
    assert_eq!(scene.count("after_run"), 1);
    scene.world.env.assert_nothing_left();
    true
}
