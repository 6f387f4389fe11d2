//! Messages of people, and their notes: where they wait, who gets them, and what refuses them.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use common::{end, id, now, pull, ran, restored, scheduler, started};
use proptest::prelude::*;
use vik_core::attempt::{AttemptResult, Start};
use vik_core::changes::Changes;
use vik_core::decision_kind::DecisionKind;
use vik_core::ids::{AttemptId, MessageId};
use vik_core::message::{
    MAX_BYTES, MAX_WAITING, Message, MessageRefusal, NewMessage, WaitingMessage, Withdrawal, check_text,
};
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::scheduler::{Actor, Command, CommandResult, Effect, HandBack, Input, Scheduler, TakeOver};

const STAGE: &str = "retry: { initial_backoff: 0s }";

struct World {
    scheduler: Scheduler,
    asked: u64,
}

impl World {
    fn new() -> Self {
        Self {
            scheduler: scheduler(STAGE),
            asked: 0,
        }
    }

    fn pull(&mut self, state: &str) -> Option<Start> {
        started(pull(&mut self.scheduler, state))
    }

    fn ask(&mut self, command: Command) -> (CommandResult, Vec<(AttemptId, MessageId)>) {
        self.asked += 1;
        let input = Input::Command(self.asked, command, Actor::default());
        let effects = self.scheduler.handle(now(), input);
        let result = effects.iter().find_map(|effect| match effect {
            Effect::CommandResult(_, result) => Some(result.clone()),
            _ => None,
        });
        let delivered = effects.iter().filter_map(|effect| match effect {
            Effect::DeliverMessage { attempt_id, message } => Some((*attempt_id, message.id)),
            _ => None,
        });
        (result.unwrap(), delivered.collect())
    }

    fn send(&mut self, text: &str) -> (CommandResult, Vec<(AttemptId, MessageId)>) {
        self.ask(Command::SendMessage(NewMessage {
            issue: id(),
            text: text.to_owned(),
            interrupt: false,
        }))
    }

    fn sent(&mut self, text: &str) -> (Message, Vec<(AttemptId, MessageId)>) {
        match self.send(text) {
            (CommandResult::Sent(message), delivered) => (*message, delivered),
            (other, _) => panic!("{other:?}"),
        }
    }

    fn withdraw(&mut self, message: MessageId, is_unread: bool) -> CommandResult {
        let withdrawal = Withdrawal {
            issue: id(),
            message,
            is_unread,
        };
        self.ask(Command::WithdrawMessage(withdrawal)).0
    }

    fn taken(&mut self, attempt_id: AttemptId, messages: Vec<MessageId>) {
        let issue = id();
        self.scheduler.handle(
            now(),
            Input::MessagesTaken {
                issue,
                attempt_id,
                messages,
            },
        );
    }

    fn end(&mut self, start: &Start, outcome: Outcome) {
        end(&mut self.scheduler, start, ran(outcome));
    }

    fn waiting(&self) -> Vec<(MessageId, Option<AttemptId>)> {
        let messages = self.scheduler.machine(&id()).unwrap().messages();
        let pair = |waiting: &WaitingMessage| (waiting.message.id, waiting.attempt);
        messages.iter().map(pair).collect()
    }
}

#[test]
fn message_is_delivered_to_the_running_attempt_and_waits_until_it_is_taken() {
    let mut world = World::new();
    let start = world.pull("todo").unwrap();
    let (message, delivered) = world.sent("a");
    assert_eq!(delivered, [(start.attempt_id, message.id)]);
    assert_eq!(world.waiting(), [(message.id, Some(start.attempt_id))]);
    assert_eq!(
        world.withdraw(message.id, false),
        CommandResult::Refused(MessageRefusal::MayBeRead)
    );
    world.taken(start.attempt_id, vec![message.id]);
    assert_eq!(world.waiting(), []);
    assert_eq!(
        world.withdraw(message.id, true),
        CommandResult::Refused(MessageRefusal::NotWaiting)
    );
    let kinds: Vec<_> = world
        .scheduler
        .take_changes()
        .decisions
        .into_iter()
        .map(|d| d.kind)
        .collect();
    assert!(kinds.contains(&DecisionKind::Message) && kinds.contains(&DecisionKind::MessagesTaken));
    // The report of a recovered attempt changes nothing.
    world.taken(start.attempt_id, vec![message.id]);
    assert_eq!(world.scheduler.take_changes(), Changes::default());
}

#[test]
fn message_that_was_not_taken_continues_the_conversation_in_the_next_attempt() {
    for outcome in [Outcome::Succeeded, Outcome::Failed, Outcome::TimedOut] {
        let mut world = World::new();
        let start = world.pull("todo").unwrap();
        let (first, _) = world.sent("a");
        world.end(&start, outcome);
        let (second, delivered) = world.sent("b");
        assert_eq!(delivered, [], "nothing runs");
        assert_eq!(world.waiting(), [(first.id, None), (second.id, None)]);
        let next = world.pull("todo").unwrap();
        assert_eq!(next.messages, [first.clone(), second.clone()]);
        assert_eq!(next.resume.unwrap().provider_session_id, "conversation");
        let given = Some(next.attempt_id);
        assert_eq!(world.waiting(), [(first.id, given), (second.id, given)]);
    }
}

#[test]
fn success_without_a_message_starts_a_new_conversation() {
    let mut world = World::new();
    let start = world.pull("todo").unwrap();
    world.end(&start, Outcome::Succeeded);
    assert!(world.pull("todo").unwrap().resume.is_none());
}

