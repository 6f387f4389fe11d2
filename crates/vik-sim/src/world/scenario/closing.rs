//! Issues that are closed, and their workspaces.

use super::*;

/// One stage and a `show` command; workspaces of finished issues are always removed.
fn limited() -> Scenario {
    with_show("remove_workspace: always\n  limits: { attempts: 3 }")
}

impl Scenario {
    /// Has an attempt start after its lookup, and end.
    fn attempt(&mut self, report: AttemptResult) -> &mut Self {
        self.pull(&[todo(0)]).shown(Some(Some(todo(0)))).end(report)
    }
}

fn refused() -> AttemptResult {
    failed(FailureClass::Auth)
}

#[test]
fn closed_parked_issue_returns_as_a_new_run() {
    for (restart, is_missing) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = limited();
        world.attempt(refused()).pull(&[todo(0)]);
        assert_eq!(world.parked(), Some(ParkReason::Auth));
        let first = world.starts[0].run;
        if is_missing {
            // The pull returns only open issues.
            assert!(world.pull(&[]).looks_up());
            world.shown(Some((!restart).then(|| done(0))));
        } else {
            world.pull(&[done(0)]);
        }
        assert_eq!(world.parked(), None);
        assert!(world.removes(), "its workspace is removed");
        assert_eq!(world.decisions_of(&DecisionKind::Closed), 1);
        world.removed(true);
        if restart {
            assert_eq!(world.crash().parked(), None, "the ledger has closed it");
        }
        world.pull(&[todo(0)]).shown(Some(Some(todo(0))));
        assert_eq!(world.starts.len(), 2);
        assert_ne!(world.starts[1].run, first);
        world
            .end(refused())
            .pull(&[todo(0)])
            .pull(&[done(0)])
            .removed(true);
        world.attempt(refused());
        // The limit of its whole life holds, however often it is closed.
        world.pull(&[done(0)]).removed(true).pull(&[todo(0)]);
        let parked = Some(ParkReason::IssueLimit);
        assert_eq!((world.starts.len(), world.parked()), (3, parked));
    }
}

#[test]
fn closing_an_issue_frees_no_agent_that_may_still_live() {
    let mut world = limited();
    world.attempt(failed(FailureClass::UnprovenEnd));
    world.pull(&[todo(0)]).pull(&[done(0)]);
    assert_eq!(world.parked(), Some(ParkReason::UnprovenEnd));
    assert!(!world.removes());
    world.pull(&[]).shown(Some(None)).pull(&[]);
    assert_eq!(world.parked(), Some(ParkReason::UnprovenEnd));
    world.pull(&[todo(0)]);
    assert_eq!(world.starts.len(), 1);
}

/// `after_run` closes the issue, and the pull returns only open issues. A pull that started before
/// the end misses the issue first, so the one after the end finds nothing new.
#[test]
fn absent_issue_lookup_at_its_end_removes_the_workspace() {
    for before in [None, Some(Some(todo(0))), Some(Some(done(0)))] {
        let mut world = limited();
        world.pull(&[todo(0)]).shown(Some(Some(todo(0))));
        world.pull(&[]).shown(before.clone());
        world.end(ran(Outcome::Succeeded)).pull(&[]);
        let removed = world.removes();
        assert!(world.looks_up(), "the effect of the attempt is looked up");
        world.shown(Some(Some(done(0))));
        assert!(removed || world.removes(), "{before:?}");
    }
}

#[test]
fn absent_issue_lookup_is_repeated_after_growing_waits() {
    let mut world = limited();
    world.attempt(refused()).pull(&[todo(0)]);
    // It leaves the pull, and is closed later.
    world.pull(&[]).shown(Some(Some(todo(0))));
    let mut lookups = 0;
    for _ in 0..720 {
        if world.wait(5).pull(&[]).looks_up() {
            lookups += 1;
            world.shown(None);
        }
    }
    assert!((5..=12).contains(&lookups), "{lookups} lookups in an hour");
    assert!(world.wait(3_600).pull(&[]).looks_up());
    world.shown(Some(Some(done(0))));
    assert_eq!(world.parked(), None);
    assert!(!world.wait(7_200).pull(&[]).looks_up(), "nothing of it is left");
}

#[test]
fn terminal_issue_gets_its_grace_and_loses_its_workspace() {
    let mut world = scenario("", "terminal_grace: 60s", "");
    for _ in 0..2 {
        // The grace starts again when the issue is reopened.
        world.pull(&[todo(0)]).pull(&[done(0)]).wait(59);
        assert!(world.stops().is_empty());
    }
    assert_eq!(world.wait(1).stops(), [StopReason::Terminal]);
    assert!(!world.end(ran(Outcome::Cancelled)).removes());
    assert!(world.pull(&[done(0)]).removes());
    assert!(!world.pull(&[done(0)]).removes(), "requested once");
    assert!(!world.removed(false).pull(&[done(0)]).removes());
    assert!(
        world.pull(&[titled(done(0), 1)]).removes(),
        "it is another issue now"
    );
}

#[test]
fn workspace_of_an_issue_closed_meanwhile_is_removed_at_boot() {
    let text = scenario("", "", "").text;
    let mut world = Scenario::with(&text, ISSUES, [0, 1]);
    assert!(world.scheduler().wanted().known.contains_key(&id(0)));
    assert!(world.pull(&[done(0)]).removes());
}

#[test]
fn edit_removes_the_workspaces_of_absent_issues() {
    // The tracker no longer has the issue, and the workflow kept its workspace.
    let mut world = limited();
    world.edit("remove_workspace: always", "remove_workspace: never");
    world.attempt(refused()).pull(&[]).shown(Some(None)).pull(&[]);
    assert!(!world.removes());
    world.edit("remove_workspace: never", "remove_workspace: always");
    assert!(world.removes());

    // The pull does not return the issue, and its state was not terminal.
    let mut world = limited();
    world.edit("terminal_states: [done]", "terminal_states: [closed]");
    world
        .attempt(ran(Outcome::Succeeded))
        .pull(&[done(0)])
        .pull(&[])
        .shown(Some(Some(done(0))));
    assert!(!world.removes());
    world.edit("terminal_states: [closed]", "terminal_states: [done]");
    assert!(world.removes());
}
