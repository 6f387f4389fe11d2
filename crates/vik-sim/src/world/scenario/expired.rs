//! Data that is too old: what is removed, and when.

use vik_core::scheduler::{Expired, RemovalCause};

use super::*;

/// A world whose workspaces are removed only if they are clean, with these further keys of `issue`.
fn world(issue: &str) -> Scenario {
    let text = scenario("", issue, "").text;
    let text = format!("{text}\nretention: {{ ledger: 30d, trace: 30d }}\n");
    Scenario::with(&text, ISSUES, [1])
}

impl Scenario {
    fn finds(&mut self, expired: Expired) -> &mut Self {
        self.send(Input::Expired(expired))
    }

    fn cause(&self) -> Option<RemovalCause> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::RemoveWorkspace(_, cause) => Some(*cause),
            _ => None,
        })
    }

    fn removed_data(&self) -> Option<&Expired> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::RemoveExpired(expired, _) => Some(expired),
            _ => None,
        })
    }
}

#[test]
fn only_unlisted_issues_lose_their_workspace() {
    let unlisted = || Expired::Workspace(id(0));
    let mut world = world("limits: { attempts: 3 }");
    world.finds(Expired::Workspace(id(1)));
    assert_eq!(world.cause(), None, "before the first pull, nothing is known");
    world.attempted(failed(FailureClass::Auth));
    assert_eq!(world.finds(unlisted()).cause(), None, "the pull lists it");
    assert_eq!(world.parked(), Some(ParkReason::Auth));
    world.pull(&[]).finds(unlisted());
    assert_eq!(world.cause(), Some(RemovalCause::Unlisted));
    assert_eq!(world.finds(unlisted()).cause(), None, "it is being removed");
    world.removed(true);
    assert_eq!(world.finds(unlisted()).cause(), None, "it has none");
    // What is parked stays parked, and the issue does not get a fresh life.
    world.pull(&[todo(0)]);
    assert_eq!((world.parked(), world.starts.len()), (Some(ParkReason::Auth), 1));
    assert_eq!(world.scheduler().life(&id(0)).attempts, 1);
    assert_eq!(world.crash().scheduler().life(&id(0)).attempts, 1);
}

#[test]
fn kept_workspace_is_decided_again() {
    let mut world = world("limits: { attempts: 3 }");
    world.pull(&[]);
    for _ in 0..2 {
        world.finds(Expired::Workspace(id(1)));
        assert_eq!(world.cause(), Some(RemovalCause::Unlisted));
        world.run(|world| {
            world.send(Input::WorkspaceRemoved {
                issue: id(1),
                removed: false,
            })
        });
    }
    assert_eq!(world.decisions_of(&DecisionKind::WorkspaceKept), 2);
}

#[test]
fn policy_is_that_of_the_workflow_in_force() {
    for key in ["unlisted: keep", "remove_workspace: never"] {
        let mut world = world(key);
        world.pull(&[]).finds(Expired::Workspace(id(1)));
        assert_eq!(world.cause(), None, "{key}");
    }
    let mut world = world("limits: { attempts: 3 }");
    world.pull(&[]).finds(Expired::History);
    assert_eq!(world.removed_data(), Some(&Expired::History));
    world.edit("ledger: 30d", "ledger: keep").finds(Expired::History);
    assert_eq!(world.removed_data(), None);
}

#[test]
fn issue_that_was_listed_under_another_policy_keeps_its_workspace() {
    let mut world = world("remove_workspace: never");
    // Its workspace is of no use under this policy, so the issue is not in memory.
    world.pull(&[later(1)]).edit("never", "clean");
    world.finds(Expired::Workspace(id(1)));
    assert_eq!(world.cause(), None, "the last pull lists it");
    world.pull(&[later(1)]).finds(Expired::Workspace(id(1)));
    assert_eq!(world.cause(), None, "the pull lists it");
    world.pull(&[]).finds(Expired::Workspace(id(1)));
    assert_eq!(world.cause(), Some(RemovalCause::Unlisted));
}

#[test]
fn nothing_of_a_running_or_waiting_attempt_is_removed() {
    let data = || {
        [
            Expired::Scratch(id(0)),
            Expired::Sessions(id(0)),
            Expired::Workspace(id(0)),
        ]
    };
    let mut world = world("limits: { attempts: 3 }");
    world.pull(&[todo(0)]).pull(&[]);
    assert_eq!(world.starts.len(), 1);
    for expired in data() {
        world.finds(expired);
        assert!(world.effects.is_empty(), "it runs: {:?}", world.effects);
    }
    world.end(ran(Outcome::Succeeded));
    for expired in data() {
        world.finds(expired);
        assert!(
            world.effects.is_empty(),
            "no later pull has judged it: {:?}",
            world.effects
        );
    }
    world.pull(&[todo(0)]).pull(&[todo(0)]);
    world.pass(3600);
    world
        .send(Input::Tick)
        .end(failed(FailureClass::Auth))
        .pull(&[todo(0)])
        .pull(&[]);
    assert_eq!(world.parked(), Some(ParkReason::Auth));
    world.finds(Expired::Sessions(id(0)));
    assert_eq!(world.removed_data(), None, "a retry resumes the conversation");
    world.finds(Expired::Scratch(id(0)));
    assert_eq!(world.removed_data(), Some(&Expired::Scratch(id(0))));
}

#[test]
fn nothing_starts_while_files_are_removed() {
    let mut world = world("limits: { attempts: 3 }");
    world.pull(&[]).finds(Expired::Sessions(id(0)));
    assert_eq!(world.removed_data(), Some(&Expired::Sessions(id(0))));
    world.pull(&[todo(0)]);
    assert_eq!(world.starts.len(), 0);
    world.send(Input::ExpiredRemoved(Expired::Sessions(id(0))));
    assert_eq!(world.starts.len(), 1);
    world.finds(Expired::Sessions(id(1)));
    assert_eq!(world.removed_data(), None, "its workspace exists");
}
