//! Turns in the process of an attempt: granted after a pull, and refused without one.

use std::time::Duration;

use super::scene::{Scene, SceneBuilder};
use super::world::Script;

const SECOND: Duration = Duration::from_secs(1);

fn running() -> Scene {
    let builder = SceneBuilder {
        stage: "turns: { max: 3 }",
        ..SceneBuilder::default()
    };
    let mut scene = builder.start(&[("a", None)], &[Script::Runs]);
    scene.pass(10 * SECOND);
    scene
}

/// Returns the turn that was granted after this one, once anything is decided.
fn granted(scene: &Scene, turn: u32) -> Option<Option<u32>> {
    let decision = scene.world().turn_decision("a", turn)?;
    Some(decision.granted.map(|granted| granted.turn))
}

#[test]
fn turn_is_granted_after_a_pull_up_to_the_maximum() {
    let mut scene = running();
    for turn in 1..=3 {
        let pulls = scene.world().pulls;
        scene.world().end_turn("a", turn);
        scene.pass(SECOND);
        assert_eq!(granted(&scene, turn), Some((turn < 3).then_some(turn + 1)));
        assert!(scene.world().pulls > pulls, "it pulls at once");
    }
}

#[test]
fn turn_is_refused_after_a_bounded_time_if_pulls_fail() {
    let mut scene = running();
    scene.world().failing_pulls.extend([1000 * SECOND; 3]);
    scene.pass(5 * SECOND);
    scene.world().end_turn("a", 1);
    scene.pass(SECOND);
    assert_eq!(granted(&scene, 1), None);
    scene.pass(300 * SECOND);
    assert_eq!(granted(&scene, 1), Some(None));
}
