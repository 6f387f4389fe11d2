//! Issues whose scopes overlap, and issues by strangers.

use vik_core::trust::Trust;

use super::*;
use crate::tracker::AUTHORS;

/// `issue` is further keys of `issue`, `stage` of the stage `plan`, `more` of the workflow.
fn slots(issue: &str, stage: &str, more: &str) -> Scenario {
    Scenario::new(&format!(
        "loop: {{ max_issue_concurrency: 8 }}
issues: {{ pull: {{ command: list }} }}
agents: {{ a: {{ runtime: command, command: [agent] }} }}
issue:
  {issue}
  stages:
    plan: {{ when: {{ state: todo }}, agent: a, prompt: p, {stage} }}
{more}
"
    ))
}

fn owns(issue: usize, priority: u8, scope: &'static [&'static str]) -> Item {
    todo(issue).with(|item| (item.priority, item.scope) = (Some(priority), scope))
}

fn conflict(with: usize, waits: bool) -> Option<Hold> {
    let with = id(with);
    Some(Hold::ScopeConflict { with, waits })
}

#[test]
fn overlapping_scopes_run_in_turn_and_are_explained() {
    let issues = [
        owns(0, 1, &["a"]),
        owns(1, 2, &["b"]),
        owns(2, 3, &["a/x"]),
        owns(3, 4, &[]),
    ];
    let mut world = slots("", "", "");
    world.pull(&issues);
    assert_eq!(world.running_issues(), [0, 1, 3], "no scope claims nothing");
    assert_eq!(world.hold(2), conflict(0, false));
    let (waiting, count) = world.scheduler().waiting(world.now(), 9);
    assert_eq!((count, Some(waiting[0].hold.clone())), (1, conflict(0, false)));
    assert_eq!(world.quiescence(), Quiescence::Running);
    assert_eq!(world.succeed(0).running_issues(), [1, 2, 3]);

    let mut world = slots("scope_conflicts: allow", "", "");
    world.pull(&issues);
    assert_eq!(world.running_issues(), [0, 1, 2, 3]);
    world.edit("scope_conflicts: allow", "scope_conflicts: serialize");
    world.pull(&[owns(4, 9, &["a/x"])]);
    assert_eq!(world.hold(4), conflict(0, false), "what runs keeps its scope");
}

#[test]
fn wide_scope_is_not_starved_by_narrow_ones() {
    const WIDE: usize = 7;
    let narrow = |issue, priority| owns(issue, priority, if issue % 2 == 0 { &["a"] } else { &["b"] });
    let mut world = slots("", "", "");
    let mut issues = vec![narrow(0, 1), narrow(1, 1)];
    world.pull(&issues);
    issues.push(owns(WIDE, 5, &["**"]));
    world.pull(&issues);
    // Whenever one ends, another one of lower priority needs the same paths.
    for ended in 0..2 {
        issues.retain(|item| item.issue != ended);
        let next = ended + 2;
        issues.push(narrow(next, 9));
        world.succeed(ended).pull(&issues);
        let is_wide = world.running_issues() == [WIDE];
        assert_eq!(is_wide, ended == 1);
        assert_eq!(
            world.hold(next),
            conflict(WIDE, !is_wide),
            "it waits behind the wide one"
        );
    }
}

#[test]
fn explain_names_the_conflicting_scope_when_slots_are_full() {
    let mut world = Scenario::new(
        "loop: { max_issue_concurrency: 2 }
issues: { pull: { command: list } }
agents: { a: { runtime: command, command: [agent] } }
issue:
  stages:
    watch: { when: { state: todo }, agent: a, prompt: p, parallel: true }
",
    );
    world.pull(&[owns(0, 1, &[]), owns(1, 2, &["b"])]);
    assert_eq!(world.running().len(), 2);
    world.edit(
        "parallel: true }\n",
        "parallel: true }\n    plan: { when: { state: todo }, agent: a, prompt: p, parallel: true, intent: { owned_scope: ['**'] } }\n",
    );
    assert_eq!(world.running().len(), 2);
    assert_eq!(world.hold_of(0, "plan"), conflict(1, false));
    assert_eq!(world.hold_of(1, "plan"), conflict(0, true));
}

