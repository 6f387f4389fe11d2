//! `kill -9` of the daemon while an attempt ends with a question.

use serde_json::json;

use super::rig::{Rig, Target};
use crate::questions::{asked, asking};

/// The points between the end of an agent and the end of its attempt.
const POINTS: [&str; 6] = [
    "agent_ended",
    "changes_traced",
    "questions_read",
    "log_ended",
    "reported",
    "end_committed",
];

#[test]
fn question_is_asked_once_when_the_daemon_dies() {
    for point in POINTS {
        let rig = Rig::around(asking().attempts(1));
        let world = &rig.world;
        rig.world.arm(point);
        rig.up();
        rig.kill_at(point, Target::Daemon);
        rig.up();
        assert_eq!(asked(world)["choices"], json!(["old", "new"]), "{point}");
        world.vik(&["answer", "1", "--choice", "2"]).expect(0);
        world.wait_for_state("1", "done");
        world.vik(&["stop"]).expect(0);
        world.env.assert_nothing_left();
        let [first, second] = &world.sessions("1")[..] else {
            panic!("{point}: {:?}", world.runs());
        };
        first.expect("asked", None);
        assert_eq!(first.of_kind("question").len(), 1, "{point}");
        assert_eq!(second.of_kind("answer").len(), 1, "{point}");
    }
}
