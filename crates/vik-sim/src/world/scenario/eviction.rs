//! Issues that only the ledger has, and that come back.

use vik_core::scheduler::{LookupResult, Recalled};

use super::*;

/// One stage of which an issue may have three attempts in its life; workspaces are kept, so that
/// nothing but the issue itself can keep it in memory.
fn limited() -> Scenario {
    scenario("", "remove_workspace: never\n  limits: { attempts: 3 }", "")
}

impl Scenario {
    fn in_memory(&self, issue: usize) -> bool {
        self.scheduler().machine(&id(issue)).is_some()
    }
}

#[test]
fn evicted_issue_returns_with_its_limits() {
    for (restart, is_listed) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut world = limited();
        for attempt in 1..=3 {
            world.pull(&[todo(0)]);
            assert_eq!((world.starts.len(), world.parked()), (attempt, None));
            world.end(ran(Outcome::Failed));
            // The workflow charges an estimate for what the attempt did not report.
            let life = world.scheduler().life(&id(0));
            assert_eq!(u64::from(life.attempts), attempt as u64);
            assert_eq!(life.estimated, life.spend);
            assert_eq!(life.spend.usd.0, 500_000 * attempt as u64);
            if is_listed {
                world.pull(&[later(0)]);
            } else {
                world.pull(&[later(0)]).pull(&[]);
            }
            assert!(!world.in_memory(0), "only the ledger has it");
            if restart {
                world.crash();
                assert!(!world.in_memory(0), "a restart does not load it");
            }
        }
        world.pull(&[todo(0)]);
        let parked = Some(ParkReason::IssueLimit);
        assert_eq!((world.starts.len(), world.parked()), (3, parked));
    }
}

#[test]
fn parked_issue_stays_in_memory_while_no_pull_lists_it() {
    for restart in [false, true] {
        let mut world = scenario("", "remove_workspace: never", "");
        world.attempted(failed(FailureClass::Auth));
        assert_eq!(world.parked(), Some(ParkReason::Auth));
        world.pull(&[]).pull(&[]);
        if restart {
            world.crash();
        }
        world.pull(&[]).pull(&[todo(0)]);
        assert_eq!((world.starts.len(), world.parked()), (1, Some(ParkReason::Auth)));
    }
}

#[test]
fn issue_is_not_added_before_the_ledger_was_asked() {
    let mut world = limited();
    world.pull(&[todo(0)]).end(ran(Outcome::Failed)).pull(&[later(0)]);
    let issues = vec![todo(0).parsed().unwrap(), todo(1).parsed().unwrap()];
    let recalled = Recalled::new([id(1)], Vec::new());
    world.pull_starts().run(|world| {
        world.oracle.sees([Arc::new(todo(0)), Arc::new(todo(1))].into());
        world.send(Input::Pulled { issues, recalled })
    });
    assert!(!world.in_memory(0));
    assert_eq!(world.starts.len(), 2, "the other issue starts");
    assert!(world.effects.iter().any(|effect| matches!(effect, Effect::Pull)));
    assert!(!world.scheduler().can_skip_unchanged_pull());
    world.pull(&[todo(0), todo(1)]);
    assert_eq!(world.starts.len(), 3);
    assert_eq!(world.scheduler().life(&id(0)).attempts, 1);
}

/// The workspace of an issue that was evicted is removed after an edit, for which it is looked up.
#[test]
fn lookup_of_an_evicted_issue_recalls_it() {
    let mut world = limited();
    world
        .pull(&[todo(0)])
        .end(ran(Outcome::Failed))
        .pull(&[later(0)])
        .pull(&[]);
    assert!(!world.in_memory(0));
    world.edit("command: list }", "command: list }, show: { command: look }");
    world.edit("remove_workspace: never", "remove_workspace: always");
    // The ledger was not asked: nothing is added.
    world.send(Input::LookupFinished {
        issue: id(0),
        result: LookupResult::Snapshot(Box::new(later(0).parsed().unwrap())),
        recalled: Recalled::default(),
    });
    assert!(!world.in_memory(0));
    world.pull(&[]).wait(10);
    assert!(world.pull(&[]).looks_up());
    world.shown(Some(Some(later(0))));
    assert_eq!(world.scheduler().life(&id(0)).attempts, 1);
    assert!(!world.removes());
    world.wait(10);
    assert!(world.pull(&[]).looks_up());
    assert!(world.shown(Some(Some(done(0)))).removes());
}

/// Returns the size of everything that the scheduler keeps, as text.
fn size(world: &Scenario) -> usize {
    format!("{:?}", world.scheduler()).len()
}

/// What is done with must leave nothing in memory, in whatever way it ended.
#[test]
fn past_issues_take_no_memory() {
    let text = "issues: { pull: { command: list }, show: { command: look } }
agents: { a: { runtime: codex, model: m } }
issue:
  terminal_states: [done]
  remove_workspace: always
  stages: { work: { when: { state: todo }, agent: a, prompt: p } }
";
    const ROUND: usize = 12;
    let mut world = Scenario::with(text, 6 * ROUND, []);
    let mut sizes = Vec::new();
    for round in 0..6 {
        for issue in round * ROUND..(round + 1) * ROUND {
            let shown = |world: &mut Scenario, item| {
                world.run(|world| world.finish_lookup(id(issue), issue, item, "scripted").map(drop));
            };
            world.pull(&[todo(issue)]);
            if issue % 4 == 1 {
                shown(&mut world, None);
                world.pull(&[todo(issue)]);
            }
            shown(&mut world, Some(Some(Arc::new(todo(issue)))));
            let report = match issue % 3 {
                0 => ran(Outcome::Succeeded),
                1 => ran(Outcome::Failed),
                _ => failed(FailureClass::Auth),
            };
            world.end(report);
            if issue % 2 == 0 {
                world.pull(&[todo(issue)]).pull(&[done(issue)]);
            } else {
                world.pull(&[]);
                let found = if issue % 4 == 1 {
                    None
                } else {
                    Some(Arc::new(done(issue)))
                };
                shown(&mut world, Some(found));
            }
            if issue % 6 == 0 {
                let kept = Input::WorkspaceRemoved {
                    issue: id(issue),
                    removed: false,
                };
                world.send(kept).pull(&[titled(done(issue), 1)]);
            }
            assert!(world.removes(), "{issue}");
            world.send(Input::WorkspaceRemoved {
                issue: id(issue),
                removed: true,
            });
        }
        // The lookups that nobody has answered count as lost.
        world.pass(200);
        world.pull(&[]).pull(&[]);
        assert_eq!(world.scheduler().issues().count(), 0);
        sizes.push(size(&world));
    }
    let (early, late) = (sizes[1], sizes[5]);
    assert!(
        late <= early + 40,
        "only numbers grow: {sizes:?}, {:?}",
        world.scheduler()
    );
}
