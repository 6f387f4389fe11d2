//! A disk that is full from the nth commit on: the daemon stops before it acts, and the next one loses nothing.

use super::rig::Rig;
use crate::support::eventually;

#[test]
fn a_full_disk_stops_the_daemon_loudly_and_loses_nothing() {
    let issues = ["1".to_owned()];
    for commit in 1.. {
        let rig = Rig::new(&[("1", "todo")], 20);
        let mut command = rig.command(&["run", "--once"]);
        command.env("VIK_DISK_FULL_AT_COMMIT", commit.to_string());
        let done = rig.world.start_command(command).done();
        if done.code == 0 {
            assert!(commit > 2, "a claim and its end are two commits");
            break;
        }
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.err.contains("disk") || done.err.contains("full"), "{done:?}");
        let state = std::fs::read_to_string(rig.world.home().join("service/state.json")).unwrap();
        assert!(state.contains("failed"), "{state}");
        eventually("a foreground daemon's agents have no grace", || {
            rig.world.env.leftovers().is_empty()
        });
        rig.up();
        rig.settle(&issues);
        rig.check(&issues);
    }
}
