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
fn final_answer_after_work_is_done() {
    let played = Scene::new().play_turns(vec![sh("echo hi"), text_turn("Done.")]);
    assert_eq!(ended(&played), (ExitReason::Done, ""));
    assert_eq!(played.seen.len(), 2);
}

#[test]
fn short_answer_without_changes_is_retried_once() {
    let played = Scene::new().play_turns(vec![text_turn("Done."), text_turn("ok")]);
    assert_eq!(
        ended(&played),
        (
            ExitReason::NoProgress,
            "the model changed nothing and gave almost no answer"
        )
    );
    assert!(last_user(&played.seen[1]).contains("changed nothing"));
    assert!(played.events("guard").next().is_some());
    let played = Scene::new().play_turns(vec![text_turn("Done."), text_turn(REPORT)]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    // Reading alone changes nothing either.
    let played = Scene::new().play_turns(vec![
        calls(&[("list_dir", json!({}))]),
        text_turn("ok"),
        text_turn("ok"),
    ]);
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
}

#[test]
fn unreadable_tool_call_is_not_a_final_answer() {
    let made_up = "I changed it.\n<tool_response>\nedited a.py\n</tool_response>";
    let unread = "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.py\", }\n}}}\n```";
    let unknown = "```json\n{\"name\": \"is_even\", \"arguments\": {\"n\": 10}}\n```";
    let played = Scene::new().play_turns(vec![
        text_turn(made_up),
        text_turn(unread),
        text_turn(unknown),
        sh("true"),
        text_turn(REPORT),
    ]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(last_user(&played.seen[1]).contains("made up the result"));
    assert!(last_user(&played.seen[2]).contains("cannot be read"));
    assert!(last_user(&played.seen[3]).contains("there is no tool \"is_even\". "));
    let played = Scene::new().play_turns(vec![
        text_turn(unread),
        text_turn("I changed nothing."),
        text_turn(REPORT),
        text_turn(REPORT),
    ]);
    assert_eq!(
        ended(&played),
        (ExitReason::NoProgress, "the model called no tool, repeatedly")
    );
}

#[test]
fn repeated_result_is_accepted_and_invented_result_is_not() {
    let again = "<tool_response>\nhello there\n</tool_response>";
    let played = Scene::new().play_turns(vec![sh("echo hello there"), text_turn(again)]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    let nothing = "<tool_response>\n</tool_response>";
    let played = Scene::new().play_turns(vec![
        sh("echo hello there"),
        text_turn(nothing),
        text_turn(REPORT),
    ]);
    assert_eq!((played.ending.reason, played.seen.len()), (ExitReason::Done, 3));
}

#[test]
fn plan_alone_is_not_work_and_fence_alone_is_questioned_once() {
    let plan = || {
        calls(&[(
            "update_plan",
            json!({"steps": [{"text": "all of it", "status": "done"}]}),
        )])
    };
    let played = Scene::new().play_turns(vec![
        plan(),
        text_turn(REPORT),
        text_turn(REPORT),
        text_turn(REPORT),
        text_turn(REPORT),
    ]);
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
    let shown = "```json\n{\"name\": \"demo\", \"port\": 8080}\n```";
    let played = Scene::new().play_turns(vec![text_turn(shown), text_turn(shown)]);
    assert_eq!(
        played.ending.reason,
        ExitReason::Done,
        "it may be what was asked for"
    );
    assert!(last_user(&played.seen[1]).contains("called no tool"));
}

#[test]
fn second_review_is_requested_once_and_only_if_set() {
    let scene = || Scene::settings(|settings| settings.second_look = true);
    let played = scene().play_turns(vec![sh("true"), text_turn(REPORT), text_turn(REPORT)]);
    assert_eq!((played.ending.reason, played.seen.len()), (ExitReason::Done, 3));
    assert!(last_user(&played.seen[2]).contains("No file was changed so far"));
    let played = scene().play_turns(vec![text_turn(REPORT); 5]);
    assert_eq!(
        played.ending.reason,
        ExitReason::NoProgress,
        "nothing was ever called"
    );
}

#[test]
fn giving_up_after_a_loop_is_no_progress() {
    let list = || calls(&[("list_dir", json!({}))]);
    let played = Scene::new().play_turns(vec![
        list(),
        list(),
        list(),
        text_turn("I cannot find what was asked for."),
    ]);
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
}

#[test]
fn token_and_cost_limits_end_before_the_next_request() {
    let scene = Scene::settings(|settings| settings.limits.tokens = Some(100_000));
    let played = scene.play(|_, _| Ok(used(sh("true"), 49_000, 0.0)));
    assert_eq!(played.ending.reason, ExitReason::Limit);
    assert_eq!(played.seen.len(), 2, "the third request would not fit");
    let scene = Scene::settings(|settings| settings.limits.usd = Some(1.0));
    let played = scene.play(|_, _| Ok(used(sh("true"), 1, 0.3)));
    assert_eq!((played.ending.reason, played.seen.len()), (ExitReason::Limit, 3));
    // Tokens already paid for do not change the outcome.
    let scene = Scene::settings(|settings| settings.limits.tokens = Some(100_000));
    let played = scene.play_turns(vec![used(text_turn(REPORT), 500_000, 0.0)]);
    assert_eq!(played.ending.reason, ExitReason::Done);
}

#[test]
fn cost_limit_without_a_price_is_refused() {
    let mut scene = Scene::settings(|settings| settings.limits.usd = Some(1.0));
    scene.priced = false;
    let played = scene.play_turns(vec![]);
    assert_eq!((played.ending.reason, played.seen.len()), (ExitReason::Config, 0));
}

#[test]
fn time_limit_interrupts_a_command() {
    let scene = Scene::settings(|settings| settings.limits.time = Some(Duration::from_millis(300)));
    let start = Instant::now();
    let played = scene.play_turns(vec![sh("sleep 1000")]);
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!(
        ended(&played),
        (ExitReason::Limit, "reached the time limit of 0.3 s")
    );
    assert!(played.events("tool_result").next().is_some());
}

#[test]
fn failed_check_returns_its_output_to_the_model() {
    let scene =
        Scene::settings(|settings| settings.verify = Some(Verify::new("echo 'no x here'; test -e x")));
    let played = scene.play_turns(vec![
        sh("true"),
        text_turn("Done."),
        sh("touch x"),
        text_turn("Done now."),
    ]);
    assert_eq!(ended(&played), (ExitReason::Done, ""));
    let feedback = last_user(&played.seen[2]);
    assert!(
        feedback.contains("no x here") && feedback.contains("exit code 1"),
        "{feedback}"
    );
    assert_eq!(played.events("verify").count(), 2);
}

#[test]
fn check_that_never_passes_fails_the_run() {
    let scene = Scene::settings(|settings| settings.verify = Some(Verify::new("exit 7")));
    let played = scene.play(|number, _| {
        Ok(if number % 2 == 0 {
            sh(&format!("echo {number}"))
        } else {
            text_turn("All tests pass.")
        })
    });
    assert_eq!(
        ended(&played),
        (
            ExitReason::Failed,
            "the verify command `exit 7` failed: exit code 7"
        )
    );
    assert_eq!(played.ending.class.as_deref(), Some("verify"));
    assert_eq!(played.seen.len(), 6, "three times it said so");
}

#[test]
fn answer_that_violates_the_schema_is_retried_twice() {
    let schema = || OutputSchema::new(json!({"type": "object", "required": ["n"]})).unwrap();
    let scene = Scene::settings(|settings| settings.output = Some(schema()));
    let played = scene.play_turns(vec![
        text_turn("It is 3."),
        text_turn("{\"m\": 3}"),
        text_turn("{\"n\": 3}"),
    ]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(last_user(&played.seen[1]).contains("JSON Schema"));
    let scene = Scene::settings(|settings| settings.output = Some(schema()));
    let played = scene.play(|_, _| Ok(text_turn("It is 3.")));
    assert_eq!((played.ending.reason, played.seen.len()), (ExitReason::Failed, 3));
}

#[test]
fn refusal_fails_and_pause_continues() {
    let refusal = Turn {
        stop: StopReason::Refusal,
        ..text_turn("I will not.")
    };
    let played = Scene::new().play_turns(vec![refusal]);
    assert_eq!(
        ended(&played),
        (ExitReason::Failed, "the model refused: I will not.")
    );
    let pause = Turn {
        stop: StopReason::Pause,
        ..text_turn("I search.")
    };
    let played = Scene::new().play_turns(vec![pause, text_turn(REPORT)]);
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(
        matches!(played.seen[1].last(), Some(Message::Assistant(_))),
        "the run continues"
    );
}

#[test]
fn repeatedly_cut_off_answers_fail_the_run() {
    let cut = || Turn {
        stop: StopReason::MaxTokens,
        ..text_turn("a long story about nothing in particular")
    };
    let played = Scene::new().play_turns(vec![cut(), sh("true"), cut(), cut(), cut()]);
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
    assert!(last_user(&played.seen[1]).contains("cut off"));
}

#[test]
fn final_denial_is_reported_as_denied() {
    let mut scene = Scene::new();
    scene.permission = Permission::ReadOnly;
    let played = scene.play_turns(vec![sh("touch x"), text_turn("I did it, all is well.")]);
    assert_eq!(played.ending.reason, ExitReason::Denied);
    assert!(!scene.work().join("x").exists());
}

/// Plays a run whose last call was refused, with this check.
fn refused_at_the_end(check: &str, answers: usize) -> Played {
    let mut scene = Scene::settings(|settings| settings.verify = Some(Verify::new(check)));
    scene.permission = Permission::ReadOnly;
    std::fs::write(scene.work().join("x"), "").unwrap();
    let mut turns = vec![calls(&[("list_dir", json!({}))]), sh("touch y")];
    turns.extend(vec![text_turn(REPORT); answers]);
    scene.play_turns(turns)
}

#[test]
fn passing_check_overrides_a_refused_last_call() {
    let played = refused_at_the_end("test -e x", 1);
    assert!(played.events("tool_result").any(|event| event["denied"] == true));
    assert_eq!(ended(&played), (ExitReason::Done, ""));
}

#[test]
fn failed_check_after_a_refused_call_reports_both() {
    let played = refused_at_the_end("test -e y", 3);
    let (reason, message) = ended(&played);
    assert_eq!(reason, ExitReason::Failed);
    assert_eq!(played.ending.class.as_deref(), Some("verify"));
    assert!(
        message.starts_with(
            "the verify command `test -e y` failed: exit code 1; the last tool call was refused: "
        ),
        "{message}"
    );
    assert_eq!(played.seen.len(), 5, "the model is sent back twice");
}

#[test]
fn overlong_request_is_shortened_at_most_twice() {
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
        Ok(if number < 12 {
            read(number)
        } else {
            text_turn(REPORT)
        })
    });
    assert_eq!(played.ending.reason, ExitReason::Done);
    assert!(overflows >= 1);
    let compactions = played.events("compaction");
    assert_eq!(compactions.count(), overflows);

    let played = Scene::new().play(|_, _| Err(ProviderError::Overflow("too long".to_owned())));
    assert_eq!(played.ending.reason, ExitReason::Failed);
    assert_eq!(played.ending.class.as_deref(), Some("context"));
    assert_eq!(played.seen.len(), 1, "the task alone cannot be made shorter");
}

#[test]
fn summary_request_reports_activity() {
    let mut scene = Scene::settings(|settings| settings.summaries = true);
    scene.window = Some(20_000);
    // Text of the model is dropped in whole turns, and only then is a summary requested.
    let talk = |number: usize| {
        let mut turn = sh(&format!("echo {number}"));
        let text = format!("thought number {number}, ").repeat(100);
        turn.blocks.insert(0, Block::Text { text });
        turn
    };
    let played = scene.play(|number, messages| {
        Ok(match number {
            _ if is_for_summary(messages) => text_turn("I thought about it, and go on."),
            0..60 => talk(number),
            _ => text_turn(REPORT),
        })
    });
    let count = |kind: &str| played.events(kind).count();
    let asked = played
        .seen
        .iter()
        .filter(|messages| is_for_summary(messages))
        .count();
    assert!(asked >= 1, "{:?}", played.ending);
    assert_eq!(count("retry"), asked);
}

#[test]
fn loop_is_corrected_once_then_ends_with_its_own_reason() {
    let played = Scene::new().play(|_, _| Ok(calls(&[("list_dir", json!({}))])));
    assert_eq!(played.ending.reason, ExitReason::NoProgress);
    assert!(ended(&played).1.contains("same"));
    let corrected = |messages: &&Vec<Message>| matches!(messages.last(), Some(Message::User { text }) if text.contains("in circles"));
    assert_eq!(played.seen.iter().filter(corrected).count(), 1);
    assert!(played.seen.len() < 10);
    let guards = played.events("guard");
    assert_eq!(guards.count(), 2);
}