#[test]
fn stage_that_needs_an_approval_reserves_no_scope() {
    let code = "    code: { when: { state: review }, agent: a, prompt: p }";
    let mut world = slots("", "approve: { before: true }", code);
    let review = |item: Item| item.with(|item| item.state = "review");
    let issues = [
        review(owns(0, 1, &["a"])),
        owns(1, 2, &["a", "b"]),
        review(owns(2, 3, &["b"])),
    ];
    // Nothing is requested or started while memory is short.
    world
        .pull(&issues[..1])
        .pressure(Some("little memory"))
        .pull(&issues);
    let why = "little memory".into();
    let pressure = Some(Hold::Pressure { why });
    assert_eq!(world.running_issues(), [0]);
    assert_eq!(
        (world.hold(1), world.hold(2)),
        (conflict(0, false), pressure.clone())
    );
    let (waiting, _) = world.scheduler().waiting(world.now(), 9);
    let holds: Vec<_> = waiting.into_iter().map(|waiting| Some(waiting.hold)).collect();
    assert_eq!(holds, [conflict(0, false), pressure]);
    world.pressure(None);
    assert_eq!(world.running_issues(), [0, 2]);
    assert!(matches!(world.hold(1), Some(Hold::Approval { .. })));
}

#[test]
fn invalid_intent_holds_only_its_own_issue() {
    let mut world = slots("", "intent: { owned_scope: [a] }", "");
    world.pull(&[owns(0, 1, &["b"]), owns(1, 2, &["../c"]), owns(2, 3, &["a/x"])]);
    assert_eq!(world.running_issues(), [2]);
    for (issue, expected) in [(0, "no path in common"), (1, "contains `..`")] {
        let Some(Hold::BadIntent { why }) = world.hold(issue) else {
            panic!("{:?}", world.hold(issue))
        };
        assert!(why.contains(expected), "{why}");
    }
    let scope = world.running()[0].intent.scope.clone().unwrap();
    assert!(scope.matches("a/x/y") && !scope.matches("a/y"));
    world.succeed(2);
    world.pull(&[owns(0, 1, &["b"]), owns(1, 2, &["../c"]), done(2)]);
    assert_eq!(world.quiescence(), Quiescence::Idle, "`run --once` ends");
}

#[test]
fn untrusted_issue_is_held_or_fenced() {
    let issues = [todo(0), todo(1).with(|item| item.author = AUTHORS[1])];
    let trust = |untrusted| format!("trust: {{ authors: [{}], untrusted: {untrusted} }}", AUTHORS[0]);
    let mut world = slots("", "", &trust("hold"));
    world.pull(&issues);
    assert_eq!(world.running_issues(), [0]);
    let author = Some(AUTHORS[1].into());
    assert_eq!(world.hold(1), Some(Hold::Untrusted { author }));

    let mut world = slots("", "", &trust("fence"));
    world.pull(&issues);
    let fenced: Vec<_> = world.starts.iter().map(|start| start.fenced).collect();
    assert_eq!(fenced, [false, true]);
    assert_eq!(world.explain(1).trust, Trust::Fenced);
    // A start that was stored before there were intents is read.
    let mut old = serde_json::to_value(&world.starts[1]).unwrap();
    assert_eq!(
        serde_json::from_value::<Start>(old.clone()).unwrap(),
        world.starts[1]
    );
    for key in ["intent", "fenced"] {
        assert!(old.as_object_mut().unwrap().remove(key).is_some());
    }
    assert!(serde_json::from_value::<Start>(old).unwrap().intent.is_empty());
}
