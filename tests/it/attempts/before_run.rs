//! How `before_run` fails, and what the result says about another attempt.

use std::time::Duration;

use serde_json::json;
use vik_core::attempt::{AttemptResult, BeforeRunFailure};
use vik_core::outcome::{FailureClass, Outcome};

use super::scene::Scene;
use crate::support::*;

fn try_later(seconds: u64) -> Option<BeforeRunFailure> {
    Some(BeforeRunFailure::TryLater {
        wait: Duration::from_secs(seconds),
    })
}

fn scene(before_run: &str) -> Scene {
    let world = World::new(&[("1", "todo")]).agent("codex").script("ok");
    Scene::new(world.work("hooks", json!({"before_run": before_run, "timeout": "1s"})))
}

#[test]
fn failure_states_whether_and_when_the_hook_is_tried_again() {
    let failed = Some(BeforeRunFailure::Failed);
    for (script, expected) in [
        ("exit 1", failed),
        ("kill -9 $$", failed),
        ("echo retry-after: 30; sleep 600", failed),
        ("echo busy; exit 75", try_later(0)),
        ("echo retry-after: 30; echo busy; exit 1", try_later(30)),
        ("echo retry-after: 30 >&2; exit 75", try_later(30)),
        ("printf 'Retry-After: 30\\r\\n'; seq 1 30; exit 1", try_later(30)),
        // The hook cannot be rendered, so it would fail again.
        ("cat <<END\n{{ issue.title }}\nEND", None),
    ] {
        let scene = scene(script);
        let report = scene.finish();
        assert_eq!(
            (report.outcome, report.failure_class, report.ran),
            (Outcome::Failed, Some(FailureClass::Hook), false),
            "{script}: {report:?}"
        );
        assert_eq!(report.before_run, expected, "{script}: {report:?}");
        scene.world.env.assert_nothing_left();
    }
}

#[test]
fn prompt_and_other_hooks_are_not_tried_later() {
    let world = World::new(&[("1", "todo")]);
    let scene = Scene::new(world.work("prompt", json!("`exec(exit 75)`")));
    let report = scene.finish();
    assert_eq!(
        (report.failure_class, report.before_run),
        (Some(FailureClass::Hook), None)
    );
    let world = World::new(&[("1", "todo")]);
    let scene = Scene::new(world.set("/issue/hooks", json!({"after_create": "exit 75"})));
    let report = scene.finish();
    assert_eq!((report.preparing, report.before_run), (true, None));
}

#[test]
fn feedback_waits_for_the_attempt_that_has_an_agent() {
    for script in ["exit 1", "exit 75"] {
        let mut scene = scene(script);
        scene.start.previous = Some(AttemptResult {
            feedback: Some("a test fails".to_owned()),
            ..AttemptResult::new(Outcome::Failed)
        });
        assert_eq!(
            scene.finish().feedback.as_deref(),
            Some("a test fails"),
            "{script}"
        );
    }
}

#[test]
fn failure_survives_a_crash_after_the_hook() {
    let root = "{{ workflow_dir }}";
    let scene = scene(&format!(
        "echo ran >> {root}/../hook; echo retry-after: 30; exit 75"
    ));
    scene.die_at("before_run_ended");
    let report = scene.finish();
    assert_eq!((report.before_run, scene.count("hook")), (try_later(30), 1));
    assert_eq!(scene.finish(), report);
    scene.world.env.assert_nothing_left();
}
