//! Decisions for people: the true reason, recorded once for each change.

use super::*;

impl Story {
    fn decisions_of(&self, kind: &DecisionKind) -> usize {
        self.decisions
            .iter()
            .filter(|decision| decision.kind == *kind)
            .count()
    }
}

fn shown(seen: LookupResult) -> Input {
    Input::LookupFinished {
        issue: "1".into(),
        result: seen,
    }
}

#[test]
fn repeated_lookup_result_is_recorded_once() {
    let mut story = Story::of(
        "issues: { pull: { command: list }, show: { command: one } }
agents: { a: { runtime: command, command: [agent] } }
issue: { stages: { work: { when: { state: todo }, agent: a, prompt: p } } }
"
        .to_owned(),
    );
    for _ in 0..3 {
        story.pull(TO_DO).send(shown(LookupResult::Unknown)).wait(1);
    }
    assert_eq!(story.decisions_of(&DecisionKind::LookupFailed), 1);
    for _ in 0..3 {
        story.pull(TO_DO).send(shown(LookupResult::Missing)).wait(1);
        assert_eq!(story.hold("1"), Some(Hold::Missing), "the pull did bring it");
    }
    assert_eq!(story.decisions_of(&DecisionKind::Missing), 1);
    assert_eq!(story.starts.len(), 0);
    assert_eq!(
        story.scheduler.waiting(story.now, 9).1,
        0,
        "nothing of it will start"
    );
    // It is back: another failure must be recorded again.
    let issue = Pull::parse(TO_DO.as_bytes()).unwrap().issues.remove(0);
    story
        .pull(TO_DO)
        .send(shown(LookupResult::Snapshot(Box::new(issue))));
    assert_eq!(story.starts.len(), 1);
}

#[test]
fn backoff_is_explained_before_the_first_pull() {
    let mut story = story("", "", "");
    story.pull(TO_DO).end(of(Outcome::Failed)).pull(TO_DO);
    let waits = |hold| match hold {
        Some(Hold::BackingOff { until, after }) => (until, after),
        other => panic!("{other:?}"),
    };
    let (until, after) = waits(story.hold("1"));
    assert_eq!(after, Some(Outcome::Failed));
    story.crash();
    assert_eq!(waits(story.hold("1")), (until, after));
    story.wait(600);
    assert_eq!(story.hold("1"), Some(Hold::NotPulled));
}

#[test]
fn issue_limit_is_named_in_the_hold() {
    let mut story = story("", "limits: { attempts: 1 }", "");
    story.pull(TO_DO).end(of(Outcome::Failed)).pull(TO_DO);
    match story.hold("1") {
        Some(Hold::Parked { reason, detail, .. }) => {
            assert_eq!(reason, ParkReason::IssueLimit);
            assert_eq!(detail, "limit reached: 1 of 1 attempts for the life of the issue");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn restarted_conversation_is_recorded() {
    let mut story = story("", "", "");
    let failed = AttemptResult {
        resume_failed: true,
        ..of(Outcome::Failed)
    };
    story.pull(TO_DO).end(failed).pull(TO_DO);
    assert_eq!(story.decisions_of(&DecisionKind::ResumeFailed), 1);
}
