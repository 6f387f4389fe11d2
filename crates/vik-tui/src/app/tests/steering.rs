//! Actions: keys, confirmations, and results.

use vik_core::approval::Answer;
use vik_core::message::NewMessage;
use vik_core::question::{NewAnswer, Reply};
use vik_core::scheduler::{ApprovalReply, Command as Steering};

use super::*;
use crate::action::retry;

#[test]
fn cancel_asks_first_and_applies_to_the_named_issue() {
    let mut app = app(80, 24, 5);
    assert_eq!(type_keys(&mut app, "c"), []);
    assert_eq!(
        app.mode,
        Mode::Confirm(Steering::Cancel("PROJ-104".into()).into())
    );
    // Neither moves the selection nor confirms.
    assert_eq!(type_keys(&mut app, "jxc"), []);
    assert_eq!(press(&mut app, KeyCode::Enter), []);
    send(&mut app, Msg::Paste("y".to_owned()));
    let mut other = status(5);
    other
        .sessions
        .retain(|session| session.issue_id.as_str() != "PROJ-104");
    send(&mut app, Msg::State(Ok(Box::new(other))));
    assert_eq!(
        type_keys(&mut app, "y"),
        steer(Steering::Cancel("PROJ-104".into()))
    );
    for no in [KeyCode::Char('n'), KeyCode::Esc, KeyCode::Char('q')] {
        type_keys(&mut app, "c");
        assert_eq!(press(&mut app, no), []);
        assert_eq!(app.mode, Mode::Normal);
    }
    // A finished issue has nothing to cancel.
    let mut finished = explained("43");
    let now = finished.now.as_mut().unwrap();
    now.stages.clear();
    now.hold = serde_json::from_value(serde_json::json!({
        "reason": "terminal", "detail": "`done` is a terminal state", "since": null, "until": null,
        "freed_by": null,
    }))
    .unwrap();
    app.explained = Some(finished);
    type_keys(&mut app, "c");
    assert_eq!(app.mode, Mode::Normal);
    assert!(app.notice.as_ref().unwrap().text.contains("finished"));
    // Without a selection there is nothing to ask.
    send(&mut app, Msg::State(Ok(Box::new(status(0)))));
    type_keys(&mut app, "c");
    assert_eq!(app.mode, Mode::Normal);
    assert!(app.notice.as_ref().unwrap().is_error);
}

#[test]
fn approval_is_answered_with_or_without_a_message() {
    let mut app = app(80, 24, 5);
    type_keys(&mut app, "5");
    let answer = |answer| {
        Steering::Answer(ApprovalReply {
            issue: "31".into(),
            stage: None,
            request: Some("31.before".to_owned()),
            answer,
        })
    };
    assert_eq!(type_keys(&mut app, "a"), []);
    assert_eq!(
        press(&mut app, KeyCode::Enter),
        steer(answer(Answer::Approve { message: None }))
    );
    type_keys(&mut app, "xnot now");
    assert_eq!(
        press(&mut app, KeyCode::Enter),
        steer(answer(Answer::denied(Some("not now".to_owned()))))
    );
    // Letters of a message are not keys.
    assert_eq!(type_keys(&mut app, "aquit"), []);
    assert_eq!(press(&mut app, KeyCode::Esc), []);
    assert_eq!(app.mode, Mode::Normal);
    // An issue without an approval has nothing to answer.
    type_keys(&mut app, "1");
    type_keys(&mut app, "a");
    assert_eq!(app.mode, Mode::Normal);
}

