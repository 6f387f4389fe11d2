//! Messages of people that arrive during a run.

use super::*;

fn message(id: &str, text: &str, interrupt: bool) -> PersonMessage {
    PersonMessage {
        id: id.to_owned(),
        text: text.to_owned(),
        interrupt,
    }
}

/// Returns the types and ids of the events that show when a message was taken.
fn taken(played: &Played) -> Vec<&str> {
    let events = played.events("message_taken");
    events.map(|event| event["id"].as_str().unwrap()).collect()
}

#[test]
fn message_is_in_the_next_request() {
    let scene = Scene::new();
    let inbox = scene.inbox.clone();
    let played = scene.play(move |number, _| {
        if number == 0 {
            inbox.deliver(message("m1", "Make it blue.", false));
            inbox.deliver(message("m2", "And round.", false));
            return Ok(sh("true"));
        }
        Ok(text_turn(REPORT))
    });
    assert_eq!(played.ending.reason, crate::events::ExitReason::Done);
    assert_eq!(played.seen.len(), 2);
    let text = last_user(&played.seen[1]);
    assert!(text.ends_with("Make it blue.\n\nAnd round."), "{text}");
    assert_eq!(taken(&played), ["m1", "m2"]);
}

#[test]
fn message_during_the_last_answer_leads_to_another_request() {
    let scene = Scene::new();
    let inbox = scene.inbox.clone();
    let played = scene.play(move |number, _| {
        if number == 0 {
            inbox.deliver(message("m1", "Not yet.", false));
        }
        Ok(text_turn(REPORT))
    });
    assert_eq!(played.ending.reason, crate::events::ExitReason::Done);
    assert_eq!(played.seen.len(), 2);
    assert_eq!(last_user(&played.seen[1]), "Not yet.");
    // The inbox of an ended run takes nothing.
    scene.inbox.deliver(message("m2", "Late.", false));
    assert_eq!(scene.inbox.take(), None);
}

#[test]
fn interrupting_message_stops_a_running_command() {
    let scene = Scene::new();
    let (inbox, started) = (scene.inbox.clone(), scene.work().join("started"));
    let person = std::thread::spawn(move || {
        while !started.exists() {
            std::thread::yield_now();
        }
        inbox.deliver(message("m1", "Stop that.", true));
    });
    let played = scene.play_turns(vec![sh("touch started; sleep 600"), text_turn(REPORT)]);
    person.join().unwrap();
    assert_eq!(played.ending.reason, crate::events::ExitReason::Done);
    assert_eq!(last_user(&played.seen[1]), "Stop that.");
    assert_eq!(taken(&played), ["m1"]);
}

#[test]
fn interrupting_message_stops_a_request_and_a_signal_ends_the_run() {
    let scene = Scene::new();
    let inbox = scene.inbox.clone();
    let played = scene.play(move |number, _| {
        if number == 0 {
            inbox.deliver(message("m1", "Other way.", true));
            return Err(ProviderError::Interrupted);
        }
        Ok(text_turn(REPORT))
    });
    assert_eq!(played.ending.reason, crate::events::ExitReason::Done);
    assert!(last_user(&played.seen[1]).ends_with("Other way."));

    let scene = Scene::new();
    let interrupt = scene.interrupt.clone();
    let played = scene.play(move |_, _| {
        interrupt.set();
        Err(ProviderError::Interrupted)
    });
    assert_eq!(played.ending.reason, crate::events::ExitReason::Interrupted);
}