#[test]
fn restored_attempt_gets_only_what_its_prompt_does_not_contain() {
    let mut world = World::new();
    world.pull("todo");
    let machine = world.scheduler.machine(&id()).unwrap().clone();
    let start = machine.runs()[0].active().unwrap().clone();
    world.end(&start, Outcome::Failed);
    let (in_prompt, _) = world.sent("a");
    world.pull("todo").unwrap();
    let (later, _) = world.sent("b");
    let machine = world.scheduler.machine(&id()).unwrap();
    let (mut restored, starts) = restored(STAGE, machine, now());
    assert_eq!(starts[0].messages, [in_prompt]);
    let effects = restored.handle(now(), Input::Tick);
    let delivered: Vec<_> = effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::DeliverMessage { message, .. } => Some(message),
            _ => None,
        })
        .collect();
    assert_eq!(delivered, [later]);
}

#[test]
fn refused_message_changes_nothing() {
    let mut world = World::new();
    assert_eq!(world.send("a").0, CommandResult::UnknownIssue);
    let start = world.pull("todo").unwrap();
    world.scheduler.take_changes();
    let long = "a".repeat(MAX_BYTES + 1);
    let refused = [
        ("", MessageRefusal::Empty),
        (" \n\t", MessageRefusal::Empty),
        ("a\rb", MessageRefusal::ControlCharacter('\r')),
        ("\0", MessageRefusal::ControlCharacter('\0')),
        ("\u{9b}31m", MessageRefusal::ControlCharacter('\u{9b}')),
        (&long, MessageRefusal::TooLong(MAX_BYTES + 1)),
    ];
    for (text, refusal) in refused {
        assert_eq!(world.send(text), (CommandResult::Refused(refusal), Vec::new()));
    }
    assert_eq!(world.scheduler.take_changes(), Changes::default());
    for _ in 0..MAX_WAITING {
        world.sent("a");
    }
    assert_eq!(world.send("a").0, CommandResult::Refused(MessageRefusal::TooMany));
    assert_eq!(world.waiting().len(), MAX_WAITING);
    let messages: Vec<_> = world.waiting().into_iter().map(|(message, _)| message).collect();
    world.taken(start.attempt_id, messages);
    world.end(&start, Outcome::Succeeded);
    let (kept, _) = world.sent("b");
    world.pull("done");
    assert!(
        !world.scheduler.machine(&id()).unwrap().is_idle(),
        "the message waits"
    );
    let finished = CommandResult::Refused(MessageRefusal::Finished("done".into()));
    assert_eq!(world.send("a").0, finished);
    assert_eq!(world.withdraw(kept.id, false), CommandResult::Done(1));
}

#[test]
fn stopped_attempt_gets_no_message() {
    let mut world = World::new();
    world.pull("todo");
    world.ask(Command::Cancel(id()));
    let (message, delivered) = world.sent("a");
    assert_eq!(
        (delivered, world.waiting()),
        (Vec::new(), vec![(message.id, None)])
    );
}

proptest! {
    #[test]
    fn text_is_accepted_exactly_if_it_is_readable(text in "[\\x00-\\x20a-b\\x7f-\\xa1]{0,6}") {
        let has_control = text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
        let is_blank = text.trim().is_empty();
        prop_assert_eq!(check_text(&text).is_ok(), !has_control && !is_blank);
    }

    /// Messages keep their order, and each is taken once, withdrawn, or waits.
    #[test]
    fn messages_keep_their_order_and_none_is_lost(steps in proptest::collection::vec(0..6_u8, 0..60)) {
        let mut world = World::new();
        let mut start = world.pull("todo");
        let (mut sent, mut gone) = (Vec::new(), Vec::new());
        for step in steps {
            let waiting = world.waiting();
            match (step, &start) {
                (0 | 1, _) => if let (CommandResult::Sent(message), _) = world.send("a") {
                    sent.push(message.id);
                },
                (2, Some(active)) => if let Some((message, _)) = waiting.iter().find(|(_, to)| *to == Some(active.attempt_id)) {
                    world.taken(active.attempt_id, vec![*message]);
                    gone.push(*message);
                },
                (3, _) => if let Some((message, _)) = waiting.last() {
                    let is_unread = waiting.len().is_multiple_of(2);
                    let may_be_read = waiting[waiting.len() - 1].1.is_some() && !is_unread;
                    let done = world.withdraw(*message, is_unread) == CommandResult::Done(1);
                    prop_assert_eq!(done, !may_be_read);
                    if done {
                        gone.push(*message);
                    }
                },
                (4, Some(active)) => {
                    world.end(active, Outcome::Lost);
                    start = None;
                }
                (5, None) => start = world.pull("todo"),
                _ => {}
            }
            let left: Vec<_> = sent.iter().copied().filter(|message| !gone.contains(message)).collect();
            let waiting: Vec<_> = world.waiting().into_iter().map(|(message, _)| message).collect();
            prop_assert_eq!(waiting, left);
        }
    }
}

#[test]
fn note_of_a_person_waits_until_a_model_has_answered() {
    let mut world = World::new();
    let start = world.pull("todo").unwrap();
    world.ask(Command::TakeOver(TakeOver {
        issue: id(),
        stage: None,
        wait: false,
    }));
    world.end(&start, Outcome::Cancelled);
    world.ask(Command::HandBack(HandBack {
        issue: id(),
        message: Some("add a test".to_owned()),
        files: Vec::new(),
    }));
    let unanswered = AttemptResult {
        ran: true,
        answered: Some(false),
        failure_class: Some(FailureClass::Network),
        ..AttemptResult::new(Outcome::Failed)
    };
    let start = world.pull("todo").unwrap();
    assert!(start.handed_back.is_some());
    end(&mut world.scheduler, &start, unanswered);
    let start = world.pull("todo").unwrap();
    assert!(start.handed_back.is_some(), "no model has read it");
    world.end(&start, Outcome::Succeeded);
    assert!(world.pull("todo").is_none_or(|start| start.handed_back.is_none()));
}
