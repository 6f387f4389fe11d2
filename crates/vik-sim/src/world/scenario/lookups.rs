//! Lookups with the `show` command.

use super::*;

#[test]
fn lookup_runs_right_before_the_start() {
    let mut world = with_show("");
    world.pull(&[todo(0)]);
    assert!(world.looks_up() && world.starts.is_empty());
    assert_eq!(world.hold(0), Some(Hold::LookupPending));
    world.shown(Some(Some(later(0))));
    assert_eq!(world.starts.len(), 0, "it moved");
    world.pull(&[todo(0)]).shown(None);
    assert_eq!(world.hold(0), Some(Hold::LookupFailed));
    assert!(!world.wait(9).looks_up());
    world.pull(&[todo(0)]).shown(Some(Some(todo(0))));
    assert_eq!(world.starts.len(), 1);
    // Absent from the pull, and missing.
    assert!(world.pull(&[]).looks_up());
    world.shown(Some(None)).wait(60);
    assert_eq!(world.stops(), [StopReason::Missing]);
    world.end(ran(Outcome::Cancelled)).pull(&[]);
    assert!(world.removes());
}

#[test]
fn repeated_lookup_result_is_recorded_once() {
    let mut world = with_show("");
    for _ in 0..3 {
        world.pull(&[todo(0)]).shown(None).wait(1);
    }
    assert_eq!(world.decisions_of(&DecisionKind::LookupFailed), 1);
    for _ in 0..3 {
        world.pull(&[todo(0)]).shown(Some(None)).wait(1);
        assert_eq!(world.hold(0), Some(Hold::Missing), "the pull does return it");
    }
    assert_eq!(world.decisions_of(&DecisionKind::Missing), 1);
    assert_eq!(world.starts.len(), 0);
    let (_, waiting) = world.scheduler().waiting(world.now(), 9);
    assert_eq!(waiting, 0, "nothing of it will start");
    world.pull(&[todo(0)]).shown(Some(Some(todo(0))));
    assert_eq!(world.starts.len(), 1, "it is back");
}

#[test]
fn blockers_found_by_the_lookup_before_the_start_hold_it() {
    let mut world = two_stages(SHOW);
    assert!(world.pull(&[todo(0)]).looks_up());
    world.shown(Some(Some(blocked(todo(0), &[0]))));
    assert!(world.starts.is_empty());
    assert!(matches!(world.hold_of(0, "plan"), Some(Hold::Cycle { .. })));
}

#[test]
fn absent_blocker_holds_nothing_without_a_show_command() {
    let waits = [blocked(todo(0), &[1])];
    let mut world = two_stages(SHOW);
    world.pull(&waits);
    assert!(matches!(world.hold_of(0, "plan"), Some(Hold::Blocked { .. })));
    world.edit(SHOW, "").pull(&waits);
    assert_eq!(world.starts.len(), 1);
}
