//! Issues that people take over and hand back.

use vik_core::scheduler::TakeOver;

use super::super::outside::hand_back;
use super::*;

fn take_over(wait: bool) -> Command {
    take_over_stage(None, wait)
}

fn take_over_stage(stage: Option<&str>, wait: bool) -> Command {
    Command::TakeOver(TakeOver {
        issue: id(0),
        stage: stage.map(Into::into),
        wait,
    })
}

impl Scenario {
    fn is_taken_over(&self) -> bool {
        matches!(self.hold(0), Some(Hold::TakenOver { .. }))
    }

    /// Returns the stage whose conversation the person continues.
    fn selected(&self) -> &str {
        let hold = self.scheduler().machine(&id(0)).unwrap().taken_over().unwrap();
        hold.stage.as_ref().unwrap().as_str()
    }
}

fn no_effect(world: &Scenario) -> bool {
    matches!(world.result(), Some(CommandResult::NoEffect(_)))
}

#[test]
fn takeover_stops_the_agent_and_uses_up_no_attempt() {
    let mut world = scenario("", "", "retry: { max_attempts: 1 }");
    world.pull(&[todo(0)]).command(take_over(false));
    assert_eq!(world.stops(), [StopReason::TakenOver]);
    world.command(hand_back(id(0)));
    assert!(no_effect(&world), "its agent has not ended");
    let stopped = AttemptResult {
        provider_session_id: Some("c".to_owned()),
        ..ran(Outcome::Cancelled)
    };
    world.end(stopped).pull(&[todo(0)]).wait(3_600);
    assert!(world.is_taken_over());
    assert_eq!((world.starts.len(), world.parked()), (1, None));
    for command in [
        take_over(false),
        Command::Retry(RetryRequest {
            issue: id(0),
            stage: None,
            attempts: Some(2),
            agent: true,
        }),
    ] {
        world.command(command);
        assert!(no_effect(&world));
    }
    world.command(hand_back(id(0)));
    assert_eq!(world.starts.len(), 2);
    let next = &world.starts[1];
    assert_eq!(next.attempt, 1, "the stopped attempt does not count");
    assert!(next.resume.is_some(), "the conversation continues");
    let note = next.handed_back.as_ref().unwrap();
    assert_eq!((&*note.files, note.more_files), (&["a.rs".to_owned()][..], 0));
    world.command(hand_back(id(0)));
    assert!(no_effect(&world), "nobody has it");
}

#[test]
fn takeover_holds_over_restarts_and_in_every_state() {
    let mut world = with_show("remove_workspace: always");
    world.pull(&[todo(0)]).shown(Some(Some(todo(0))));
    world.command(take_over(false)).end(ran(Outcome::Cancelled));
    world.world.host.workspaces.insert(0);
    assert!(world.crash().is_taken_over());
    for state in [todo(0), done(0)] {
        world.pull(&[state]).wait(60);
        assert!(world.is_taken_over() && !world.removes());
    }
    world.pull(&[]);
    assert!(world.looks_up());
    world.shown(Some(None));
    assert!(world.is_taken_over() && !world.removes());
    world.command(hand_back(id(0)));
    assert!(world.removes(), "the issue is missing");
}

#[test]
fn waiting_takeover_lets_the_attempt_end() {
    let mut world = scenario("", "", "");
    world.pull(&[todo(0)]).command(take_over(true));
    assert_eq!(world.stops(), []);
    world.end(ran(Outcome::Succeeded)).pull(&[later(0)]);
    assert!(world.is_taken_over(), "the run is over, and the hold stays");

    let mut world = scenario("", "", "");
    world
        .pull(&[todo(0)])
        .command(take_over(true))
        .command(take_over(false));
    assert_eq!(
        world.stops(),
        [StopReason::TakenOver],
        "the person does not wait any more"
    );
}

#[test]
fn repeated_takeover_selects_another_stage() {
    let mut world = two_stages("");
    world.pull(&[todo(0)]).command(take_over_stage(None, false));
    assert_eq!(world.selected(), "plan");
    world.command(take_over_stage(Some("code"), false));
    assert_eq!(world.selected(), "code");
    world.command(take_over_stage(None, false));
    assert_eq!(world.selected(), "code", "it was named");
    assert!(no_effect(&world));
}

#[test]
fn taken_over_issue_occupies_no_slot() {
    let mut world = scenario("loop: { max_issue_concurrency: 1 }", "", "");
    world.pull(&[todo(0), todo(1)]).command(take_over(false));
    world.end(ran(Outcome::Cancelled)).pull(&[todo(0), todo(1)]);
    assert_eq!(world.running_issues(), [1]);
}

#[test]
fn note_reaches_the_first_agent_that_runs() {
    let mut world = scenario("", "", "");
    world.pull(&[todo(0)]).command(take_over(false));
    world
        .end(ran(Outcome::Cancelled))
        .pull(&[todo(0)])
        .command(hand_back(id(0)));
    let not_run = AttemptResult::new(Outcome::Failed);
    world.end(not_run).pull(&[todo(0)]).wait(3_600);
    assert!(world.starts[2].handed_back.is_some());
    world.crash();
    world.end(ran(Outcome::Failed)).pull(&[todo(0)]).wait(3_600);
    assert!(world.starts[3].handed_back.is_none(), "the agent has read it");
}
