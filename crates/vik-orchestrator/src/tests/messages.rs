//! Messages of people: to the running agent, to the next one, and back.

use std::time::Duration;

use vik_api::{Action, DeliveryTo};
use vik_core::ids::IssueId;
use vik_core::message::{Message, MessageRefusal, NewMessage, Withdrawal};
use vik_core::scheduler::{Command, CommandResult};
use vik_session::attempt::Steering;

use super::scene::{Scene, SceneBuilder};
use super::world::Script;

const SECOND: Duration = Duration::from_secs(1);

fn send(scene: &mut Scene, text: &str) -> Message {
    let message = NewMessage {
        issue: IssueId::new("a"),
        text: text.to_owned(),
        interrupt: false,
    };
    match scene.act(Action::Command(Command::SendMessage(message))) {
        Ok(CommandResult::Sent(message)) => *message,
        other => panic!("{other:?}"),
    }
}

fn withdraw(scene: &mut Scene, message: &Message) -> CommandResult {
    let withdrawal = Withdrawal {
        issue: IssueId::new("a"),
        message: message.id,
        is_unread: false,
    };
    scene
        .act(Action::Command(Command::WithdrawMessage(withdrawal)))
        .unwrap()
}

fn waiting(scene: &mut Scene) -> Vec<String> {
    let page = scene.messages("a").unwrap();
    page.messages.into_iter().map(|message| message.text).collect()
}

#[test]
fn running_agent_reads_messages_in_their_order() {
    let mut scene = SceneBuilder::default().start(&[("a", None)], &[Script::Runs]);
    scene.pass(10 * SECOND);
    for text in ["one", "two"] {
        send(&mut scene, text);
    }
    assert_eq!(waiting(&mut scene), ["one", "two"]);
    assert_eq!(scene.world().read_message("a").as_deref(), Some("one"));
    scene.pass(SECOND);
    assert_eq!(waiting(&mut scene), ["two"]);
    assert_eq!(scene.world().read_message("a").as_deref(), Some("two"));
    assert_eq!(scene.world().read_message("a"), None);
    scene.pass(SECOND);
    assert_eq!(waiting(&mut scene), [""; 0]);
    assert!(scene.messages("b").is_none(), "an unknown issue");
}

#[test]
fn message_is_withdrawn_only_before_the_agent_has_it() {
    let mut scene = SceneBuilder::default().start(&[("a", None)], &[Script::Runs]);
    scene.pass(10 * SECOND);
    let (first, second) = (send(&mut scene, "one"), send(&mut scene, "two"));
    assert_eq!(withdraw(&mut scene, &second), CommandResult::Done(1));
    // The agent has not reported that it has taken the message.
    assert_eq!(scene.world().take_message("a"), Some(first.clone()));
    let refused = CommandResult::Refused(MessageRefusal::MayBeRead);
    assert_eq!(withdraw(&mut scene, &first), refused);
    assert_eq!(
        scene.world().read_message("a"),
        None,
        "the other one was withdrawn"
    );
    let refused = CommandResult::Refused(MessageRefusal::NotWaiting);
    assert_eq!(withdraw(&mut scene, &second), refused);
}

#[test]
fn delivery_follows_what_the_agent_can_do() {
    let mut scene = SceneBuilder::default().start(&[("a", None)], &[Script::Fails(100 * SECOND)]);
    scene.pass(10 * SECOND);
    let delivery = |scene: &mut Scene| scene.messages("a").unwrap().delivery;
    assert_eq!(delivery(&mut scene).to, DeliveryTo::Agent);
    assert!(delivery(&mut scene).because.is_some(), "it is not ready");
    scene.world().set_steering("a", Steering::Ready);
    let ready = delivery(&mut scene);
    assert_eq!((ready.to, ready.because), (DeliveryTo::Agent, None));
    assert_eq!(ready.stage.unwrap().as_str(), "work");
    let status = scene.status().sessions.remove(0);
    assert_eq!(status.steerable.as_deref(), Some("ready"));
    let why = "`runtime: command`".to_owned();
    scene.world().set_steering("a", Steering::No { why });
    let cannot = delivery(&mut scene);
    assert_eq!(cannot.to, DeliveryTo::NextAttempt);
    assert!(cannot.because.unwrap().ends_with("steered: `runtime: command`"));
    let status = scene.status().sessions.remove(0);
    assert_eq!(
        status.not_steerable_because.as_deref(),
        Some("`runtime: command`")
    );
}

#[test]
fn parked_issue_keeps_the_message_and_names_the_retry() {
    let builder = SceneBuilder {
        stage: "retry: { max_attempts: 1 }",
        ..SceneBuilder::default()
    };
    let mut scene = builder.start(&[("a", None)], &[Script::Fails(SECOND), Script::Runs]);
    scene.pass(60 * SECOND);
    send(&mut scene, "one");
    let delivery = scene.messages("a").unwrap().delivery;
    assert_eq!(delivery.to, DeliveryTo::NextAttempt);
    assert!(delivery.because.unwrap().contains("parked"));
    assert!(delivery.hint.unwrap().contains("vik retry"));
    scene.pass(60 * SECOND);
    assert_eq!(scene.world().starts(), ["a 1"], "a message alone frees nothing");
    assert_eq!(waiting(&mut scene), ["one"]);
}
