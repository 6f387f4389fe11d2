//! `kill -9` of the daemon while a person sends a message.

use vik_base::failpoint::SEND_POINTS;

use super::rig::{Rig, Target};
use crate::support::eventually;

#[test]
fn message_is_neither_lost_nor_doubled_when_the_daemon_dies() {
    for point in SEND_POINTS {
        let rig = Rig::new(&[("1", "todo")], 3000);
        let waiting = || {
            let listed = rig.world.vik(&["message", "1", "--list", "--json"]);
            listed.expect(0).json()["messages"].as_array().unwrap().clone()
        };
        rig.up();
        eventually("the agent runs", || rig.starts() == 1);
        rig.arm(point);
        let sending = rig.world.start(&["message", "1", "hello"]);
        rig.wait_for(point);
        rig.kill(Target::Daemon);
        rig.resume(point);
        let sent = sending.done();
        assert_ne!(sent.code, 0, "nobody confirmed it: {}", sent.out);
        // Without a daemon, the ledger has it or not.
        let expected = usize::from(*point == "message_committed");
        assert_eq!(waiting().len(), expected, "{point}");
        rig.up();
        let again = waiting();
        assert_eq!(again.len(), expected, "{point}");
        for message in again {
            assert_eq!(message["text"], "hello");
            assert!(
                !message["session_id"].is_null(),
                "the recovered attempt has it: {message}"
            );
        }
        rig.world.vik(&["stop"]).expect(0);
        rig.world.env.assert_nothing_left();
    }
}