#[test]
fn steering_shows_its_result() {
    let mut app = app(80, 24, 5);
    assert_eq!(type_keys(&mut app, "p"), steer(Steering::Pause(None)));
    assert_eq!(
        type_keys(&mut app, "P"),
        steer(Steering::Pause(Some("PROJ-104".into())))
    );
    for key in ["R", "u"] {
        assert_eq!(type_keys(&mut app, key), steer(retry("PROJ-104".into())));
    }
    assert_eq!(type_keys(&mut app, "r"), steer(Action::Refresh));
    let mut paused = status(5);
    paused.paused = true;
    paused.paused_issues = vec!["PROJ-104".into()];
    send(&mut app, Msg::State(Ok(Box::new(paused))));
    assert_eq!(type_keys(&mut app, "p"), steer(Steering::Resume(None)));
    assert_eq!(
        type_keys(&mut app, "P"),
        steer(Steering::Resume(Some("PROJ-104".into())))
    );

    let cancel = || Action::from(Steering::Cancel("7".into()));
    let done = Steered {
        count: 1,
        nothing: None,
    };
    let commands = app.update(later(5), Msg::Steered(cancel(), Ok(done)));
    assert!(
        commands.contains(&Command::State),
        "what it did is looked at: {commands:?}"
    );
    assert_eq!(
        app.notice.as_ref().unwrap().text,
        "cancelled and parked 7: 1 attempt stopped"
    );
    let nothing = Steered {
        count: 0,
        nothing: Some("the issue has no parked stage".to_owned()),
    };
    send(&mut app, Msg::Steered(retry("7".into()), Ok(nothing)));
    assert_eq!(
        app.notice.as_ref().unwrap().text,
        "nothing to retry 7: the issue has no parked stage"
    );
    let error = refused("the ledger cannot be written", "free space on the disk");
    send(&mut app, Msg::Steered(cancel(), Err(error)));
    let notice = app.notice.clone().unwrap();
    assert!(notice.is_error);
    assert_eq!(
        notice.text,
        "cannot cancel 7: the ledger cannot be written (free space on the disk)"
    );
    app.update(later(29), Msg::Tick);
    assert!(app.notice.is_some());
    app.update(later(31), Msg::Tick);
    assert!(app.notice.is_none());
    // Before the first response neither can be chosen.
    assert_eq!(type_keys(&mut blank(80, 24), "pPcu"), []);
}

#[test]
fn message_is_written_and_sent_to_the_agent_of_the_issue() {
    let mut app = app(80, 24, 5);
    let message = |text: &str, interrupt| {
        Steering::SendMessage(NewMessage {
            issue: "PROJ-104".into(),
            text: text.to_owned(),
            interrupt,
        })
    };
    // Letters of a message are not keys.
    assert_eq!(type_keys(&mut app, "mquit"), []);
    assert_eq!(press(&mut app, KeyCode::Enter), steer(message("quit", false)));
    let done = Steered {
        count: 1,
        nothing: None,
    };
    send(
        &mut app,
        Msg::Steered(message("quit", false).into(), Ok(done.clone())),
    );
    let notice = app.notice.as_ref().unwrap().text.clone();
    assert!(
        notice.starts_with("message sent to the agent of PROJ-104 ("),
        "{notice}"
    );
    type_keys(&mut app, "mstop");
    press(&mut app, KeyCode::Tab);
    send(&mut app, Msg::Paste("\r\n\u{1b}now".to_owned()));
    assert_eq!(
        press(&mut app, KeyCode::Enter),
        steer(message("stop\n now", true))
    );
    // Nothing is sent without text, or after Esc.
    type_keys(&mut app, "m ");
    assert_eq!(press(&mut app, KeyCode::Enter), []);
    type_keys(&mut app, "mnever");
    assert_eq!(press(&mut app, KeyCode::Esc), []);
    assert_eq!(app.mode, Mode::Normal);
    let mut other = status(5);
    for session in &mut other.sessions {
        session.not_steerable_because = Some("`runtime: command`".to_owned());
    }
    send(&mut app, Msg::State(Ok(Box::new(other))));
    send(&mut app, Msg::Steered(message("a", false).into(), Ok(done)));
    let notice = app.notice.as_ref().unwrap().text.clone();
    assert!(
        notice.ends_with("cannot be steered: `runtime: command`"),
        "{notice}"
    );
}

#[test]
fn question_is_answered_by_a_text_or_by_the_number_of_a_choice() {
    let mut app = app(80, 24, 5);
    type_keys(&mut app, "A");
    assert_eq!(app.notice.as_ref().unwrap().text, "no open question here");
    let question: QuestionView = serde_json::from_value(serde_json::json!({
        "run_id": "r", "issue_id": "PROJ-104", "issue_title": "Title", "stage": "plan", "needs_person": false,
        "id": "00000000-0000-0000-0000-000000000000", "text": "Which?", "choices": ["a", "b"],
        "since": "2026-03-04T12:00:00Z",
    }))
    .unwrap();
    let answer = |reply| {
        Steering::AnswerQuestion(NewAnswer {
            issue: "PROJ-104".into(),
            stage: Some("plan".into()),
            question: Some(question.question.id),
            reply,
        })
    };
    app.status.as_mut().unwrap().questions = vec![question.clone()];
    assert_eq!(type_keys(&mut app, "A2"), []);
    assert_eq!(press(&mut app, KeyCode::Enter), steer(answer(Reply::Choice(2))));
    type_keys(&mut app, "Aquit 3");
    let text = Reply::Text("quit 3".to_owned());
    assert_eq!(press(&mut app, KeyCode::Enter), steer(answer(text)));
    type_keys(&mut app, "A ");
    assert_eq!(press(&mut app, KeyCode::Enter), []);
    assert_eq!(app.notice.as_ref().unwrap().text, "an empty answer was not sent");
}
