//! How a run ends.

use std::time::{Duration, Instant};

use super::*;
use crate::agent::output::OutputSchema;
use crate::agent::verify::Verify;
use crate::events::ExitReason;

fn ended(played: &Played) -> (ExitReason, &str) {
    (
        played.ending.reason,
        played.ending.message.as_deref().unwrap_or_default(),
    )
}

#[test]
fn done_is_done() {
    let played = Scene::new().tell(vec![sh("echo hi"), says("Done.")]);
    assert_eq!(ended(&played), (ExitReason::Done, ""));
    assert_eq!(played.seen.len(), 2);
}

#[test]
fn a_run_that_changed_nothing_and_says_little_is_sent_back_once() {
    let played = Scene::new().tell(vec![says("Done."), says("ok")]);
    assert_eq!(
        ended(&played),
        (
            ExitReason::NoProgress,
            "the model changed nothing and said little"
        )
    );
    assert!(last_user(&played.seen[1]).contains("changed nothing"));
    assert!(played.events.iter().any(|event| event["type"] == "guard"));
    let played = Scene::new().tell(vec![says("Done."), says(REPORT)]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    // Reading alone changes nothing either.
    let played = Scene::new().tell(vec![calls(&[("list_dir", json!({}))]), says("ok"), says("ok")]);
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
}

#[test]
fn what_was_meant_for_a_tool_is_no_end() {
    let made_up = "I changed it.\n<tool_response>\nedited a.py\n</tool_response>";
    let unread = "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.py\", }\n}}}\n```";
    let unknown = "```json\n{\"name\": \"is_even\", \"arguments\": {\"n\": 10}}\n```";
    let played = Scene::new().tell(vec![
        says(made_up),
        says(unread),
        says(unknown),
        sh("true"),
        says(REPORT),
    ]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(last_user(&played.seen[1]).contains("made up the result"));
    assert!(last_user(&played.seen[2]).contains("cannot be read"));
    assert!(last_user(&played.seen[3]).contains("there is no tool \"is_even\". "));
    let played = Scene::new().tell(vec![
        says(unread),
        says("I changed nothing."),
        says(REPORT),
        says(REPORT),
    ]);
    assert_eq!(
        ended(&played),
        (
            ExitReason::NoProgress,
            "the model called no tool, again and again"
        )
    );
}

#[test]
fn a_result_that_is_said_again_is_not_made_up_and_one_of_nothing_is() {
    let again = "<tool_response>\nhello there\n</tool_response>";
    let played = Scene::new().tell(vec![sh("echo hello there"), says(again)]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    let nothing = "<tool_response>\n</tool_response>";
    let played = Scene::new().tell(vec![sh("echo hello there"), says(nothing), says(REPORT)]);
    assert_eq!((played.ending.reason, played.seen.len()), (ExitReason::Done, 3));
}

#[test]
fn a_plan_alone_is_no_work_and_a_fence_alone_is_asked_about_once() {
    let plan = || {
        calls(&[(
            "update_plan",
            json!({"steps": [{"text": "all of it", "status": "done"}]}),
        )])
    };
    let played = Scene::new().tell(vec![
        plan(),
        says(REPORT),
        says(REPORT),
        says(REPORT),
        says(REPORT),
    ]);
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
    let shown = "```json\n{\"name\": \"demo\", \"port\": 8080}\n```";
    let played = Scene::new().tell(vec![says(shown), says(shown)]);
    assert_eq!(
        played.ending.reason,
        ExitReason::Done,
        "it may be what was asked for"
    );
    assert!(last_user(&played.seen[1]).contains("called no tool"));
}

#[test]
fn a_second_look_is_asked_for_once_and_only_where_it_is_set() {
    let scene = || Scene::settings(|settings| settings.second_look = true);
    let played = scene().tell(vec![sh("true"), says(REPORT), says(REPORT)]);
    assert_eq!((played.ending.reason, played.seen.len()), (ExitReason::Done, 3));
    assert!(last_user(&played.seen[2]).contains("No file was changed so far"));
    let played = scene().tell(vec![says(REPORT); 5]);
    assert_eq!(
        played.ending.reason,
        ExitReason::NoProgress,
        "nothing was ever called"
    );
}

#[test]
fn who_went_in_circles_and_gives_up_has_not_done_the_task() {
    let look = || calls(&[("list_dir", json!({}))]);
    let played = Scene::new().tell(vec![
        look(),
        look(),
        look(),
        says("I cannot find what was asked for."),
    ]);
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
}

#[test]
fn limits_of_tokens_and_money_end_before_the_next_request() {
    let scene = Scene::settings(|settings| settings.limits.tokens = Some(100_000));
    let played = scene.play(|_, _| Ok(used(sh("true"), 49_000, 0.0)));
    assert_eq!(played.ending.reason, ExitReason::Limit);
    assert_eq!(played.seen.len(), 2, "the third request would not fit");
    let scene = Scene::settings(|settings| settings.limits.usd = Some(1.0));
    let played = scene.play(|_, _| Ok(used(sh("true"), 1, 0.3)));
    assert_eq!((played.ending.reason, played.seen.len()), (ExitReason::Limit, 3));
    // What was paid for already is the end that it is.
    let scene = Scene::settings(|settings| settings.limits.tokens = Some(100_000));
    let played = scene.tell(vec![used(says(REPORT), 500_000, 0.0)]);
    assert_eq!(played.ending.reason, ExitReason::Done);
}

#[test]
fn a_cost_limit_without_a_price_is_refused() {
    let mut scene = Scene::settings(|settings| settings.limits.usd = Some(1.0));
    scene.priced = false;
    let played = scene.tell(vec![]);
    assert_eq!((played.ending.reason, played.seen.len()), (ExitReason::Config, 0));
}

#[test]
fn the_time_limit_interrupts_a_command() {
    let scene = Scene::settings(|settings| settings.limits.time = Some(Duration::from_millis(300)));
    let start = Instant::now();
    let played = scene.tell(vec![sh("sleep 1000")]);
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!(
        ended(&played),
        (ExitReason::Limit, "the time limit of 0.3 s is reached")
    );
    assert!(played.events.iter().any(|event| event["type"] == "tool_result"));
}

#[test]
fn a_check_that_fails_sends_the_model_back_with_its_output() {
    let scene =
        Scene::settings(|settings| settings.verify = Some(Verify::new("echo 'no x here'; test -e x")));
    let played = scene.tell(vec![sh("true"), says("Done."), sh("touch x"), says("Done now.")]);
    assert_eq!(ended(&played), (ExitReason::Done, ""));
    let told = last_user(&played.seen[2]);
    assert!(
        told.contains("no x here") && told.contains("exit code 1"),
        "{told}"
    );
    let checks: Vec<_> = played
        .events
        .iter()
        .filter(|event| event["type"] == "verify")
        .collect();
    assert_eq!(checks.len(), 2);
}

#[test]
fn a_check_that_never_passes_is_no_success_whatever_is_said() {
    let scene = Scene::settings(|settings| settings.verify = Some(Verify::new("exit 7")));
    let played = scene.play(|number, _| {
        Ok(if number % 2 == 0 {
            sh(&format!("echo {number}"))
        } else {
            says("All tests pass.")
        })
    });
    assert_eq!(
        ended(&played),
        (ExitReason::Failed, "the check `exit 7` fails: exit code 7")
    );
    assert_eq!(played.ending.class.as_deref(), Some("verify"));
    assert_eq!(played.seen.len(), 6, "three times it said so");
}

#[test]
fn an_answer_of_the_wrong_form_goes_back_twice() {
    let schema = || OutputSchema::new(json!({"type": "object", "required": ["n"]})).unwrap();
    let scene = Scene::settings(|settings| settings.output = Some(schema()));
    let played = scene.tell(vec![says("It is 3."), says("{\"m\": 3}"), says("{\"n\": 3}")]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(last_user(&played.seen[1]).contains("JSON Schema"));
    let scene = Scene::settings(|settings| settings.output = Some(schema()));
    let played = scene.play(|_, _| Ok(says("It is 3.")));
    assert_eq!((played.ending.reason, played.seen.len()), (ExitReason::Failed, 3));
}

#[test]
fn a_refusal_and_a_pause() {
    let refusal = Turn {
        stop: StopReason::Refusal,
        ..says("I will not.")
    };
    let played = Scene::new().tell(vec![refusal]);
    assert_eq!(
        ended(&played),
        (ExitReason::Failed, "the model refused: I will not.")
    );
    let pause = Turn {
        stop: StopReason::Pause,
        ..says("I search.")
    };
    let played = Scene::new().tell(vec![pause, says(REPORT)]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(
        matches!(played.seen[1].last(), Some(Message::Assistant(_))),
        "it just goes on"
    );
}

#[test]
fn answers_that_are_cut_off_again_and_again_are_no_success() {
    let cut = || Turn {
        stop: StopReason::MaxTokens,
        ..says("a long story about nothing in particular")
    };
    let played = Scene::new().tell(vec![cut(), sh("true"), cut(), cut(), cut()]);
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
    assert!(last_user(&played.seen[1]).contains("cut off"));
}

#[test]
fn a_denial_that_ends_the_work_is_told_as_one() {
    let mut scene = Scene::new();
    scene.permission = Permission::ReadOnly;
    let played = scene.tell(vec![sh("touch x"), says("I did it, all is well.")]);
    assert_eq!(played.ending.reason, ExitReason::Denied);
    assert!(!scene.work().join("x").exists());
}

/// A run whose last call was refused, whatever else it did before, with this check.
fn refused_at_the_end(check: &str, answers: usize) -> Played {
    let mut scene = Scene::settings(|settings| settings.verify = Some(Verify::new(check)));
    scene.permission = Permission::ReadOnly;
    std::fs::write(scene.work().join("x"), "").unwrap();
    let mut turns = vec![calls(&[("list_dir", json!({}))]), sh("touch y")];
    turns.extend(vec![says(REPORT); answers]);
    scene.tell(turns)
}

#[test]
fn with_a_check_a_refused_last_call_fails_nothing() {
    let played = refused_at_the_end("test -e x", 1);
    assert!(
        played
            .events
            .iter()
            .any(|event| event["type"] == "tool_result" && event["denied"] == true)
    );
    assert_eq!(ended(&played), (ExitReason::Done, ""));
}

#[test]
fn a_check_that_fails_after_a_refused_call_fails_the_run_and_says_both() {
    let played = refused_at_the_end("test -e y", 3);
    let (reason, message) = ended(&played);
    assert_eq!(reason, ExitReason::Failed);
    assert_eq!(played.ending.class.as_deref(), Some("verify"));
    assert!(
        message.starts_with("the check `test -e y` fails: exit code 1; the last tool call was refused: "),
        "{message}"
    );
    assert_eq!(played.seen.len(), 5, "the model is sent back twice");
}

#[test]
fn a_request_that_is_too_long_is_asked_again_shorter_at_most_twice() {
    let scene = Scene::turns(20);
    std::fs::write(scene.work().join("big"), "line of text\n".repeat(1000)).unwrap();
    let read = |from: usize| calls(&[("read_file", json!({"path": "big", "offset": from + 1}))]);
    let mut overflows = 0;
    let played = scene.play(|number, messages| {
        let bytes: usize = messages.iter().map(crate::agent::compaction::size).sum();
        if bytes > 60_000 {
            overflows += 1;
            return Err(ProviderError::Overflow("too long".to_owned()));
        }
        Ok(if number < 12 { read(number) } else { says(REPORT) })
    });
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(overflows >= 1);
    let compactions = played.events.iter().filter(|event| event["type"] == "compaction");
    assert_eq!(compactions.count(), overflows);

    let played = Scene::new().play(|_, _| Err(ProviderError::Overflow("too long".to_owned())));
    assert_eq!(played.ending.reason, ExitReason::Failed);
    assert_eq!(played.ending.class.as_deref(), Some("context"));
    assert_eq!(played.seen.len(), 1, "the task alone cannot be made shorter");
}

#[test]
fn what_happens_while_a_summary_is_asked_for_is_reported() {
    let mut scene = Scene::settings(|settings| settings.summaries = true);
    scene.window = Some(20_000);
    // Words of the model are left out by whole turns, and only for those a summary is asked for.
    let talk = |number: usize| {
        let mut turn = sh(&format!("echo {number}"));
        let text = format!("thought number {number}, ").repeat(100);
        turn.blocks.insert(0, Block::Text { text });
        turn
    };
    let played = scene.play(|number, messages| {
        Ok(match number {
            _ if is_for_summary(messages) => says("I thought about it, and go on."),
            0..60 => talk(number),
            _ => says(REPORT),
        })
    });
    let count = |kind: &str| played.events.iter().filter(|event| event["type"] == kind).count();
    let asked = played
        .seen
        .iter()
        .filter(|messages| is_for_summary(messages))
        .count();
    assert!(asked >= 1, "{:?}", played.ending);
    assert_eq!(count("retry"), asked);
}

#[test]
fn going_in_circles_is_told_once_and_then_ends_with_its_own_reason() {
    let played = Scene::new().play(|_, _| Ok(calls(&[("list_dir", json!({}))])));
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
    assert!(
        played
            .ending
            .message
            .is_some_and(|message| message.contains("same"))
    );
    let corrected = |messages: &&Vec<Message>| matches!(messages.last(), Some(Message::User { text }) if text.contains("in circles"));
    assert_eq!(played.seen.iter().filter(corrected).count(), 1);
    assert!(played.seen.len() < 10);
    let guards = played.events.iter().filter(|event| event["type"] == "guard");
    assert_eq!(guards.count(), 2);
}
