//! `kill -9` of the daemon, the shims, the agents or all of them, at each named point.

use vik_base::failpoint::POINTS;

use super::rig::{Rig, Target};

/// Points at which the attempt has an agent.
const WITH_AGENT: [&str; 1] = ["agent_started"];

fn every_point(target: Target) {
    let issues = ["1".to_owned()];
    for point in POINTS {
        let rig = Rig::new(&[("1", "todo")], 60);
        rig.world.arm(point);
        rig.up();
        rig.kill_at(point, target);
        if target.hits_daemon() {
            rig.up();
        }
        rig.settle(&issues);
        rig.check(&issues);
        let starts = rig.starts();
        // Only a kill of the agent, or of its shim, costs a second agent.
        let max_starts = match target {
            Target::Daemon => 1,
            _ => 2,
        };
        assert!(
            (1..=max_starts).contains(&starts),
            "{target:?} at {point}: {starts} agents"
        );
        if target == Target::Agents && WITH_AGENT.contains(point) {
            // The first agent may have died before it could record its start.
            let attempts = rig.world.sessions("1").len();
            assert_eq!(
                attempts,
                2,
                "the agent was killed at {point}: {:#?}",
                rig.world.runs()
            );
        }
        for hook in ["before_run", "verify", "after_run"] {
            let between = format!("{hook}_started");
            let twice = rig.hook_starts(hook).values().any(|&count| count > 1);
            // A kill of the hook itself can fall between its records, too.
            assert!(
                !twice || between == *point || target != Target::Daemon,
                "{hook} ran twice after a blow at {point}"
            );
        }
    }
}

#[test]
fn daemon_killed_at_every_point_recovers() {
    every_point(Target::Daemon);
}

#[test]
fn shims_killed_at_every_point_recover() {
    every_point(Target::Shims);
}

#[test]
fn agents_killed_at_every_point_recover() {
    every_point(Target::Agents);
}

#[test]
fn daemon_and_shims_killed_at_every_point_recover() {
    every_point(Target::DaemonAndShims);
}

#[test]
fn all_processes_killed_at_every_point_recover() {
    every_point(Target::All);
}
