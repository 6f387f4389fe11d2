//! Rules that the simulation once found broken.

use vik_core::ids::StageName;

use super::*;

/// Two stages in one state; `top` is further keys of `issues`.
fn two_stages(issues: &str, code: &str) -> Story {
    Story::of(format!(
        "issues: {{ pull: {{ command: list }}, {issues} }}
agents: {{ a: {{ runtime: command, command: [agent] }} }}
issue:
  terminal_states: [done]
  stages:
    plan: {{ when: {{ state: todo }}, agent: a, prompt: p }}
    code: {{ when: {{ state: todo }}, agent: a, prompt: p, {code} }}
"
    ))
}

fn refused() -> AttemptResult {
    AttemptResult {
        failure_class: Some(FailureClass::Auth),
        ..of(Outcome::Failed)
    }
}

fn hold_of(story: &Story, stage: &str) -> Option<Hold> {
    let explanation = story.scheduler.explain(&"1".into(), story.now).unwrap();
    let stage = explanation
        .stages
        .into_iter()
        .find(|one| one.stage.as_str() == stage);
    stage.unwrap().hold
}

fn retry(story: &mut Story, stage: Option<&str>) {
    let request = RetryRequest {
        issue: "1".into(),
        stage: stage.map(StageName::new),
        attempts: None,
    };
    story.send(Input::Command(1, Command::Retry(request), Actor::default()));
}

fn is_parked(story: &Story, stage: &str) -> bool {
    matches!(hold_of(story, stage), Some(Hold::Parked { .. }))
}

#[test]
fn retry_of_a_stage_leaves_the_other_parked_stages() {
    let mut story = two_stages("", "");
    story.pull(TO_DO).end(refused()).pull(TO_DO).end(refused());
    let parked = |story: &Story| (is_parked(story, "plan"), is_parked(story, "code"));
    assert_eq!(parked(&story), (true, true));
    retry(&mut story, Some("other"));
    assert_eq!(parked(&story), (true, true));
    retry(&mut story, Some("code"));
    assert_eq!(parked(&story), (true, false));
    retry(&mut story, None);
    assert_eq!(parked(&story), (false, false));
}

#[test]
fn parked_stage_delays_the_next_stage_until_a_pull() {
    let mut story = two_stages("", "");
    story.pull(TO_DO).end(refused());
    assert_eq!((story.starts.len(), story.parked()), (1, Some(ParkReason::Auth)));
    assert_eq!(hold_of(&story, "code"), Some(Hold::Settling));
    assert_eq!(story.scheduler.quiescence(story.now), Quiescence::NeedsPull);
    story.pull(TO_DO);
    assert_eq!(story.starts[1].stage.name.as_str(), "code");
}

#[test]
fn unparked_stage_waits_until_the_issue_is_seen_again() {
    let mut story = story("", "", "");
    story.pull(TO_DO).end(refused());
    retry(&mut story, None);
    assert_eq!((story.starts.len(), story.parked()), (1, None));
    story.pull(TO_DO).wait(60);
    assert_eq!(story.starts.len(), 2);
}

#[test]
fn stage_waits_for_the_one_before_it_and_explain_names_it() {
    let mut story = two_stages("", "");
    story.send(Input::Pressure(Some("memory".to_owned()))).pull(TO_DO);
    assert!(matches!(hold_of(&story, "plan"), Some(Hold::Pressure { .. })));
    let behind = Hold::OtherStage { stage: "plan".into() };
    assert_eq!(hold_of(&story, "code"), Some(behind));
}

#[test]
fn lower_max_attempts_holds_a_waiting_run() {
    let mut story = story("", "", "");
    story.pull(TO_DO).end(of(Outcome::Failed)).pull(TO_DO);
    let text = story
        .text
        .replace("prompt: p,", "prompt: p, retry: { max_attempts: 1 },");
    let edited = load(&text).workflow.unwrap();
    story.send(Input::Reloaded(edited.into())).wait(600);
    assert_eq!(
        (story.starts.len(), story.parked()),
        (1, Some(ParkReason::AttemptsUsedUp))
    );
}

#[test]
fn blockers_found_by_the_lookup_before_the_start_hold_it() {
    let mut story = two_stages("show: { command: look }", "");
    let snapshot = Issue::parse(r#"{"id":1,"state":"todo","blocked_by":[1]}"#).unwrap();
    story.pull(TO_DO);
    assert_eq!(story.shows(), ["1"]);
    story.send(Input::LookupFinished {
        issue: "1".into(),
        result: LookupResult::Snapshot(Box::new(snapshot)),
    });
    assert!(story.starts.is_empty());
    assert!(matches!(hold_of(&story, "plan"), Some(Hold::Cycle { .. })));
}

#[test]
fn state_reopened_by_an_edit_blocks_at_once() {
    const BLOCKED: &str = r#"[{"id":1,"state":"todo","blocked_by":[2]},{"id":2,"state":"done"}]"#;
    let mut story = two_stages("", "");
    story
        .send(Input::Pressure(Some("memory".to_owned())))
        .pull(BLOCKED);
    let text = story
        .text
        .replace("terminal_states: [done]", "terminal_states: []");
    let edited = load(&text).workflow.unwrap();
    story.send(Input::Reloaded(edited.into()));
    story.send(Input::Pressure(None));
    assert!(story.starts.is_empty());
    assert!(matches!(hold_of(&story, "plan"), Some(Hold::Blocked { .. })));
}

#[test]
fn absent_blocker_holds_nothing_without_a_show_command() {
    const BLOCKED: &str = r#"[{"id":1,"state":"todo","blocked_by":[2]}]"#;
    let mut story = two_stages("show: { command: look }", "");
    story.pull(BLOCKED);
    assert!(matches!(hold_of(&story, "plan"), Some(Hold::Blocked { .. })));
    let edited = load(&two_stages("", "").text).workflow.unwrap();
    story.send(Input::Reloaded(edited.into())).pull(BLOCKED);
    assert_eq!(story.starts.len(), 1);
}
