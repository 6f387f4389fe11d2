//! Issues whose scopes overlap do not run at once, and none waits for ever.
#![allow(clippy::unwrap_used, reason = "a broken assumption fails the test")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use vik_core::attempt::{AttemptResult, Start};
use vik_core::issue::Issue;
use vik_core::outcome::Outcome;
use vik_core::scheduler::{Effect, Filter, Hold, Input, Quiescence, Scheduler};
use vik_core::time::{Mono, Now};
use vik_core::trust::Trust;
use vik_core::workflow::{Workflow, load};

const NOW: Now = Now {
    wall: Timestamp::UNIX_EPOCH,
    mono: Mono(Duration::ZERO),
};

fn workflow(issue: &str, stage: &str, more: &str) -> Arc<Workflow> {
    let text = format!(
        "loop: {{ max_issue_concurrency: 8 }}
issues: {{ pull: {{ command: list }} }}
agents: {{ a: {{ runtime: command, command: [agent] }} }}
issue:
  {issue}
  stages:
    plan: {{ when: {{ state: todo }}, agent: a, prompt: p, {stage} }}
{more}
"
    );
    let loaded = load(&text);
    Arc::new(
        loaded
            .workflow
            .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics)),
    )
}

fn issue(id: &str, priority: u32, scope: &str) -> Issue {
    let scope = if scope.is_empty() {
        String::new()
    } else {
        format!(r#","owned_scope":"{scope}""#)
    };
    let item = format!(r#"{{"id":"{id}","state":"todo","priority":{priority},"author":"{id}"{scope}}}"#);
    Issue::parse(&item).unwrap()
}

struct World {
    scheduler: Scheduler,
    running: Vec<Start>,
}

impl World {
    fn new(workflow: Arc<Workflow>) -> Self {
        Self {
            scheduler: Scheduler::new(workflow, Filter::default(), [7; 6]),
            running: Vec::new(),
        }
    }

    fn send(&mut self, input: Input) {
        for effect in self.scheduler.handle(NOW, input) {
            if let Effect::Start(start) = effect {
                self.running.push(*start);
            }
        }
    }

    fn pull(&mut self, issues: &[Issue]) {
        self.send(Input::PullStarted);
        self.send(Input::Pulled(issues.to_vec()));
    }

    fn end(&mut self, id: &str) {
        let at = self
            .running
            .iter()
            .position(|start| start.issue.id.as_str() == id);
        let start = self.running.remove(at.unwrap());
        self.send(Input::Ended {
            issue: start.issue.id.clone(),
            attempt_id: start.attempt_id,
            report: AttemptResult::new(Outcome::Succeeded),
        });
    }

    fn running(&self) -> Vec<&str> {
        let ids: BTreeSet<_> = self.running.iter().map(|start| start.issue.id.as_str()).collect();
        ids.into_iter().collect()
    }

    fn hold(&self, id: &str) -> Option<Hold> {
        let reported = self.scheduler.explain(&id.into(), NOW).unwrap();
        reported.hold.or_else(|| reported.stages[0].hold.clone())
    }
}

fn conflict(with: &str, waits: bool) -> Option<Hold> {
    Some(Hold::ScopeConflict {
        with: with.into(),
        waits,
    })
}

#[test]
fn overlapping_scopes_run_in_turn_and_are_explained() {
    let issues = [
        issue("a", 1, "src/a"),
        issue("b", 2, "src/ab"),
        issue("c", 3, "src/a/x"),
        issue("d", 4, ""),
    ];
    let mut world = World::new(workflow("", "", ""));
    world.pull(&issues);
    assert_eq!(world.running(), ["a", "b", "d"], "no scope claims nothing");
    assert_eq!(world.hold("c"), conflict("a", false));
    let (waiting, count) = world.scheduler.waiting(NOW, 9);
    assert_eq!((count, Some(waiting[0].hold.clone())), (1, conflict("a", false)));
    assert_eq!(world.scheduler.quiescence(NOW), Quiescence::Running);
    world.end("a");
    assert_eq!(world.running(), ["b", "c", "d"]);

    let mut world = World::new(workflow("scope_conflicts: allow", "", ""));
    world.pull(&issues);
    assert_eq!(world.running(), ["a", "b", "c", "d"]);
    let serialize = workflow("scope_conflicts: serialize", "", "");
    world.send(Input::Reloaded(serialize));
    world.pull(&[issue("e", 9, "src/a/x/y")]);
    assert_eq!(world.hold("e"), conflict("a", false), "what runs keeps its scope");
}

#[test]
fn wide_scope_is_not_starved_by_narrow_ones() {
    let mut world = World::new(workflow("", "", ""));
    let mut issues = vec![issue("a0", 1, "src/a"), issue("b0", 1, "src/b")];
    world.pull(&issues);
    issues.push(issue("wide", 5, "src"));
    world.pull(&issues);
    let mut running = vec!["a0".to_owned(), "b0".to_owned()];
    // Whenever one ends, a new one for its place is there, of lower priority than the wide one.
    for turn in 1..=6 {
        let (part, scope) = if turn % 2 == 1 {
            ("a", "src/a")
        } else {
            ("b", "src/b")
        };
        if running.is_empty() {
            break;
        }
        let over = running.remove(0);
        issues.retain(|issue| issue.id.as_str() != over);
        let next = format!("{part}{turn}");
        issues.push(issue(&next, 9, scope));
        world.end(&over);
        world.pull(&issues);
        running = world.running().into_iter().map(str::to_owned).collect();
        if running == ["wide"] {
            assert!(matches!(
                world.hold(&next),
                Some(Hold::ScopeConflict { waits: false, .. })
            ));
            return;
        }
        assert_eq!(
            world.hold(&next),
            conflict("wide", true),
            "it waits behind the wide one"
        );
    }
    panic!("the wide one never ran");
}

#[test]
fn explain_names_the_conflicting_scope_when_slots_are_full() {
    let workflow = |more: &str| {
        let text = format!(
            "loop: {{ max_issue_concurrency: 2 }}
issues: {{ pull: {{ command: list }} }}
agents: {{ a: {{ runtime: command, command: [agent] }} }}
issue:
  stages:
    watch: {{ when: {{ state: todo }}, agent: a, prompt: p, parallel: true }}
{more}"
        );
        Arc::new(load(&text).workflow.unwrap())
    };
    let mut world = World::new(workflow(""));
    world.pull(&[issue("wide", 1, ""), issue("narrow", 2, "src/b")]);
    assert_eq!(world.running.len(), 2);
    world.send(Input::Reloaded(workflow(
        "    plan: { when: { state: todo }, agent: a, prompt: p, parallel: true, intent: { owned_scope: [src/**] } }\n",
    )));
    assert_eq!(world.running.len(), 2);
    let hold = |id: &str| {
        world.scheduler.explain(&id.into(), NOW).unwrap().stages[1]
            .hold
            .clone()
    };
    assert_eq!(hold("wide"), conflict("narrow", false));
    assert_eq!(hold("narrow"), conflict("wide", true));
}

#[test]
fn invalid_intent_holds_only_its_own_issue() {
    let mut world = World::new(workflow("", "intent: { owned_scope: [src] }", ""));
    world.pull(&[
        issue("a", 1, "docs"),
        issue("b", 2, "../x"),
        issue("c", 3, "src/x"),
    ]);
    assert_eq!(world.running(), ["c"]);
    for (id, expected) in [("a", "no path in common"), ("b", "contains `..`")] {
        let Some(Hold::BadIntent { why }) = world.hold(id) else {
            panic!("{:?}", world.hold(id))
        };
        assert!(why.contains(expected), "{why}");
    }
    let scope = world.running[0].intent.scope.clone().unwrap();
    assert!(scope.matches("src/x/y") && !scope.matches("src/y"));
    let done = Issue::parse(r#"{"id":"c","state":"done"}"#).unwrap();
    world.end("c");
    world.pull(&[issue("a", 1, "docs"), issue("b", 2, "../x"), done]);
    assert_eq!(
        world.scheduler.quiescence(NOW),
        Quiescence::Idle,
        "`run --once` ends"
    );
}

#[test]
fn untrusted_issue_is_held_or_fenced() {
    let trust = |untrusted| format!("trust: {{ authors: [a], untrusted: {untrusted} }}");
    let issues = [issue("a", 1, ""), issue("b", 2, "")];
    let mut world = World::new(workflow("", "", &trust("hold")));
    world.pull(&issues);
    assert_eq!(world.running(), ["a"]);
    assert_eq!(
        world.hold("b"),
        Some(Hold::Untrusted {
            author: Some("b".into())
        })
    );
    let mut world = World::new(workflow("", "", &trust("fence")));
    world.pull(&issues);
    let fenced: Vec<_> = world.running.iter().map(|start| start.fenced).collect();
    assert_eq!(fenced, [false, true]);
    let reported = world.scheduler.explain(&"b".into(), NOW).unwrap();
    assert_eq!(reported.trust, Trust::Fenced);
    let kept = serde_json::to_value(&world.running[1]).unwrap();
    assert_eq!(
        serde_json::from_value::<Start>(kept.clone()).unwrap(),
        world.running[1]
    );
    // What was kept before there were intents is read.
    let mut old = kept;
    old.as_object_mut().unwrap().remove("intent");
    old.as_object_mut().unwrap().remove("fenced");
    assert!(serde_json::from_value::<Start>(old).unwrap().intent.is_empty());
}
