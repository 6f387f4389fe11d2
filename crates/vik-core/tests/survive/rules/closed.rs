//! Issues that are closed while something of them is left.

use super::*;

const AUTH: &str = "issues: { pull: { command: list }, show: { command: look } }";

/// Returns a story with a `show` command.
fn with_show() -> Story {
    Story::of(format!(
        "{AUTH}
agents: {{ a: {{ runtime: codex, model: m }} }}
issue:
  terminal_states: [done]
  remove_workspace: always
  limits: {{ attempts: 3 }}
  stages: {{ work: {{ when: {{ state: todo }}, agent: a, prompt: p }} }}
"
    ))
}

fn refused() -> AttemptResult {
    AttemptResult {
        failure_class: Some(FailureClass::Auth),
        ..of(Outcome::Failed)
    }
}

fn unproven() -> AttemptResult {
    AttemptResult {
        failure_class: Some(FailureClass::UnprovenEnd),
        ..of(Outcome::Failed)
    }
}

fn seen(json: &str) -> LookupResult {
    LookupResult::Snapshot(Box::new(Pull::parse(json.as_bytes()).unwrap().issues.remove(0)))
}

impl Story {
    fn shown(&mut self, seen: LookupResult) -> &mut Self {
        self.send(Input::LookupFinished {
            issue: "1".into(),
            result: seen,
        })
    }

    /// Has an attempt end, where a look comes before its start.
    fn attempt(&mut self, report: AttemptResult) -> &mut Self {
        self.pull(TO_DO).shown(seen(TO_DO));
        self.end(report)
    }

    fn kinds(&self) -> Vec<&DecisionKind> {
        self.decisions.iter().map(|decision| &decision.kind).collect()
    }
}

#[test]
fn closed_parked_issue_returns_as_a_new_run() {
    for restart in [false, true] {
        for is_missing in [false, true] {
            let mut story = with_show();
            story.attempt(refused()).pull(TO_DO);
            assert_eq!(story.parked(), Some(ParkReason::Auth));
            let first = story.starts[0].run;
            if is_missing {
                // The pull brings open issues only.
                story.pull("[]");
                assert_eq!(story.shows(), ["1"]);
                story.shown(if restart {
                    LookupResult::Missing
                } else {
                    seen(DONE)
                });
            } else {
                story.pull(DONE);
            }
            assert_eq!(story.parked(), None);
            assert!(story.removes(), "its workspace goes");
            assert!(story.kinds().contains(&&DecisionKind::Closed));
            let issue = "1".into();
            story.send(Input::WorkspaceRemoved { issue, removed: true });
            if restart {
                story.crash();
                assert_eq!(story.parked(), None, "the ledger has closed it");
            }
            story.pull(TO_DO).shown(seen(TO_DO));
            assert_eq!(story.starts.len(), 2);
            // After a crash the story makes its ids from the seed that it began with.
            assert!(restart || story.starts[1].run != first);
            story.end(refused()).pull(TO_DO).pull(DONE);
            story.send(Input::WorkspaceRemoved {
                issue: "1".into(),
                removed: true,
            });
            story.attempt(refused());
            // The limit of its whole life holds, however often it is closed.
            story.pull(DONE).send(Input::WorkspaceRemoved {
                issue: "1".into(),
                removed: true,
            });
            story.pull(TO_DO);
            assert_eq!(
                (story.starts.len(), story.parked()),
                (3, Some(ParkReason::IssueLimit))
            );
        }
    }
}

#[test]
fn closing_an_issue_frees_no_agent_that_may_still_live() {
    let mut story = with_show();
    story.attempt(unproven()).pull(TO_DO).pull(DONE);
    assert_eq!(story.parked(), Some(ParkReason::UnprovenEnd));
    assert!(!story.removes());
    story.pull("[]").shown(LookupResult::Missing).pull("[]");
    assert_eq!(story.parked(), Some(ParkReason::UnprovenEnd));
    story.pull(TO_DO);
    assert_eq!(story.starts.len(), 1);
}

/// `after_run` closes the issue, and the pull brings open issues only. A pull that began before the
/// end misses the issue first, so the one after the end finds nothing new.
#[test]
fn absent_issue_lookup_at_its_end_removes_the_workspace() {
    for lookup_before in [LookupResult::Unknown, seen(TO_DO), seen(DONE)] {
        let mut story = with_show();
        story.pull(TO_DO).shown(seen(TO_DO));
        story.pull("[]").shown(lookup_before.clone());
        story.end(of(Outcome::Succeeded)).pull("[]");
        let removed = story.removes();
        assert_eq!(story.shows(), ["1"], "what the attempt did is looked at");
        story.shown(seen(DONE));
        assert!(removed || story.removes(), "{lookup_before:?}");
    }
}

#[test]
fn absent_issue_lookup_is_repeated_after_growing_waits() {
    let mut story = with_show();
    story.attempt(refused()).pull(TO_DO);
    // It leaves the pull, and is closed later.
    story.pull("[]").shown(seen(TO_DO));
    let mut lookups = 0;
    for _ in 0..720 {
        story.wait(5).pull("[]");
        if !story.shows().is_empty() {
            lookups += 1;
            story.shown(LookupResult::Unknown);
        }
    }
    assert!((5..=12).contains(&lookups), "{lookups} looks in an hour");
    story.wait(3600).pull("[]");
    assert_eq!(story.shows(), ["1"]);
    story.shown(seen(DONE));
    assert_eq!(story.parked(), None);
    story.wait(7200).pull("[]");
    assert!(story.shows().is_empty(), "nothing of it is left");
}

#[test]
fn dependents_name_the_parked_issue_at_the_root() {
    const CHAIN: &str = r#"[{"id":1,"state":"todo"},{"id":2,"state":"todo","blocked_by":[1]},
        {"id":3,"state":"todo","blocked_by":[2]},{"id":4,"state":"elsewhere","blocked_by":[3]},
        {"id":5,"state":"todo","blocked_by":[4,2]}]"#;
    let mut story = story("", "", "");
    story.pull(CHAIN);
    assert!(matches!(story.hold("2"), Some(Hold::Blocked { root: None, .. })));
    story.end(refused()).pull(CHAIN);
    for id in ["2", "3", "5"] {
        let Some(Hold::Blocked { root: Some(root), .. }) = story.hold(id) else {
            panic!("{id}: {:?}", story.hold(id));
        };
        assert_eq!((root.issue, root.reason), ("1".into(), ParkReason::Auth));
    }
    let dependents = story.scheduler.dependents(&"1".into());
    let ids: Vec<_> = dependents.iter().map(|id| id.as_str()).collect();
    assert_eq!(ids, ["2", "3", "5"], "over other issues too");
    // Without a daemon, the ledger knows who waits for whom.
    let stored: Vec<_> = story
        .stored
        .machines
        .iter()
        .map(|one| one.issue().id.as_str())
        .collect();
    assert!(["2", "3", "5"].iter().all(|id| stored.contains(id)), "{stored:?}");
}
