//! Agents that ask, and people who answer.

use vik_core::approval::TIME_LIMIT;
use vik_core::question::{AnswerRefusal, NewAnswer, Question, Reply};
use vik_core::scheduler::TakeOver;

use super::super::outside::hand_back;
use super::*;

fn asks(default: Option<&str>) -> AttemptResult {
    AttemptResult {
        question: Some(Box::new(Question {
            text: "which?".to_owned(),
            choices: vec!["this".to_owned(), "that".to_owned()],
            default: default.map(str::to_owned),
        })),
        provider_session_id: Some("c".to_owned()),
        answered: Some(true),
        ..ran(Outcome::Asked)
    }
}

fn answer(reply: Reply) -> Command {
    Command::AnswerQuestion(NewAnswer {
        issue: id(0),
        stage: None,
        question: None,
        reply,
    })
}

fn asked(stage: &str) -> Scenario {
    let mut world = scenario("", "", stage);
    world.attempted(asks(None));
    world
}

impl Scenario {
    fn is_asking(&self) -> bool {
        matches!(self.hold_of(0, "work"), Some(Hold::Question { .. }))
    }

    fn refusal(&self) -> Option<&AnswerRefusal> {
        match self.result() {
            Some(CommandResult::AnswerRefused(refusal)) => Some(refusal),
            _ => None,
        }
    }
}

#[test]
fn answer_starts_the_conversation_again_and_uses_up_no_attempt() {
    let mut world = asked("retry: { max_attempts: 1 }");
    world.wait(100_000).crash().pull(&[todo(0)]);
    assert!(world.is_asking());
    assert_eq!((world.starts.len(), world.parked()), (1, None));
    world.command(answer(Reply::Choice(3)));
    let missing = AnswerRefusal::NoSuchChoice {
        number: 3,
        choices: 2,
    };
    assert_eq!(world.refusal(), Some(&missing));
    world.command(answer(Reply::Choice(2)));
    assert_eq!(world.result(), Some(&CommandResult::Done(1)));
    let next = &world.starts[1];
    assert_eq!((next.attempt, next.answers.len()), (1, 1));
    assert_eq!(
        (&*next.answers[0].question, &*next.answers[0].answer),
        ("which?", "that")
    );
    world.command(answer(Reply::Text("again".to_owned())));
    assert_eq!(world.refusal(), Some(&AnswerRefusal::NoQuestion));
}

#[test]
fn resumed_conversation_gets_an_answer_once_and_a_new_one_gets_all() {
    let mut world = asked("retry: { max_attempts: 5, initial_backoff: 1s }");
    world.command(answer(Reply::Text("one".to_owned())));
    assert!(world.starts[1].resume.is_some());
    world.end(asks(None)).pull(&[todo(0)]);
    world.command(answer(Reply::Text("two".to_owned())));
    let texts =
        |start: &Start| -> Vec<String> { start.answers.iter().map(|answer| answer.answer.clone()).collect() };
    assert_eq!(texts(&world.starts[2]), ["two"], "it has the first one");
    // A failed attempt starts a new conversation.
    world.end(ran(Outcome::Failed)).pull(&[todo(0)]).wait(60);
    assert!(world.starts[3].resume.is_none());
    assert_eq!(texts(&world.starts[3]), ["one", "two"]);
}

#[test]
fn time_limit_gives_the_default_and_does_not_run_while_a_person_has_the_issue() {
    let mut world = scenario("", "", "questions: { timeout: 1h, default: as before }");
    world.attempted(asks(Some("this")));
    world.wait(1_800).command(Command::TakeOver(TakeOver {
        issue: id(0),
        stage: None,
        wait: false,
    }));
    world.wait(36_000).command(answer(Reply::Choice(1)));
    assert_eq!(world.refusal(), Some(&AnswerRefusal::TakenOver));
    // The old time has passed before the next daemon starts.
    world.crash().pull(&[todo(0)]);
    world.command(hand_back(id(0))).wait(1_700);
    assert!(world.is_asking());
    world.wait(200);
    let given = &world.starts[1].answers[0];
    assert_eq!(
        (&*given.answer, &*given.by),
        ("this", TIME_LIMIT),
        "its own default comes first"
    );
    world.end(asks(None)).pull(&[todo(0)]).wait(3_700);
    assert_eq!(world.starts[2].answers.last().unwrap().answer, "as before");
}

#[test]
fn time_limit_without_a_default_waits_for_a_person() {
    let mut world = asked("questions: { timeout: 1h }");
    world.wait(100_000);
    assert!(world.is_asking());
}

#[test]
fn too_many_questions_in_a_row_park_the_stage() {
    let mut world = asked("questions: { timeout: 1m, default: go on }");
    for _ in 1..10 {
        world.wait(61).end(asks(None)).pull(&[todo(0)]);
    }
    assert_eq!(
        (world.parked(), world.starts.len()),
        (Some(ParkReason::Questions), 10)
    );
    world.retry(None, None);
    assert_eq!(world.starts.len(), 11);
}

#[test]
fn issue_that_leaves_its_state_drops_the_question() {
    let mut world = asked("");
    world.pull(&[later(0)]).command(answer(Reply::Choice(1)));
    assert_eq!(world.refusal(), Some(&AnswerRefusal::NoQuestion));
}
