//! Issues that wait for others.

use super::*;

#[test]
fn dependents_name_the_parked_issue_at_the_root() {
    let chain = [
        todo(0),
        blocked(todo(1), &[0]),
        blocked(todo(2), &[1]),
        blocked(later(3), &[2]),
        blocked(todo(4), &[3, 1]),
    ];
    let mut world = scenario("", "", "");
    world.pull(&chain);
    assert!(matches!(world.hold(1), Some(Hold::Blocked { root: None, .. })));
    world.end(failed(FailureClass::Auth)).pull(&chain);
    for issue in [1, 2, 4] {
        let Some(Hold::Blocked { root: Some(root), .. }) = world.hold(issue) else {
            panic!("{issue}: {:?}", world.hold(issue));
        };
        assert_eq!((root.issue, root.reason), (id(0), ParkReason::Auth));
    }
    let dependents = [1, 2, 4].map(id);
    assert_eq!(
        world.scheduler().dependents(&id(0)),
        dependents,
        "over other issues too"
    );
    let stored = &world.world.disk.machines;
    assert!(
        dependents.iter().all(|id| stored.contains_key(id)),
        "without a daemon, the ledger knows which issues wait"
    );
}

#[test]
fn stage_waits_for_the_one_before_it_and_explain_names_it() {
    let mut world = two_stages("");
    world.pressure(Some("memory")).pull(&[todo(0)]);
    assert!(matches!(world.hold_of(0, "plan"), Some(Hold::Pressure { .. })));
    let behind = Hold::OtherStage { stage: "plan".into() };
    assert_eq!(world.hold_of(0, "code"), Some(behind));
}

#[test]
fn state_reopened_by_an_edit_blocks_at_once() {
    let mut world = two_stages("");
    world.pressure(Some("memory"));
    world.pull(&[blocked(todo(0), &[1]), done(1)]);
    world.edit("terminal_states: [done]", "terminal_states: []");
    world.pressure(None);
    assert!(world.starts.is_empty());
    assert!(matches!(world.hold_of(0, "plan"), Some(Hold::Blocked { .. })));
}
