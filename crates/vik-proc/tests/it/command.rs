//! Short commands.

use std::future::{pending, ready};
use std::time::Duration;

use vik_proc::{Cause, CommandRun, Limits, Output, ShimSpec};

use crate::support::*;

const LIMITS: Limits = Limits {
    timeout: LONG,
    max_bytes: 1_000_000,
};

fn command(scene: &Scene, args: &str) -> ShimSpec {
    let mut spec = scene.spec(args);
    spec.stdout = Output::Inherit;
    spec
}

/// Runs a command to its end.
async fn output_of(scene: &Scene, spec: &ShimSpec, limits: Limits) -> CommandRun {
    within(scene.supervisor.output(spec, limits, pending()))
        .await
        .unwrap()
}

#[tokio::test]
async fn output_returns_stdout_and_exit_code() {
    let scene = Scene::new();
    let run = output_of(&scene, &command(&scene, "say hello exit 3"), LIMITS).await;
    assert_eq!((&run.stdout[..], run.exit.code), (&b"hello\n"[..], Some(3)));
    assert!(!run.is_success() && !run.timed_out && !run.flooded && !run.cancelled);
    let run = output_of(&scene, &command(&scene, "bytes 999999"), LIMITS).await;
    assert_eq!(run.stdout.len(), LIMITS.max_bytes);
    assert!(run.is_success());
}

#[tokio::test]
async fn flood_of_output_is_cut_and_killed() {
    let scene = Scene::new();
    let run = output_of(&scene, &command(&scene, "flood"), LIMITS).await;
    assert_eq!(
        (run.stdout.len(), run.flooded, run.exit.cause),
        (LIMITS.max_bytes, true, Cause::Killed)
    );
    scene.assert_nothing_left();
}

#[tokio::test]
async fn flood_into_a_file_does_not_fill_the_disk() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let mut spec = command(&scene, "flood");
    spec.stdout = Output::Append(folder.path().join("output"));
    let run = output_of(&scene, &spec, LIMITS).await;
    assert!(run.flooded && !run.is_success());
    assert_eq!(run.exit.cause, Cause::Killed);
    scene.assert_nothing_left();
}

#[tokio::test]
async fn hanging_command_is_stopped_with_its_children() {
    let scene = Scene::new();
    let mut spec = command(&scene, "say part also s 4 ignore SIGINT ready @tool hang hang");
    spec.graces.term = SHORT;
    let limits = Limits {
        timeout: Duration::from_millis(300),
        ..LIMITS
    };
    let run = output_of(&scene, &spec, limits).await;
    assert!(run.timed_out && !run.is_success());
    assert_eq!(
        (&run.stdout[..], run.exit.cause),
        (&b"part\n"[..], Cause::Stopped)
    );
    scene.assert_nothing_left();
}

#[tokio::test]
async fn command_can_be_cancelled_by_its_caller() {
    let scene = Scene::new();
    let run = within(
        scene
            .supervisor
            .output(&command(&scene, "hang"), LIMITS, ready(())),
    )
    .await
    .unwrap();
    assert!(run.cancelled && !run.timed_out);
    scene.assert_nothing_left();
}

#[tokio::test]
async fn leftover_on_the_pipe_does_not_delay_the_command() {
    let scene = Scene::new();
    let spec = command(&scene, "also sd 3 ready @tool hang say done");
    let run = output_of(&scene, &spec, LIMITS).await;
    assert_eq!(&run.stdout[..], b"done\n");
    assert!(run.is_success());
    scene.assert_nothing_left();
}

#[tokio::test]
async fn missing_command_is_a_spawn_error() {
    let scene = Scene::new();
    let spec = ShimSpec::command("no-such-command", scene.folder.path());
    let run = output_of(&scene, &spec, LIMITS).await;
    assert!(run.exit.spawn_error.is_some() && !run.is_success() && !run.timed_out);
}
